"""Blobs for other processes, over connections of their own: messages never wait for a large file."""

import asyncio
from pathlib import Path

from firesteel.adapters.blob.local import BlobMissing, BlobStore
from firesteel.adapters.rpc.frames import BlobChunk, BlobEnd, BlobRefused, GetBlob, Ping, ProtocolError
from firesteel.adapters.rpc.stream import PeerStream

BLOBS = "blobs"
"""Purpose of connections that carry blobs."""

CHUNK_BYTES = 1 << 18


class BlobServer:
    """Sends blobs of `store` to who asks for them."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store

    async def serve(self, stream: PeerStream) -> None:
        """Answer one request after the other, until the peer closes. Raises OSError or ProtocolError."""
        async for frame in stream.frames():
            match frame:
                case GetBlob():
                    await self._send(stream, frame.sha256)
                case Ping():
                    pass
                case _:
                    raise ProtocolError(f"it sent a {type(frame).__name__} where it may ask for blobs")

    async def _send(self, stream: PeerStream, sha256: str) -> None:
        try:
            path = self._store.path(sha256)
        except BlobMissing:
            await stream.send(BlobRefused(f"there is no blob {sha256[:64]}", is_missing=True))
            return
        await send_file(stream, path)
        await stream.send(BlobEnd())


async def send_file(stream: PeerStream, path: Path) -> None:
    """As BlobChunks, as fast as the peer takes them. A file that is deleted meanwhile is sent to its end."""
    with await asyncio.to_thread(path.open, "rb") as file:
        while data := await asyncio.to_thread(file.read, CHUNK_BYTES):
            await stream.send(BlobChunk(data))
