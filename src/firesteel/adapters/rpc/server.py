"""The port of a process: takes connections, shakes hands, and hands each to whom it is for."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from firesteel.adapters.rpc.frames import ProtocolError
from firesteel.adapters.rpc.settings import NetworkSettings
from firesteel.adapters.rpc.stream import READ_BYTES, PeerStream
from firesteel.runtime.background import BackgroundTasks

CONNECTIONS_MAX = 10_000
"""Connections at one time, of peers and of whoever is none."""

logger = logging.getLogger(__name__)

StreamHandler = Callable[[PeerStream], Awaitable[object]]
"""Serves one connection to its end."""


class PeerServer:
    """Listens, once `listen` was called; `handlers` by the purpose that the peer's Hello names."""

    def __init__(self, settings: NetworkSettings, handlers: Mapping[str, StreamHandler]) -> None:
        self._settings, self._handlers = settings, handlers
        self._server: asyncio.Server | None = None
        self._tasks = BackgroundTasks()
        self._connections = 0

    async def listen(self, host: str, port: int) -> int:
        """Take connections; returns the port. Raises OSError when it is taken."""
        tls = self._settings.server_tls
        tls_limit_s = self._settings.connect_timeout_s if tls else None
        self._server = await asyncio.start_server(
            self._connected, host, port, limit=READ_BYTES, ssl=tls, ssl_handshake_timeout=tls_limit_s
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Take no more, and end those that are. Idempotent."""
        if self._server is not None:
            self._server.close()
        await self._tasks.close()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._connections >= CONNECTIONS_MAX:
            logger.warning("refused a connection: %d are open", self._connections)
            writer.transport.abort()
            return
        self._connections += 1
        self._tasks.start(self._serve(reader, writer), "connection")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            stream = await PeerStream.accept(reader, writer, self._settings)
            handler = self._handlers.get(stream.peer.purpose)
            if handler is None:
                raise ProtocolError(f"it wants {stream.peer.purpose!r}, which is not served here")
            await handler(stream)
        except (OSError, ProtocolError) as error:
            logger.warning("a connection from %s ended: %s", writer.get_extra_info("peername"), error)
        finally:
            self._connections -= 1
            writer.transport.abort()
