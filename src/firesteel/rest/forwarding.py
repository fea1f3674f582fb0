"""A master that does not lead hands requests on to the one that does, so that clients may ask any of them."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator
from urllib.parse import quote

import httpcore
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from firesteel.rest.bodies import chunks
from firesteel.rest.errors import NO_LEADER, RestError
from firesteel.runtime.register import Leadership, Registered

FORWARDED = "firesteel-forwarded"
"""Header of a request that was handed on once, which is enough: two masters may take one another for the leader."""

REPEATABLE = ("GET", "HEAD")
"""Methods of requests that change nothing: the next leader may be asked the same."""

CONNECT_TIMEOUT_S = 2.0
KEPT_MAX = 20
"""Connections to the leader that are kept when nothing is under way."""
EVENTS = "text/event-stream"

OF_CONNECTION = ("host", "connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "content-length")
OF_BROWSERS = ("origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest", "sec-fetch-user")
NOT_HANDED_ON = frozenset((*OF_CONNECTION, *OF_BROWSERS))
"""Headers; what browsers say was judged where it came in."""

PATH_CHARACTERS = "/:@!$&'()*+,;=-._~"
"""Characters of a path that are not escaped."""

BROKEN = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)
"""Errors of a connection to a leader."""

logger = logging.getLogger(__name__)


class Forwarding:
    """Hands on what the leader is to answer. `close` ends what is under way.

    An answer may take its time (some requests wait for something), so there is no limit to that. But a leader that does
    not move any more never answers: what is under way to it is broken off when another master leads.
    """

    def __init__(self, leadership: Leadership, tls: ssl.SSLContext) -> None:
        self.leadership = leadership
        self._under_way: dict[asyncio.Timeout, int] = {}
        """What waits for the leader of which epoch."""
        self._unwatch = leadership.watch_leader(self._on_leader)
        self._http = httpcore.AsyncConnectionPool(tls, max_connections=None, max_keepalive_connections=KEPT_MAX)

    async def close(self) -> None:
        self._unwatch()
        await self._http.aclose()

    def is_due(self, request: Request) -> bool:
        """Whether another master leads, as far as is known here."""
        leader = self.leadership.leader
        is_elsewhere = not self.leadership.leads and leader is not None and leader.record.rest != ""
        return is_elsewhere and FORWARDED not in request.headers

    async def forward(self, request: Request) -> Response | None:
        """The leader's answer; None when another master leads since then, and may be asked the same.

        Raises RestError 503 when it does not answer otherwise: what was asked may have been done.
        """
        leader = self.leadership.leader
        assert leader is not None, "it was there a moment ago"
        try:
            async with self._while_leading(leader.epoch):
                return await self._answer(request, leader)
        except TimeoutError:
            logger.info("the leader at %s was replaced before it has answered", leader.record.rest)
        except BROKEN as error:
            logger.info("the leader at %s does not answer (%s)", leader.record.rest, str(error) or type(error).__name__)
            raise RestError(503, NO_LEADER) from None
        if request.method not in REPEATABLE:
            raise RestError(503, NO_LEADER)
        return None

    async def _answer(self, request: Request, leader: Registered) -> Response:
        path = quote(request.scope.get("firesteel.path", request.url.path), safe=PATH_CHARACTERS)
        query = f"?{request.url.query}" if request.url.query else ""
        handed_on = [(name, value) for name, value in request.headers.raw if name.decode() not in NOT_HANDED_ON]
        is_told = "content-length" in request.headers or "transfer-encoding" in request.headers
        has_body = is_told and request.method not in REPEATABLE  # which mean nothing by theirs
        url = httpcore.URL(f"{leader.record.rest}{path}{query}")
        headers = [(b"host", _host(url)), *handed_on, (FORWARDED.encode(), b"1")]
        if has_body:
            headers.append(_length(request))
        asked = httpcore.Request(
            request.method,
            url,
            headers=headers,
            content=chunks(request) if has_body else None,
            extensions={"timeout": {"connect": CONNECT_TIMEOUT_S}},
        )
        answer = await self._http.handle_async_request(asked)
        kept = _kept(answer)
        if kept.get("content-type", "").startswith(EVENTS):
            return StreamingResponse(self._events(answer, leader.epoch), answer.status, kept)
        if not _has_length(answer) and request.method != "HEAD":
            return StreamingResponse(self._parts(answer, leader.epoch), answer.status, kept)
        try:
            return Response(await answer.aread(), answer.status, kept)
        finally:
            await answer.aclose()

    async def _events(self, answer: httpcore.Response, epoch: int) -> AsyncIterator[bytes]:
        """Events until either side goes, or another master leads: who listens connects again."""
        try:
            async for part in self._parts(answer, epoch):
                yield part
        except (*BROKEN, TimeoutError) as error:
            logger.info("the leader has ended a stream (%s)", str(error) or type(error).__name__)

    async def _parts(self, answer: httpcore.Response, epoch: int) -> AsyncIterator[bytes]:
        """An answer of any size as it comes. One that breaks off raises, so that nobody takes it for whole."""
        parts = aiter(answer.aiter_stream())
        try:
            while True:
                async with self._while_leading(epoch):
                    part = await anext(parts, None)
                if part is None:
                    return
                yield part
        finally:
            await answer.aclose()

    @contextlib.asynccontextmanager
    async def _while_leading(self, epoch: int) -> AsyncIterator[None]:
        """Raises TimeoutError in the body once there is a leader of a later epoch."""
        newest = self.leadership.leader
        is_over = newest is not None and newest.epoch > epoch
        async with asyncio.timeout(0 if is_over else None) as limit:
            self._under_way[limit] = epoch
            try:
                yield
            finally:
                del self._under_way[limit]

    def _on_leader(self, leader: Registered) -> None:
        for limit, epoch in self._under_way.items():
            if epoch < leader.epoch and not limit.expired():
                limit.reschedule(0)


def _host(url: httpcore.URL) -> bytes:
    return url.host if url.port is None else b"%b:%d" % (url.host, url.port)


def _length(request: Request) -> tuple[bytes, bytes]:
    """The header that says how long the body is, or that it ends where it ends."""
    length = request.headers.get("content-length")
    return (b"transfer-encoding", b"chunked") if length is None else (b"content-length", length.encode())


def _has_length(answer: httpcore.Response) -> bool:
    return any(name.lower() == b"content-length" for name, _ in answer.headers)


def _kept(answer: httpcore.Response) -> dict[str, str]:
    named = ((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in answer.headers)
    return {name: value for name, value in named if name not in (*NOT_HANDED_ON, "server", "date")}
