"""The worker's side of the blob server: blobs are fetched once, checked, and kept while they are used; rows go there."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from firesteel.adapters.blob.local import BlobCorrupt, BlobMissing, LocalBlobStore
from firesteel.adapters.blob.server import BLOBS, send_file
from firesteel.adapters.rpc.frames import (
    AppendOutput,
    BlobChunk,
    BlobEnd,
    BlobRefused,
    DropBlob,
    GetBlob,
    Ping,
    ProtocolError,
    PutBlob,
)
from firesteel.adapters.rpc.settings import NetworkSettings
from firesteel.adapters.rpc.stream import PeerStream

TRIES_MAX, TRIES_MAX_WITH_SUCCESSORS, RETRY_S = 3, 120, 0.5
"""How often a blob is asked for while the connection fails: for good, or until another master has taken over; and
the time between two tries."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


class BlobTooLarge(OSError):
    """The blob is larger than this worker takes: so it is at the next try, too."""


class RemoteBlobs:
    """A `BlobSource` that has its blobs from the blob server at `server`, which may change, by way of `cache`."""

    def __init__(
        self, cache: LocalBlobStore, server: tuple[str, int], settings: NetworkSettings, size_limit_bytes: int
    ) -> None:
        self._cache, self.server, self._settings, self._limit = cache, server, settings, size_limit_bytes
        self.tries_max = TRIES_MAX
        self._fetching = asyncio.Lock()

    async def fetch(self, sha256: str) -> Path:
        async with self._fetching:
            try:
                return self._cache.path(sha256)
            except BlobMissing:
                return await self._fetch(sha256)

    async def let_go(self, sha256: str) -> None:
        await asyncio.to_thread(self._cache.delete, sha256)

    async def keep(self, path: Path, sha256: str) -> None:
        await self._tried(f"take blob {sha256}", lambda: self._send(PutBlob(sha256), path))

    async def drop(self, sha256: str) -> None:
        await self._tried(f"drop blob {sha256}", lambda: self._send(DropBlob(sha256)))

    async def append_output(self, job_id: str, name: str, offset: int, data: bytes) -> None:
        request = AppendOutput(job_id, name, offset, data)
        await self._tried(f"take what job {job_id} prints", lambda: self._send(request))

    async def _fetch(self, sha256: str) -> Path:
        """Raises BlobMissing or OSError."""
        return await self._tried(f"send artifact {sha256}", lambda: self._fetch_once(sha256))

    async def _tried(self, what: str, work: Callable[[], Awaitable[T]]) -> T:
        """Up to `tries_max` times. Raises OSError, and what is no fault of the connection."""
        last: Exception | None = None
        why = ""
        for attempt in range(1, self.tries_max + 1):
            try:
                return await work()
            except BlobTooLarge:
                raise
            except (OSError, ProtocolError, BlobCorrupt) as error:
                last, why = error, str(error) or type(error).__name__
                logger.warning("the master did not %s (try %d of %d): %s", what, attempt, self.tries_max, why)
            await asyncio.sleep(RETRY_S)
        raise OSError(f"{self.server[0]}:{self.server[1]} did not {what}: {why}") from last

    async def _send(self, request: PutBlob | DropBlob | AppendOutput, path: Path | None = None) -> None:
        """Raises OSError or ProtocolError when it is not done."""
        stream = await PeerStream.connect(*self.server, BLOBS, self._settings)
        try:
            await stream.send(request)
            if path is not None:
                await send_file(stream, path)
                await stream.send(BlobEnd())
            async for frame in stream.frames():
                if isinstance(frame, Ping):
                    continue
                if isinstance(frame, BlobEnd):
                    return
                raise ProtocolError(f"it answered with {frame}")
            raise ConnectionResetError("the connection ended before the answer")
        finally:
            stream.abort()

    async def _fetch_once(self, sha256: str) -> Path:
        stream = await PeerStream.connect(*self.server, BLOBS, self._settings)
        new = await asyncio.to_thread(self._cache.new_file)
        try:
            with await asyncio.to_thread(new.open, "wb") as file:
                async for data in self._chunks(stream, sha256):
                    await asyncio.to_thread(file.write, data)
            return await asyncio.to_thread(self._cache.adopt, new, sha256)
        finally:
            stream.abort()
            new.unlink(missing_ok=True)

    async def _chunks(self, stream: PeerStream, sha256: str) -> AsyncIterator[bytes]:
        await stream.send(GetBlob(sha256))
        size = 0
        async for frame in stream.frames():
            match frame:
                case BlobChunk():
                    size += len(frame.data)
                    if size > self._limit:
                        raise BlobTooLarge(f"artifact {sha256} is larger than blob.size.max, {self._limit} bytes")
                    yield frame.data
                case Ping():
                    pass
                case BlobEnd():
                    return
                case BlobRefused(is_missing=True):
                    raise BlobMissing(sha256)
                case _:
                    raise ProtocolError(f"it answered with {frame}")
        raise ConnectionResetError("the connection ended within the blob")
