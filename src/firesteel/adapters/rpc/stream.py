"""A connection whose handshake is done: frames in, frames out, and a peer that falls silent is noticed."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Self

from firesteel.adapters.rpc.frames import Frame, FrameDecoder, Hello, ProtocolError, encode_frame, preface
from firesteel.adapters.rpc.refusals import HandshakeFailed, in_words
from firesteel.adapters.rpc.settings import NetworkSettings, check_peer
from firesteel.adapters.rpc.transports import read_in_small_parts
from firesteel.model.options import SSL_INTERNAL_CERTIFICATE, SSL_INTERNAL_ENABLED

READ_BYTES = 1 << 18
"""Read ahead of a connection; what lies beyond waits in the kernel, and with the peer."""

CLOSE_S = 2.0
"""Time that what was written last has to leave before a connection is cut."""


class PeerStream:
    """Made by `connect` or `accept`; `close` or `abort` ends it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, settings: NetworkSettings) -> None:
        self.settings = settings
        self.peer: Hello
        self._reader, self._writer = reader, writer
        self._decoder = FrameDecoder(settings.frame_limit_bytes)
        self._early: list[Frame] = []
        read_in_small_parts(writer.transport)
        self._set_socket_options()

    @classmethod
    async def connect(cls, host: str, port: int, purpose: str, settings: NetworkSettings) -> Self:
        """Raises OSError (TimeoutError and HandshakeFailed among them) or ProtocolError."""
        async with asyncio.timeout(settings.connect_timeout_s):
            tls = settings.client_tls
            try:
                reader, writer = await asyncio.open_connection(host, port, limit=READ_BYTES, ssl=tls)
            except ssl.SSLError as error:
                raise HandshakeFailed(in_words(error, host)) from error
            stream = cls(reader, writer, settings)
            await stream._greet(purpose)
        return stream

    @classmethod
    async def accept(
        cls, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, settings: NetworkSettings
    ) -> Self:
        """Raises OSError (TimeoutError among them) or ProtocolError."""
        async with asyncio.timeout(settings.connect_timeout_s):
            stream = cls(reader, writer, settings)
            await stream._greet("")
        return stream

    async def _greet(self, purpose: str) -> None:
        """Both sides speak at once, and both judge."""
        try:
            mine = self.settings.hello(purpose)
            self.write(preface() + self.encode(mine))
            self.peer = await self._hello()
            check_peer(mine, self.peer)
        except ProtocolError:
            await self.close()  # not cut: the other side is to read who this is
            raise
        except BaseException:
            self.abort()
            raise

    async def _hello(self) -> Hello:
        while not self._early:
            data = await self._reader.read(READ_BYTES)
            if not data:
                raise ConnectionResetError(f"it has closed the connection before it said who it is: {self._advice()}")
            self._early += self._decoder.frames(data)
        hello = self._early.pop(0)
        if not isinstance(hello, Hello):
            raise ProtocolError(f"it began with {type(hello).__name__}, not with who it is")
        return hello

    def _advice(self) -> str:
        if self.settings.client_tls is None:
            return f"if it wants TLS, set {SSL_INTERNAL_ENABLED.key}"
        return f"it may not trust the certificate of this process ({SSL_INTERNAL_CERTIFICATE.key}), or speak no TLS"

    async def frames(self) -> AsyncIterator[Frame]:
        """Frames until the peer closes. Raises ProtocolError, or OSError: TimeoutError after too long a silence."""
        for frame in self._early:
            yield frame
        self._early = []
        while data := await self._read():
            for frame in self._decoder.frames(data):
                yield frame
        if not self._decoder.is_between_frames:
            raise ConnectionResetError("it has closed the connection within a message")

    async def _read(self) -> bytes:
        async with asyncio.timeout(self.settings.keep_alive_timeout_s):
            return await self._reader.read(READ_BYTES)

    def encode(self, frame: Frame) -> bytes:
        """Raises FrameTooLarge."""
        return encode_frame(frame, self.settings.frame_limit_bytes)

    def write(self, data: bytes) -> None:
        """Encoded frames; they wait for a peer that reads slowly."""
        self._writer.write(data)

    async def send(self, frame: Frame) -> None:
        """Write, and wait while much is waiting. Raises FrameTooLarge or OSError."""
        self._writer.write(self.encode(frame))
        async with asyncio.timeout(self.settings.keep_alive_timeout_s):
            await self._writer.drain()

    @property
    def waiting_bytes(self) -> int:
        """Bytes that were written and the peer has not taken."""
        return self._writer.transport.get_write_buffer_size()

    async def close(self) -> None:
        """End the connection after what was written has left, within a limit."""
        self._writer.close()
        with contextlib.suppress(OSError):
            async with asyncio.timeout(CLOSE_S):
                await self._writer.wait_closed()
        self.abort()

    def abort(self) -> None:
        """End the connection now."""
        self._writer.transport.abort()

    def _set_socket_options(self) -> None:
        """Have the kernel notice peers that are gone with their machine or their network."""
        found = self._writer.get_extra_info("socket")
        if found is None:
            return
        with contextlib.suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                timeout_ms = round(self.settings.keep_alive_timeout_s * 1000)
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)
