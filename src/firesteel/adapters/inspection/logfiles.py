"""Log files of a process, by plain names, read in parts that end where a line does."""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from firesteel.model.inquiries import BEFORE_BYTES_MAX, FILES_MAX, PART_BYTES_MAX, FileEntry, FilePart

_OF_A_JOB = re.compile(r"([0-9a-f]{32})_(.+)")

GROWTH_LOOK_S = 0.2
"""Time between two looks, where it lies, at a file that somebody follows."""


class NoSuchFile(LookupError):
    """The caller's fault: there is no log file of that name."""


class LogFiles:
    """The `*.log` files of a directory, and those below its directories of jobs as `JOB_NAME`. Its methods block.

    Code of users may write there too, so links are not followed: what is told is in this directory.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def list(self, prefix: str = "") -> tuple[FileEntry, ...]:
        """Files whose names begin so, the one that was written last first; at most FILES_MAX."""
        found = [entry for entry in self._entries() if entry.name.startswith(prefix)]
        return tuple(sorted(found, key=lambda entry: entry.modified_ms, reverse=True)[:FILES_MAX])

    def read(self, name: str, offset: int) -> FilePart:
        """The part of a file from `offset` on, or so many bytes before the end. Raises NoSuchFile.

        A file that has become shorter than `offset` was begun anew, and is read from its beginning.
        """
        with self._open(name) as file:
            return read_part(file, os.fstat(file.fileno()).st_size, offset)

    def _entries(self) -> Iterator[FileEntry]:
        for entry in _scan(self._directory):
            if entry.is_dir(follow_symlinks=False) and len(entry.name) == 32:
                for below in _scan(Path(entry.path)):
                    yield from _entry(below, f"{entry.name}_{below.name}")
            else:
                yield from _entry(entry, entry.name)

    def _open(self, name: str) -> BinaryIO:
        """Regular files only, and no way out of the directory."""
        of_job = _OF_A_JOB.fullmatch(name)
        directory, plain = (self._directory / of_job[1], of_job[2]) if of_job else (self._directory, name)
        if "/" in plain or "\0" in plain or not plain.endswith(".log") or directory.is_symlink():
            raise NoSuchFile(name)
        try:
            descriptor = os.open(directory / plain, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            raise NoSuchFile(name) from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise NoSuchFile(name)
        return os.fdopen(descriptor, "rb")


def read_part(file: BinaryIO, size: int, offset: int) -> FilePart:
    """The part of an open file of that size from `offset` on; as LogFiles.read says."""
    start = max(0, size + offset) if offset < 0 else offset if offset <= size else 0
    if offset < 0 and start > 0:
        start = _line_start(file, start)
    begin = max(0, start - BEFORE_BYTES_MAX)
    file.seek(begin)
    before = file.read(start - begin)
    data = _whole_lines(file.read(PART_BYTES_MAX))
    end = start + len(data)
    return FilePart(
        data=data, offset=start, end=end, size_bytes=max(size, end), before=before[before.rfind(b"\n") + 1 :]
    )


def _scan(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


def _entry(entry: os.DirEntry[str], name: str) -> Iterator[FileEntry]:
    try:
        if entry.name.endswith(".log") and entry.is_file(follow_symlinks=False):
            found = entry.stat(follow_symlinks=False)
            yield FileEntry(name, found.st_size, int(found.st_mtime * 1_000))
    except OSError:
        return  # it has gone


def _line_start(file: BinaryIO, start: int) -> int:
    """The beginning of the first line at or after `start`; `start` itself when there is none near."""
    file.seek(start - 1)
    place = file.read(PART_BYTES_MAX).find(b"\n")
    return start if place < 0 else start + place


def _whole_lines(data: bytes) -> bytes:
    """The whole lines of what was read; a line that goes on is left for the next time, unless there is nothing else."""
    return data[: data.rfind(b"\n") + 1] or data
