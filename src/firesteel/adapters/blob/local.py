"""A content-addressed store in a directory: a blob's name is the SHA-256 of its bytes."""

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Protocol

from firesteel.adapters.blob.outputs import Outputs, OutputStore
from firesteel.adapters.storage.durability import sync

_SHA256 = re.compile(r"[0-9a-f]{64}")
_UNFINISHED = ".put-"
"""Begins the names of files that are being written."""


class BlobMissing(Exception):
    """No such blob here."""


class BlobCorrupt(Exception):
    """The bytes are not those that the name stands for."""


class BlobStore(Protocol):
    """The store of a machine's artifacts and other blobs. Blocking: call from a thread."""

    def put(self, source: Path, sha256: str | None = None) -> str:
        """Copy a file in and return its SHA-256. Raises BlobCorrupt when that is not `sha256`."""

    def path(self, sha256: str) -> Path:
        """The blob's file, not to be changed. Raises BlobMissing, or OSError when it can't be had."""

    def delete(self, sha256: str) -> None:
        """Remove a blob; one that is not there is fine."""

    def put_before(self, moment_ms: int) -> list[str]:
        """Names of all blobs that were put before that; whatever a process that was killed wrote then is removed."""

    def free_bytes(self) -> int:
        """Space for further blobs."""

    def used_bytes(self) -> int:
        """Space that all blobs take."""

    @property
    def outputs(self) -> Outputs:
        """The output of scripts."""


class BlobSource(Protocol):
    """The place that a worker has a job's artifacts from, and puts the rows into that the job returns."""

    async def fetch(self, sha256: str) -> Path:
        """The blob's file on this machine, not to be changed. Raises BlobMissing, or OSError when it can't be had."""

    async def let_go(self, sha256: str) -> None:
        """Nobody here needs the blob any more."""

    async def keep(self, path: Path, sha256: str) -> None:
        """Put a copy of a file where the master finds it. Raises OSError or BlobCorrupt."""

    async def drop(self, sha256: str) -> None:
        """Take back what was put there; one that is not there is fine. Raises OSError."""

    async def append_output(self, job_id: str, name: str, offset: int, data: bytes) -> None:
        """Add to what a script has printed, where the master finds it; may be repeated. Raises OSError."""


class LocalBlobStore:
    """A `BlobStore` in `directory`, and a `BlobSource`. Any number of processes may share it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.outputs: Outputs = OutputStore(directory / "outputs")
        directory.mkdir(parents=True, exist_ok=True)

    def put(self, source: Path, sha256: str | None = None) -> str:
        descriptor, name = tempfile.mkstemp(dir=self._directory, prefix=_UNFINISHED)
        try:
            digest = hashlib.sha256()
            with open(source, "rb") as reader, os.fdopen(descriptor, "wb") as writer:
                while chunk := reader.read(1 << 20):
                    digest.update(chunk)
                    writer.write(chunk)
                writer.flush()
                os.fsync(writer.fileno())
            found = digest.hexdigest()
            if sha256 is not None and found != sha256:
                raise BlobCorrupt(f"{source} has SHA-256 {found}, not {sha256}")
            os.replace(name, self._directory / found)
            sync(self._directory)
            return found
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def put_before(self, moment_ms: int) -> list[str]:
        found = []
        for entry in os.scandir(self._directory):
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                if not entry.is_file() or entry.stat().st_mtime * 1000 >= moment_ms:
                    continue
                if entry.name.startswith(_UNFINISHED):
                    os.unlink(entry.path)
                elif _SHA256.fullmatch(entry.name):
                    found.append(entry.name)
        return sorted(found)

    def free_bytes(self) -> int:
        return shutil.disk_usage(self._directory).free

    def used_bytes(self) -> int:
        with os.scandir(self._directory) as entries:
            return sum(entry.stat().st_size for entry in entries if _SHA256.fullmatch(entry.name))

    def adopt(self, path: Path, sha256: str) -> Path:
        """Take a file of this directory in by moving it. Raises BlobCorrupt when its SHA-256 is another."""
        with open(path, "rb") as reader:
            found = hashlib.file_digest(reader, "sha256").hexdigest()
            os.fsync(reader.fileno())
        if found != sha256:
            raise BlobCorrupt(f"{path} has SHA-256 {found}, not {sha256}")
        os.replace(path, self._directory / found)
        sync(self._directory)
        return self._directory / found

    def new_file(self) -> Path:
        """A file to write what `adopt` then takes in."""
        descriptor, name = tempfile.mkstemp(dir=self._directory, prefix=_UNFINISHED)
        os.close(descriptor)
        return Path(name)

    async def fetch(self, sha256: str) -> Path:
        return self.path(sha256)

    async def let_go(self, sha256: str) -> None:
        """Does nothing: the blob belongs to the jobs that name it, not to the cache."""

    async def keep(self, path: Path, sha256: str) -> None:
        await asyncio.to_thread(self.put, path, sha256)

    async def drop(self, sha256: str) -> None:
        await asyncio.to_thread(self.delete, sha256)

    async def append_output(self, job_id: str, name: str, offset: int, data: bytes) -> None:
        await self.outputs.append(job_id, name, offset, data)

    def path(self, sha256: str) -> Path:
        path = self._directory / checked_blob(sha256)
        if not path.is_file():
            raise BlobMissing(sha256)
        return path

    def delete(self, sha256: str) -> None:
        (self._directory / checked_blob(sha256)).unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove everything."""
        shutil.rmtree(self._directory, ignore_errors=True)


def checked_blob(sha256: str) -> str:
    """Names come from clients: one that is no hash must not become a path."""
    if _SHA256.fullmatch(sha256) is None:
        raise BlobMissing(sha256)
    return sha256
