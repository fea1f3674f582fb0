"""A master that does not lead hands requests on to the one that does, so that clients may ask any of them."""

import logging
import ssl
from collections.abc import AsyncIterator

import httpx
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from firesteel.rest.errors import NO_LEADER, RestError
from firesteel.runtime.register import Leadership

FORWARDED = "firesteel-forwarded"
"""Header of a request that was handed on once, which is enough: two masters may take one another for the leader."""

CONNECT_TIMEOUT_S = 2.0
EVENTS = "text/event-stream"

OF_CONNECTION = ("host", "connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "content-length")
OF_BROWSERS = ("origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest", "sec-fetch-user")
NOT_HANDED_ON = frozenset((*OF_CONNECTION, *OF_BROWSERS))
"""Headers; what browsers say was judged where it came in."""

logger = logging.getLogger(__name__)


class Forwarding:
    """Hands on what the leader is to answer. `close` ends what is under way."""

    def __init__(self, leadership: Leadership, tls: ssl.SSLContext) -> None:
        self.leadership = leadership
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        self._http = httpx.AsyncClient(
            verify=tls,
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
            limits=limits,
            trust_env=False,
        )

    async def close(self) -> None:
        await self._http.aclose()

    def is_due(self, request: Request) -> bool:
        """Whether another master leads, as far as is known here."""
        leader = self.leadership.leader
        is_elsewhere = not self.leadership.leads and leader is not None and leader.record.rest != ""
        return is_elsewhere and FORWARDED not in request.headers

    async def forward(self, request: Request) -> Response:
        """The leader's answer. Raises RestError 503 when it does not answer: what was asked may have been done."""
        leader = self.leadership.leader
        assert leader is not None, "it was there a moment ago"
        path = request.scope.get("firesteel.path", request.url.path)
        url = httpx.URL(leader.record.rest).copy_with(path=path, query=request.url.query.encode() or None)
        headers = [(name, value) for name, value in request.headers.items() if name not in NOT_HANDED_ON]
        has_body = "content-length" in request.headers or "transfer-encoding" in request.headers
        asked = self._http.build_request(
            request.method,
            url,
            headers=[*headers, (FORWARDED, "1")],
            content=request.stream() if has_body else None,
        )
        try:
            answer = await self._http.send(asked, stream=True)
            if answer.headers.get("content-type", "").startswith(EVENTS):
                return StreamingResponse(_events(answer), answer.status_code, _kept(answer))
            content = await answer.aread()
        except httpx.TransportError as error:
            logger.info("the leader at %s does not answer (%s)", leader.record.rest, str(error) or type(error).__name__)
            raise RestError(503, NO_LEADER) from None
        return Response(content, answer.status_code, _kept(answer))


def _kept(answer: httpx.Response) -> dict[str, str]:
    """A body arrives decoded, so it has another length."""
    dropped = {*NOT_HANDED_ON, "content-encoding", "server", "date"}
    return {name: value for name, value in answer.headers.items() if name not in dropped}


async def _events(answer: httpx.Response) -> AsyncIterator[bytes]:
    """Until either side goes: who listens connects again."""
    try:
        async for part in answer.aiter_bytes():
            yield part
    except httpx.TransportError as error:
        logger.info("the leader has ended a stream (%s)", str(error) or type(error).__name__)
    finally:
        await answer.aclose()
