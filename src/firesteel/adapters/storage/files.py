"""Files by name, of one master or of all that share a storage: each is there whole, or not at all."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from firesteel.adapters.storage.durability import sync
from firesteel.adapters.storage.objects import Objects

_UNFINISHED = ".write-"
"""Begins the names of files that are being written."""


class Files(Protocol):
    """Blocking: call from a thread. Errors are OSErrors; a file that is not there is a FileNotFoundError."""

    def names(self) -> list[str]:
        """Names of all files, sorted."""

    def has(self, name: str) -> bool:
        """Whether there is such a file; nothing of it is read."""

    def read(self, name: str) -> bytes: ...

    def path(self, name: str) -> Path:
        """A file on this machine with what was written first under that name; not to be changed."""

    def write(self, name: str, content: bytes | Path) -> None:
        """Make a file, from bytes or as a copy, in place of the one that is there."""

    def delete(self, name: str) -> None:
        """One that is not there is fine."""


class DirectoryFiles:
    """`Files` in a directory. What was written is there after a power cut, too."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def names(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            return sorted(name for name in os.listdir(self._directory) if not name.startswith(_UNFINISHED))
        return []

    def has(self, name: str) -> bool:
        return (self._directory / name).is_file()

    def read(self, name: str) -> bytes:
        return self.path(name).read_bytes()

    def path(self, name: str) -> Path:
        path = self._directory / name
        if not path.is_file():
            raise FileNotFoundError(str(path))
        return path

    def write(self, name: str, content: bytes | Path) -> None:
        with _new_file(self._directory) as new:
            _fill(new, content)
            sync(new)
            os.replace(new, self._directory / name)
            sync(self._directory)

    def delete(self, name: str) -> None:
        (self._directory / name).unlink(missing_ok=True)


class ObjectFiles:
    """`Files` as objects whose names begin with `prefix`; `cache` is a directory of this process for those that were used."""

    def __init__(self, objects: Objects, prefix: str, cache: Path) -> None:
        self._objects, self._prefix, self._cache = objects, prefix, cache

    def names(self) -> list[str]:
        return self._objects.files(self._prefix)

    def has(self, name: str) -> bool:
        return self._objects.has(self._prefix + name)

    def read(self, name: str) -> bytes:
        with _new_file(self._cache) as new:
            self._objects.download(self._prefix + name, new)
            return new.read_bytes()

    def path(self, name: str) -> Path:
        path = self._cache / name
        if not path.is_file():
            with _new_file(self._cache) as new:
                self._objects.download(self._prefix + name, new)
                os.replace(new, path)
        return path

    def write(self, name: str, content: bytes | Path) -> None:
        with _new_file(self._cache) as new:
            _fill(new, content)
            self._objects.upload(self._prefix + name, new)
            if isinstance(content, Path):  # which is wanted as a file soon
                os.replace(new, self._cache / name)

    def delete(self, name: str) -> None:
        self._objects.delete(self._prefix + name)
        (self._cache / name).unlink(missing_ok=True)


@contextlib.contextmanager
def _new_file(directory: Path) -> Iterator[Path]:
    """A file of that directory, which goes in the end unless it was moved."""
    directory.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=directory, prefix=_UNFINISHED)
    os.close(descriptor)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _fill(new: Path, content: bytes | Path) -> None:
    if isinstance(content, bytes):
        new.write_bytes(content)
    else:
        shutil.copyfile(content, new)
