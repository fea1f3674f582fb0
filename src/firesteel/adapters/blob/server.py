"""Blobs for other processes, over connections of their own: messages never wait for a large file."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from firesteel.adapters.blob.local import BlobCorrupt, BlobMissing, BlobStore
from firesteel.adapters.blob.threads import in_blob_thread
from firesteel.adapters.rpc.frames import (
    AppendOutput,
    BlobChunk,
    BlobEnd,
    BlobRefused,
    DropBlob,
    Frame,
    GetBlob,
    Ping,
    ProtocolError,
    PutBlob,
)
from firesteel.adapters.rpc.stream import PeerStream
from firesteel.runtime.background import BackgroundTasks

BLOBS = "blobs"
"""Purpose of connections that carry blobs."""

CHUNK_BYTES = 1 << 18


class BlobServer:
    """Sends blobs of `store` to who asks for them, and takes those that workers make."""

    def __init__(self, store: BlobStore, size_limit_bytes: int) -> None:
        self._store, self._limit = store, size_limit_bytes

    async def serve(self, stream: PeerStream) -> None:
        """Answer one request after the other, until the peer closes. Raises OSError or ProtocolError."""
        frames = stream.frames()
        async for frame in frames:
            match frame:
                case GetBlob():
                    await self._send(stream, frame.sha256)
                case PutBlob():
                    await self._take(stream, frames, frame.sha256)
                case DropBlob():
                    await self._drop(stream, frame.sha256)
                case AppendOutput():
                    await self._append(stream, frame)
                case Ping():
                    pass
                case _:
                    raise ProtocolError(f"it sent a {type(frame).__name__} where it may ask for blobs")

    async def _send(self, stream: PeerStream, sha256: str) -> None:
        try:
            async with _signs_of_life(stream):
                path = await in_blob_thread(self._store.path, sha256)
        except BlobMissing:
            await stream.send(BlobRefused(f"there is no blob {sha256[:64]}", is_missing=True))
            return
        await send_file(stream, path)
        await stream.send(BlobEnd())

    async def _take(self, stream: PeerStream, frames: AsyncIterator[Frame], sha256: str) -> None:
        with tempfile.NamedTemporaryFile(prefix="firesteel-blob-") as file:
            size = 0
            async for frame in frames:
                if not isinstance(frame, BlobChunk):
                    break
                size += len(frame.data)
                if size > self._limit:
                    raise ProtocolError(f"it sends a blob larger than blob.size.max, {self._limit} bytes")
                await asyncio.to_thread(file.write, frame.data)
            else:
                raise ConnectionResetError("the connection ended within a blob")
            if not isinstance(frame, BlobEnd):
                raise ProtocolError(f"it sent a {type(frame).__name__} within a blob")
            file.flush()
            try:
                async with _signs_of_life(stream):
                    await in_blob_thread(self._store.put, Path(file.name), sha256)
            except (OSError, BlobCorrupt) as error:
                await stream.send(BlobRefused(str(error)))
            else:
                await stream.send(BlobEnd())

    async def _append(self, stream: PeerStream, output: AppendOutput) -> None:
        try:
            async with _signs_of_life(stream):
                await self._store.outputs.append(output.job_id, output.name, output.offset, output.data)
        except OSError as error:
            await stream.send(BlobRefused(str(error)))
        else:
            await stream.send(BlobEnd())

    async def _drop(self, stream: PeerStream, sha256: str) -> None:
        with contextlib.suppress(BlobMissing):
            async with _signs_of_life(stream):
                await in_blob_thread(self._store.delete, sha256)
        await stream.send(BlobEnd())


@contextlib.asynccontextmanager
async def _signs_of_life(stream: PeerStream) -> AsyncIterator[None]:
    """While the store works, however long: who waits for the answer would take silence for a connection that is lost."""

    async def ping() -> None:
        with contextlib.suppress(OSError):  # the answer can't be sent either
            while True:
                await asyncio.sleep(stream.settings.keep_alive_interval_s)
                await stream.send(Ping())

    pings = BackgroundTasks()
    pings.start(ping(), "blob-pings")
    try:
        yield
    finally:
        await pings.close()


async def send_file(stream: PeerStream, path: Path) -> None:
    """Send a file as BlobChunks, as fast as the peer takes them. One that is deleted meanwhile is sent to its end."""
    with await asyncio.to_thread(path.open, "rb") as file:
        while data := await asyncio.to_thread(file.read, CHUNK_BYTES):
            await stream.send(BlobChunk(data))
