"""Ways to peers: a connection that is there, or one that is made when there is something to say."""

import asyncio
import itertools
import logging
import random
from collections import deque
from collections.abc import Callable
from typing import Protocol

from firesteel.adapters.rpc.frames import Frame, Hello, Ping, ProtocolError
from firesteel.adapters.rpc.settings import NetworkSettings
from firesteel.adapters.rpc.stream import PeerStream
from firesteel.model.backoff import ExponentialBackoff
from firesteel.runtime.background import BackgroundTasks

MESSAGES = "messages"
"""Purpose of connections that carry envelopes."""

CONNECT_QUEUE_MAX = 10_000
"""Messages that may wait for a connection to be made."""

RETRY_DELAYS_S = ExponentialBackoff(0.1, 2.0)
"""Time between a failed connection and the next try."""

_NUMBERS = itertools.count()

logger = logging.getLogger(__name__)


class Way(Protocol):
    """A way for messages to a peer. Told `lost` when those on it may not have arrived."""

    def send(self, data: bytes) -> None: ...


class Channel:
    """Carries frames over one connection until it ends. What is said in one turn of the loop leaves in one write."""

    def __init__(self, stream: PeerStream, on_frame: Callable[[Way, Frame], None], way: Way | None = None) -> None:
        self._stream, self._on_frame, self._way = stream, on_frame, way or self
        self._outbox: list[bytes] = []
        self._cut = ""
        self.number = next(_NUMBERS)
        """Larger than those of all channels before it."""

    @property
    def peer(self) -> Hello:
        return self._stream.peer

    async def run(self) -> str:
        """Serve the connection to its end; returns why it ended."""
        loop = asyncio.get_running_loop()
        self._pinging = loop.call_soon(self._ping)
        try:
            async for frame in self._stream.frames():
                self._on_frame(self._way, frame)
            reason = "it has closed the connection"
        except TimeoutError:
            reason = f"nothing was heard of it for {self._stream.settings.keep_alive_timeout_s:g} s"
        except (OSError, ProtocolError) as error:
            reason = str(error)
        finally:
            self._pinging.cancel()
            self._stream.abort()
        return self._cut or reason

    def send(self, data: bytes) -> None:
        if not self._outbox:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outbox.append(data)

    async def close(self) -> None:
        """Let what was said leave, then end."""
        self._flush()
        await self._stream.close()

    def _flush(self) -> None:
        if not self._outbox:
            return
        self._stream.write(b"".join(self._outbox))
        self._outbox.clear()
        limit = self._stream.settings.write_buffer_bytes
        if self._stream.waiting_bytes > limit:
            self._cut = f"it reads too slowly: more than {limit} bytes wait for it"
            self._stream.abort()

    def _ping(self) -> None:
        interval_s = self._stream.settings.keep_alive_interval_s
        self._pinging = asyncio.get_running_loop().call_later(interval_s, self._ping)
        self.send(self._stream.encode(Ping()))


class Link:
    """The way to a process that listens at `host` and `port`: connects when there is something to send.

    `on_failed` is told of each connection that could not be made, `on_lost` when messages may not have arrived; then the next one makes a new connection,
    after a delay that grows while that fails. Until it has passed messages are lost at once.
    """

    def __init__(
        self,
        host: str,
        port: int,
        settings: NetworkSettings,
        *,
        on_frame: Callable[[Way, Frame], None],
        on_lost: Callable[[Way, str], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        self.host, self.port = host, port
        self._settings, self._on_frame = settings, on_frame
        self._on_lost, self._on_failed = on_lost, on_failed
        self._tasks = BackgroundTasks()
        self._queue: deque[bytes] = deque()
        self._channel: Channel | None = None
        self._is_connecting = False
        self._failures = 0
        self._retry_at_s = 0.0
        self._reason = ""

    def send(self, data: bytes) -> None:
        if self._channel is not None:
            self._channel.send(data)
        elif asyncio.get_running_loop().time() < self._retry_at_s or len(self._queue) >= CONNECT_QUEUE_MAX:
            self._on_lost(self, self._reason or "too many messages wait for a connection")
        else:
            self._queue.append(data)
            if not self._is_connecting:
                self._is_connecting = True
                self._tasks.start(self._run(), f"link to {self.host}:{self.port}")

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()
        await self._tasks.close()

    async def _run(self) -> None:
        try:
            stream = await PeerStream.connect(self.host, self.port, MESSAGES, self._settings)
        except (OSError, ProtocolError) as error:
            self._failed(error)
        else:
            self._failures = 0
            self._channel = Channel(stream, self._on_frame, self)
            for data in self._queue:
                self._channel.send(data)
            self._reason = await self._channel.run()
            logger.info("the connection to %s at %s:%d ended: %s", stream.peer.node, self.host, self.port, self._reason)
        self._channel, self._is_connecting = None, False
        self._queue.clear()
        self._on_lost(self, self._reason)

    def _failed(self, error: OSError | ProtocolError) -> None:
        text = str(error) or f"no answer within {self._settings.connect_timeout_s:g} s"
        self._reason = f"{self.host}:{self.port} can't be reached: {text}"
        self._failures += 1
        delay_s = RETRY_DELAYS_S.after(self._failures, chance=random.random())
        self._retry_at_s = asyncio.get_running_loop().time() + delay_s
        logger.log(logging.WARNING if self._failures == 1 else logging.INFO, "%s", self._reason)
        self._on_failed(error)
