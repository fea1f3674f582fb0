"""How long a client goes on asking, against endpoints that are a few lines each."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from firesteel.client.transport import CONNECT_TIMEOUT_S, ClusterUnreachable, Transport
from tests.client.conftest import question

PATIENCE_S = 60.0
HOUR_S = 3_600.0

NOT_LEADING = b'HTTP/1.1 503 Service Unavailable\r\nContent-Length: 23\r\n\r\n{"errors":["election"]}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

Serve = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Clock:
    """Moves when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def answering(content: bytes) -> Serve:
    async def serve(writer: asyncio.StreamWriter) -> None:
        writer.write(content)

    return serve


@contextlib.asynccontextmanager
async def endpoint(*serves: Serve) -> AsyncIterator[str]:
    """URL of one that serves its first connection as the first says, and so on; all others as the last does."""
    left = list(serves)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await question(reader)
            await (left.pop(0) if len(left) > 1 else left[0])(writer)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def after(clock: Clock, seconds: float, content: bytes = b"") -> Serve:
    """One that says something, is there for so long, and breaks off."""

    async def serve(writer: asyncio.StreamWriter) -> None:
        writer.write(content)
        await writer.drain()
        clock.now_s += seconds
        writer.transport.abort()

    return serve


def test_patience_begins_when_a_long_request_breaks() -> None:
    """A standby says at once that nobody leads: who has waited for an hour has still all his patience."""
    clock = Clock()

    async def story() -> None:
        async with endpoint(after(clock, HOUR_S), answering(NOT_LEADING), answering(ANSWER)) as url:
            transport = Transport([url], patience_s=PATIENCE_S, clock=clock)
            assert await transport.request("GET", "/v1/jobs/1/execution-result", wait_s=HOUR_S) == b"{}"
            await transport.close()

    asyncio.run(story())


@pytest.mark.parametrize("last_words", [b"", NOT_LEADING])
def test_patience_begins_anew_with_a_leader_that_was_there_for_a_while(last_words: bytes) -> None:
    """One leader after the other dies, each after a while; the standby that has handed the request on says that, or not."""
    clock = Clock()

    async def dying(writer: asyncio.StreamWriter) -> None:
        clock.now_s += PATIENCE_S / 2
        writer.write(last_words)

    async def story() -> None:
        served = [each for _ in range(3) for each in (dying, answering(NOT_LEADING))]
        async with endpoint(*served, answering(ANSWER)) as url:
            transport = Transport([url], patience_s=PATIENCE_S, clock=clock)
            assert await transport.request("GET", "/v1/jobs/1/execution-result", wait_s=PATIENCE_S) == b"{}"
            await transport.close()

    asyncio.run(story())


def test_leaders_that_come_and_go_fast_are_leaders() -> None:
    """None is there long enough for the answer that is waited for, and each answers what need not wait."""
    clock, asked = Clock(), []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await question(reader)
        except ConnectionError:
            writer.close()
            return
        asked.append(head.split()[1])
        if asked[-1] == b"/v1/overview" or len(asked) > 9:
            writer.write(ANSWER)
            await writer.drain()
        else:
            clock.now_s += 1.0
        writer.close()

    async def story() -> None:
        async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            transport = Transport([url], patience_s=3.0, clock=clock)
            assert await transport.request("GET", "/v1/jobs/1/execution-result", wait_s=PATIENCE_S) == b"{}"
            await transport.close()

    asyncio.run(story())


def test_patience_ends_with_who_breaks_off_at_once() -> None:
    """A proxy without a master behind it."""
    clock = Clock()

    async def story() -> None:
        async with endpoint(after(clock, 1.0)) as url:
            transport = Transport([url], patience_s=3.0, clock=clock)
            with pytest.raises(ClusterUnreachable):
                await transport.request("GET", "/v1/overview")
            await transport.close()

    asyncio.run(story())


@pytest.mark.parametrize("status", ["502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout"])
def test_what_proxies_say_without_a_master_is_waited_out(status: str) -> None:
    async def story() -> None:
        nobody = f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()
        async with endpoint(answering(nobody), answering(ANSWER)) as url:
            transport = Transport([url])
            assert await transport.request("GET", "/v1/overview") == b"{}"
            await transport.close()

    asyncio.run(story())


def test_a_stream_that_breaks_after_an_hour_ends_and_is_asked_for_again() -> None:
    """Broken off or closed alike: its reader connects again, meets a standby, and then the next leader."""
    clock = Clock()
    line = b"6\r\nevent\n\r\n"

    async def story() -> None:
        serves = [after(clock, HOUR_S, STREAM + line), answering(NOT_LEADING), answering(STREAM + line + b"0\r\n\r\n")]
        async with endpoint(*serves) as url:
            transport = Transport([url], patience_s=PATIENCE_S, clock=clock)
            for _ in range(2):
                assert [each async for each in transport.lines("/v1/jobs/1/events")] == ["event"]
            await transport.close()

    asyncio.run(story())


def test_nobody_is_waited_for_longer_than_patience_says() -> None:
    clock = Clock()

    async def leading_nowhere(writer: asyncio.StreamWriter) -> None:
        clock.now_s += 20.0
        writer.write(NOT_LEADING)

    async def story() -> None:
        async with endpoint(leading_nowhere) as url:
            transport = Transport([url], patience_s=PATIENCE_S, clock=clock)
            with pytest.raises(ClusterUnreachable, match=r"no master leads at http://[\d.:]+ \(election\)"):
                await transport.request("GET", "/v1/overview")
            with pytest.raises(ClusterUnreachable, match=r"no master leads at http://[\d.:]+ \(election\)"):
                [each async for each in transport.lines("/v1/overview")]
            await transport.close()

    asyncio.run(story())


def test_a_master_that_takes_requests_and_says_nothing_holds_up_nobody_where_another_answers() -> None:
    async def story() -> None:
        silent = asyncio.Event()

        async def serve(writer: asyncio.StreamWriter) -> None:
            await silent.wait()

        async with endpoint(serve) as first, endpoint(answering(ANSWER)) as second:
            transport = Transport([first, second])
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                assert await transport.request("GET", "/v1/jobs") == b"{}"
            silent.set()
            await transport.close()

    asyncio.run(story())
