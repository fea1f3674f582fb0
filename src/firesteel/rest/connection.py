"""A connection to the REST endpoint: what a client that is slow, gone or hostile may cost is bounded."""

import asyncio
import logging

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from firesteel.adapters.rpc.transports import read_in_small_parts

CONNECTIONS_MAX = 4_096
"""Open at the same time; others are cut off."""

HEAD_BYTES_MAX = 64 << 10
"""Largest size of what stands before and behind a request's body: the parser keeps it in memory."""

HEAD_TIMEOUT_S = 60.0
"""A client that has not said what it wants for so long is cut off."""

WRITE_TIMEOUT_S = 60.0
"""A client that reads nothing of an answer for so long is cut off."""

logger = logging.getLogger(__name__)


class BoundedConnection(HttpToolsProtocol):
    """uvicorn's protocol has no limit on heads, on the time they take, nor on the time that answers wait to be read."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        read_in_small_parts(transport)
        super().connection_made(transport)
        self._head_bytes: int | None = None
        """Bytes so far of the head that is coming, or of lines about a chunk; None while a body comes, or nothing."""
        self._unanswered = 0
        self._limits: dict[str, asyncio.TimerHandle] = {}
        if len(self.connections) > CONNECTIONS_MAX:
            self._cut_off(f"{CONNECTIONS_MAX} connections are open")
        else:
            self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        for reason in tuple(self._limits):
            self._lift(reason)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head_bytes is not None:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self._cut_off("the head of its request has no end")
                return
        self._watch_head()

    def on_message_begin(self) -> None:
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head_bytes = None
        self._unanswered += 1
        super().on_headers_complete()

    def on_chunk_header(self) -> None:
        """Begin a new count: what follows is data, or lines that end the body."""
        self._head_bytes = 0

    def on_body(self, body: bytes) -> None:
        self._head_bytes = None
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head_bytes = None
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._unanswered -= 1
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._limit("it does not read its answer", WRITE_TIMEOUT_S)

    def resume_writing(self) -> None:
        self._lift("it does not read its answer")
        super().resume_writing()

    def _watch_head(self) -> None:
        """While a head is due, time runs; uvicorn itself looks after connections that are kept for a next request."""
        if self._head_bytes is not None or not self._unanswered:
            self._limit("it does not say what it wants", HEAD_TIMEOUT_S)
        else:
            self._lift("it does not say what it wants")

    def _limit(self, reason: str, seconds: float) -> None:
        if reason not in self._limits:
            self._limits[reason] = self.loop.call_later(seconds, self._cut_off, reason)

    def _lift(self, reason: str) -> None:
        if (timer := self._limits.pop(reason, None)) is not None:
            timer.cancel()

    def _cut_off(self, reason: str) -> None:
        logger.info("cut off %s: %s", self.client, reason)
        self.transport.abort()
