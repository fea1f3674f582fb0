"""Blobs on their way from a client to a stored job, safe from the clean-up of other jobs."""

import asyncio
import contextlib
import errno
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from pathlib import Path

from firesteel.adapters.blob.local import BlobStore
from firesteel.core.dispatcher.requests import StorageFull
from firesteel.model import options

FULL = (errno.ENOSPC, errno.EDQUOT)


class BlobUploads:
    """Puts and deletes blobs of jobs. While a client submits a job, no stored job names its blobs yet."""

    def __init__(self, blobs: BlobStore, free_min_bytes: int = 0) -> None:
        """What would leave less free than `free_min_bytes` is not taken: known jobs need that to go on."""
        self._blobs, self._free_min_bytes = blobs, free_min_bytes
        self.outputs = blobs.outputs
        self._in_use: Counter[str] = Counter()
        self._changing = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def put(self, files: Mapping[str, Path]) -> AsyncIterator[None]:
        """Put files by their SHA-256, and keep them until the end of the block. Raises StorageFull, BlobCorrupt."""
        self._in_use.update(files.keys())
        try:
            async with self._changing:
                for sha256, path in files.items():
                    await asyncio.to_thread(self._put, sha256, path)
            yield
        finally:
            async with self._changing:
                self._in_use.subtract(files.keys())

    def _put(self, sha256: str, path: Path) -> None:
        free, size = self._blobs.free_bytes(), path.stat().st_size
        what = f"the master's disk is full: {free >> 20} MiB are free, and an artifact has {size} bytes"
        if free - size < self._free_min_bytes:
            text = f"{what}; {options.BLOB_FREE_MIN.key} keeps {self._free_min_bytes >> 20} MiB for jobs that are known"
            raise StorageFull(f"{text}. Nothing was submitted: free some space, then submit again")
        try:
            self._blobs.put(path, sha256)
        except OSError as error:
            if error.errno in FULL:
                raise StorageFull(f"{what}. Nothing was submitted: free some space, then submit again") from None
            raise

    def path(self, name: str) -> Path:
        """A blob's file, not to be changed. Raises BlobMissing."""
        return self._blobs.path(name)

    async def read(self, name: str) -> bytes:
        """A blob's bytes. Raises BlobMissing."""

        def read() -> bytes:
            return self._blobs.path(name).read_bytes()

        return await asyncio.to_thread(read)

    async def delete_unused(self, names: Iterable[str], used: Callable[[], Collection[str]]) -> None:
        """Delete blobs, but for those that known jobs use and those that a client is submitting a job with."""
        async with self._changing:
            kept = used()
            for name in names:
                if not self._in_use[name] and name not in kept:
                    await asyncio.to_thread(self._blobs.delete, name)
