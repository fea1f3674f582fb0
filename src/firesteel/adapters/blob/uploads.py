"""Blobs on their way from a client to a stored job, safe from the clean-up of other jobs."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from pathlib import Path

from firesteel.adapters.blob.local import BlobStore


class BlobUploads:
    """Puts and deletes blobs of jobs. While a client submits a job, no stored job names its blobs yet."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs, self.outputs = blobs, blobs.outputs
        self._in_use: Counter[str] = Counter()
        self._changing = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def put(self, files: Mapping[str, Path]) -> AsyncIterator[None]:
        """Put files by their SHA-256, and keep them until the end of the block."""
        self._in_use.update(files.keys())
        try:
            async with self._changing:
                for sha256, path in files.items():
                    await asyncio.to_thread(self._blobs.put, path, sha256)
            yield
        finally:
            async with self._changing:
                self._in_use.subtract(files.keys())

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
