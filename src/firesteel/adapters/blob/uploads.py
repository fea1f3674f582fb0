"""Blobs on their way from a client to a stored job, safe from the clean-up of other jobs."""

import asyncio
import contextlib
import errno
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from pathlib import Path

from firesteel.adapters.blob.local import BlobMissing, BlobStore
from firesteel.adapters.blob.threads import in_blob_thread
from firesteel.model import options
from firesteel.model.refusals import StorageFull
from firesteel.runtime.orphans import Named

logger = logging.getLogger(__name__)

FULL = (errno.ENOSPC, errno.EDQUOT)


class BlobUploads:
    """Puts and deletes blobs of jobs. While a client submits a job, no stored job names its blobs yet."""

    def __init__(self, blobs: BlobStore, free_min_bytes: int = 0, max_bytes: int = 0) -> None:
        """What would leave less free than `free_min_bytes` is not taken: known jobs need that to go on. Nor is what
        would make all blobs together larger than `max_bytes`, if that is not 0."""
        self._blobs, self._free_min_bytes, self._max_bytes = blobs, free_min_bytes, max_bytes
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
                    await in_blob_thread(self._put, sha256, path)
            yield
        finally:
            self._in_use -= Counter(files.keys())  # without those that are at 0 now

    def _put(self, sha256: str, path: Path) -> None:
        free, size = self._blobs.free_bytes(), path.stat().st_size
        what = f"the master's disk is full: {free >> 20} MiB are free, and an artifact has {size} bytes"
        if free - size < self._free_min_bytes:
            text = f"{what}; {options.BLOB_FREE_MIN.key} keeps {self._free_min_bytes >> 20} MiB for jobs that are known"
            raise StorageFull(f"{text}. Nothing was submitted: free some space, then submit again")
        self._check_total(sha256, size)
        try:
            self._blobs.put(path, sha256)
        except OSError as error:
            if error.errno in FULL:
                raise StorageFull(f"{what}. Nothing was submitted: free some space, then submit again") from None
            raise

    def _check_total(self, sha256: str, size: int) -> None:
        """Raises StorageFull for a new blob that would be too much; one that is there already takes no more room."""
        if not self._max_bytes:
            return
        try:
            self._blobs.path(sha256)
        except BlobMissing:
            used = self._blobs.used_bytes()
            if used + size > self._max_bytes:
                text = f"artifacts and returned rows of known jobs take {used} bytes at the master, and one of this job {size}"
                limit = f"{options.BLOB_STORAGE_MAX.key} allows {self._max_bytes >> 20} MiB"
                advice = "wait for jobs to end or be forgotten, or raise it"
                raise StorageFull(f"{text}; {limit}. Nothing was submitted: {advice}, then submit again") from None

    async def path(self, name: str) -> Path:
        """A blob's file, not to be changed. Raises BlobMissing, or OSError when it can't be had."""
        return await in_blob_thread(self._blobs.path, name)

    async def has(self, names: Iterable[str]) -> bool:
        """Whether all of them are there."""
        try:
            for name in names:
                await self.path(name)
        except (BlobMissing, FileNotFoundError):
            return False
        return True

    async def read(self, name: str) -> bytes:
        """A blob's bytes. Raises BlobMissing."""

        def read() -> bytes:
            return self._blobs.path(name).read_bytes()

        return await in_blob_thread(read)

    async def sweep(self, before_ms: int, named: Callable[[], Named | None]) -> bool:
        """Delete what was put before that time, and is named by no job and no client that is submitting one.

        False when what is named can't be told yet. Raises OSError.
        """
        blobs = await in_blob_thread(self._blobs.put_before, before_ms)
        jobs = await self.outputs.jobs_before(before_ms)
        async with self._changing:
            kept = named()
            if kept is None:
                return False
            orphans = [name for name in blobs if not self._in_use[name] and name not in kept.blobs]
            for name in orphans:
                await in_blob_thread(self._blobs.delete, name)
        printed = [job_id for job_id in jobs if job_id not in kept.jobs]
        for job_id in printed:
            await self.outputs.delete(job_id)
        if orphans or printed:
            logger.info("deleted what no job names: %d blobs, and what %d jobs printed", len(orphans), len(printed))
        return True

    async def delete_unused(self, names: Iterable[str], used: Callable[[], Collection[str]]) -> None:
        """Delete blobs, but for those that known jobs use and those that a client is submitting a job with."""
        async with self._changing:
            kept = used()
            unused = [name for name in names if not self._in_use[name] and name not in kept]
            for name in unused:  # of one moment: a submission may end meanwhile, and `kept` not know its job
                await in_blob_thread(self._blobs.delete, name)
