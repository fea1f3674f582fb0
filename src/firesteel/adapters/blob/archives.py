"""Unpacking what a client has packed: nothing outside the directory, and no more than a limit."""

import tarfile
import zipfile
from pathlib import Path

from firesteel.model.jobgraph import Artifact

MEMBERS_MAX = 500_000
UNPACKED_BYTES_MAX = 32 << 30


class BadArchive(ValueError):
    """The archive's author's fault: it is no archive, has too much in it, or things that belong elsewhere."""


def unpack(blob: Path, artifact: Artifact, directory: Path) -> None:
    """The content of a `code` or `archive` artifact. Raises BadArchive; OSError when the disk does not take it."""
    try:
        if artifact.ending in ("", ".zip"):  # code: wheels are zips too
            _unpack_zip(blob, artifact, directory)
        else:
            _unpack_tar(blob, artifact, directory)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, NotImplementedError, UnicodeError) as error:
        raise BadArchive(f"the job's {artifact.name} can't be unpacked: {error}") from error


def _unpack_zip(blob: Path, artifact: Artifact, directory: Path) -> None:
    with zipfile.ZipFile(blob) as archive:
        members = archive.infolist()
        _check_limits(artifact, len(members), sum(member.file_size for member in members))
        archive.extractall(directory)  # drops `..` and absolute names by itself, and makes no links


def _unpack_tar(blob: Path, artifact: Artifact, directory: Path) -> None:
    count = size = 0
    with tarfile.open(blob) as archive:
        for member in archive:
            count, size = count + 1, size + member.size
            _check_limits(artifact, count, size)
            archive.extract(member, directory, filter="data")  # refuses links and paths that lead out, and devices


def _check_limits(artifact: Artifact, members: int, size_bytes: int) -> None:
    if members > MEMBERS_MAX:
        raise BadArchive(f"the job's {artifact.name} has more than {MEMBERS_MAX:,} members")
    if size_bytes > UNPACKED_BYTES_MAX:
        raise BadArchive(f"the job's {artifact.name} has more than {UNPACKED_BYTES_MAX >> 30} GiB unpacked")
