"""Files of one directory that several processes share: each appears whole, once, and is on the disk by then."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

TEMPORARY = ".new-"
"""Begins the names of files that are being written; what a crash left of them means nothing."""

CHECKS = 5
"""Times that a file system is looked at before it is refused."""


class Directory(Protocol):
    """Such files, wherever they are. Blocking, for one thread at a time. Errors are OSErrors that name the file."""

    def names(self) -> list[str]:
        """Names of all files that are there, sorted."""

    def read(self, name: str) -> bytes: ...

    def prepare(self, data: bytes) -> str:
        """Do all that may lack space for what `publish` then makes visible; returns its name until then."""

    def publish(self, prepared: str, name: str) -> None:
        """Give it its name, which nothing may have yet: of any number who try, one does not get FileExistsError."""

    def create(self, name: str, data: bytes) -> None:
        """Prepare and publish in one. Raises FileExistsError."""

    def append(self, name: str, data: bytes) -> None:
        """After an OSError any part of it may be in the file, or none."""

    def remove(self, name: str) -> None:
        """One that is not there is fine. It may come back when the power is cut."""


class System(Protocol):
    """The calls to the operating system; `os` is one, tests have another that loses power."""

    def open(self, path: str, flags: int, mode: int = ...) -> int: ...
    def write(self, descriptor: int, data: memoryview, /) -> int: ...
    def fsync(self, descriptor: int) -> None: ...
    def close(self, descriptor: int) -> None: ...
    def link(self, source: str, target: str) -> None: ...
    def unlink(self, path: str) -> None: ...
    def listdir(self, path: str) -> list[str]: ...
    def read(self, descriptor: int, length: int) -> bytes: ...
    def urandom(self, size: int) -> bytes: ...


class Disk:
    """A `Directory` of the file system."""

    def __init__(self, directory: Path, system: System = os) -> None:
        self.directory, self._system = directory, system

    def names(self) -> list[str]:
        with self._naming(""):
            return sorted(self._system.listdir(str(self.directory)))

    def read(self, name: str) -> bytes:
        with self._naming(name), self._opened(name, os.O_RDONLY) as descriptor:
            parts = []
            while part := self._system.read(descriptor, 1 << 20):
                parts.append(part)
        return b"".join(parts)

    def prepare(self, data: bytes) -> str:
        name = f"{TEMPORARY}{self._system.urandom(16).hex()}"
        with self._naming(name):
            try:
                with self._opened(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY) as descriptor:
                    self._write(descriptor, data)
            except OSError:
                with contextlib.suppress(OSError):
                    self.remove(name)
                raise
        return name

    def publish(self, prepared: str, name: str) -> None:
        with self._naming(name):
            self._system.link(str(self.directory / prepared), str(self.directory / name))
            self._system.unlink(str(self.directory / prepared))
            self._sync_directory()

    def create(self, name: str, data: bytes) -> None:
        prepared = self.prepare(data)
        try:
            self.publish(prepared, name)
        except FileExistsError:
            self.remove(prepared)
            raise

    def check(self) -> None:
        """Raises OSError when files do not appear here as they have to. Whoever begins to lead sweeps what is unfinished, and
        this is in his eyes: so it is tried again."""
        for left in reversed(range(CHECKS)):
            try:
                if self._is_created_once():
                    return
            except FileNotFoundError:
                if not left:
                    raise
        raise OSError(errno.ENOTSUP, "a file was created twice: this file system can't be used", str(self.directory))

    def _is_created_once(self) -> bool:
        name = f"{TEMPORARY}{self._system.urandom(16).hex()}"
        try:
            self.create(name, b"")
            self.create(name, b"")
        except FileExistsError:
            return True
        finally:
            self.remove(name)
        return False

    def append(self, name: str, data: bytes) -> None:
        with self._naming(name), self._opened(name, os.O_WRONLY | os.O_APPEND) as descriptor:
            self._write(descriptor, data)

    def remove(self, name: str) -> None:
        with self._naming(name), contextlib.suppress(FileNotFoundError):
            self._system.unlink(str(self.directory / name))

    def _write(self, descriptor: int, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._system.write(descriptor, left) :]
        self._system.fsync(descriptor)

    def _sync_directory(self) -> None:
        with self._opened("", os.O_RDONLY) as descriptor:
            self._system.fsync(descriptor)

    @contextlib.contextmanager
    def _opened(self, name: str, flags: int) -> Iterator[int]:
        descriptor = self._system.open(str(self.directory / name), flags | os.O_CLOEXEC, 0o600)
        try:
            yield descriptor
        finally:
            self._system.close(descriptor)

    @contextlib.contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.filename is None:
                error.filename = str(self.directory / name)
            raise
