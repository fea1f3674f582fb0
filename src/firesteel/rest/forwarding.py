"""A master that does not lead hands requests on to the one that does, so that clients may ask any of them."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator

import httpx
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from firesteel.rest.errors import NO_LEADER, RestError
from firesteel.runtime.register import Leadership, Registered

FORWARDED = "firesteel-forwarded"
"""Header of a request that was handed on once, which is enough: two masters may take one another for the leader."""

REPEATABLE = ("GET", "HEAD")
"""Methods of requests that change nothing: the next leader may be asked the same."""

CONNECT_TIMEOUT_S = 2.0
EVENTS = "text/event-stream"

OF_CONNECTION = ("host", "connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "content-length")
OF_BROWSERS = ("origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest", "sec-fetch-user")
NOT_HANDED_ON = frozenset((*OF_CONNECTION, *OF_BROWSERS))
"""Headers; what browsers say was judged where it came in."""

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
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        self._http = httpx.AsyncClient(
            verify=tls,
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
            limits=limits,
            trust_env=False,
        )

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
        except httpx.TransportError as error:
            logger.info("the leader at %s does not answer (%s)", leader.record.rest, str(error) or type(error).__name__)
            raise RestError(503, NO_LEADER) from None
        if request.method not in REPEATABLE:
            raise RestError(503, NO_LEADER)
        return None

    async def _answer(self, request: Request, leader: Registered) -> Response:
        path = request.scope.get("firesteel.path", request.url.path)
        url = httpx.URL(leader.record.rest).copy_with(path=path, query=request.url.query.encode() or None)
        headers = [(name, value) for name, value in request.headers.items() if name not in NOT_HANDED_ON]
        has_body = "content-length" in request.headers or "transfer-encoding" in request.headers
        body = await request.body() if request.method in REPEATABLE else request.stream()
        asked = self._http.build_request(
            request.method,
            url,
            headers=[*headers, (FORWARDED, "1")],
            content=body if has_body else None,
        )
        answer = await self._http.send(asked, stream=True)
        if answer.headers.get("content-type", "").startswith(EVENTS):
            return StreamingResponse(self._events(answer, leader.epoch), answer.status_code, _kept(answer))
        return Response(await answer.aread(), answer.status_code, _kept(answer))

    async def _events(self, answer: httpx.Response, epoch: int) -> AsyncIterator[bytes]:
        """Events until either side goes, or another master leads: who listens connects again."""
        parts = answer.aiter_bytes()
        try:
            while True:
                async with self._while_leading(epoch):
                    part = await anext(parts, None)
                if part is None:
                    return
                yield part
        except (httpx.TransportError, TimeoutError) as error:
            logger.info("the leader has ended a stream (%s)", str(error) or type(error).__name__)
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


def _kept(answer: httpx.Response) -> dict[str, str]:
    """A body arrives decoded, so it has another length."""
    dropped = {*NOT_HANDED_ON, "content-encoding", "server", "date"}
    return {name: value for name, value in answer.headers.items() if name not in dropped}
