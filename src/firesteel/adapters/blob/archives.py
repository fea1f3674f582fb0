"""Unpacking what a client has packed: nothing outside the directory, and no more than a limit."""

import gzip
import os
import tarfile
import zipfile
import zlib
from pathlib import Path

from firesteel.model.jobgraph import Artifact

MEMBERS_MAX = 500_000
UNPACKED_BYTES_MAX = 32 << 30
_DAMAGED = (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError)


class BadArchive(ValueError):
    """The archive's author's fault: it is no archive, has too much in it, or things that belong elsewhere."""


def unpack(blob: Path, artifact: Artifact, directory: Path) -> None:
    """The content of a `code` or `archive` artifact. Raises BadArchive; OSError when the disk does not take it."""
    try:
        if artifact.ending in ("", ".zip"):  # code: wheels are zips too
            _unpack_zip(blob, artifact, directory)
        else:
            _unpack_tar(blob, artifact, directory)
    except (*_DAMAGED, NotImplementedError, UnicodeError) as error:
        raise BadArchive(f"the job's {artifact.name} can't be unpacked: {error}") from error


def _unpack_zip(blob: Path, artifact: Artifact, directory: Path) -> None:
    with zipfile.ZipFile(blob) as archive:
        members = archive.infolist()
        _check_limits(artifact, len(members), sum(member.file_size for member in members))
        for member in members:
            path = archive.extract(member, directory)  # drops `..` and absolute names by itself, and makes no links
            if member.external_attr >> 16 & 0o111 and not member.is_dir():
                os.chmod(path, 0o755)


def _unpack_tar(blob: Path, artifact: Artifact, directory: Path) -> None:
    count = size = 0
    outward: list[tarfile.TarInfo] = []
    with tarfile.open(blob) as archive:
        for member in archive:
            count, size = count + 1, size + member.size
            _check_limits(artifact, count, size)
            try:
                archive.extract(member, directory, filter="data")  # refuses links and paths that lead out, and devices
            except tarfile.AbsoluteLinkError:  # as an environment has one to the interpreter that it was made with
                if not member.issym():
                    raise
                outward.append(member)
        for member in outward:  # last: nothing is written through them
            archive.extract(member, directory, filter="tar")


def _check_limits(artifact: Artifact, members: int, size_bytes: int) -> None:
    if members > MEMBERS_MAX:
        raise BadArchive(f"the job's {artifact.name} has more than {MEMBERS_MAX:,} members")
    if size_bytes > UNPACKED_BYTES_MAX:
        raise BadArchive(f"the job's {artifact.name} has more than {UNPACKED_BYTES_MAX >> 30} GiB unpacked")
