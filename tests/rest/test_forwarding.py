"""A standby in the same process as its leader: what it hands on, and what that may cost it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from firesteel.assembly.client import MasterClient
from firesteel.core.leadership.lease import Sign
from firesteel.model.options import Configuration
from firesteel.rest.server import RestServer, serve_rest
from firesteel.runtime.register import LeaderRecord, Registered
from tests.rest.cluster import RestCluster, rest_cluster
from tests.rest.conftest import Do

LIMIT_S = 30.0


@dataclass
class Elsewhere:
    """Leadership of another master, in all epochs."""

    leader: Registered | None
    leads: bool = False
    listeners: list[Callable[[Registered], None]] = field(default_factory=list)

    def watch_leader(self, listener: Callable[[Registered], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)


@contextlib.asynccontextmanager
async def standby(rest: RestCluster, directory: Path, leader: str) -> AsyncIterator[RestServer]:
    """Of a leader at that address."""
    record = LeaderRecord(name="leader", node="here", host="127.0.0.1", port=1, rest=leader)
    leadership = Elsewhere(Registered(1, record, Sign(1, 1)))
    gateway = MasterClient(rest.cluster.master, leader_wait_s=0.0)
    config = Configuration({"rest.port": "0"})
    async with serve_rest(gateway, config, work_dir=directory / "standby", leadership=leadership) as server:
        yield server


Answering = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def served(answer: Answering) -> AsyncIterator[str]:
    """The address of a leader that does with each connection what `answer` does."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await answer(reader, writer)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"


async def listens(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Without a word."""
    await reader.read()


@pytest.mark.parametrize("head", ["Content-Length: 10", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("path", ["/jobs/%s/savepoints", "/jars/upload"])
def test_a_body_that_does_not_come_is_given_up(
    tmp_path: Path, do: Do, monkeypatch: pytest.MonkeyPatch, head: str, path: str
) -> None:
    """By the master that leads, and by a standby, which waits for it in its place."""
    monkeypatch.setattr("firesteel.rest.bodies.READ_TIMEOUT_S", 0.2)
    kind = "multipart/form-data; boundary=x" if path == "/jars/upload" else "application/json"
    asked = f"POST {path.replace('%s', '0' * 32)} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{head}\r\n\r\n"

    async def story() -> None:
        async with (
            rest_cluster(tmp_path) as rest,
            served(listens) as leader,
            standby(rest, tmp_path, leader) as other,
        ):
            for server in (rest.server, other):
                reader, writer = await asyncio.open_connection(*server.host_port)
                writer.write(asked.encode())
                async with asyncio.timeout(LIMIT_S):
                    assert (await reader.readline()).split()[1] == b"408", server.address
                writer.close()

    do(story())


def test_the_body_of_a_question_is_not_waited_for(tmp_path: Path, do: Do) -> None:
    """It means nothing, and may have no end."""

    async def story() -> None:
        async with rest_cluster(tmp_path) as rest, standby(rest, tmp_path, rest.server.address) as other:
            reader, writer = await asyncio.open_connection(*other.host_port)
            writer.write(b"GET /overview HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
            async with asyncio.timeout(LIMIT_S):
                assert (await reader.readline()).split()[1] == b"200"
            writer.close()

    do(story())


def test_an_answer_of_any_length_is_handed_on_as_it_comes(tmp_path: Path, do: Do) -> None:
    """And one that breaks off is not taken for whole."""

    async def story() -> None:
        goes_on = asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
            await goes_on.wait()
            goes_on.clear()
            writer.write(b"4\r\nlast\r\n" if breaks else b"4\r\nlast\r\n0\r\n\r\n")

        async with rest_cluster(tmp_path) as rest, served(answer) as leader, standby(rest, tmp_path, leader) as other:
            for breaks in (False, True):
                async with (
                    asyncio.timeout(LIMIT_S),
                    httpx.AsyncClient() as http,
                    http.stream("GET", f"{other.address}/jobmanager/log") as answered,
                ):
                    parts = answered.aiter_bytes()
                    assert await anext(parts) == b"first"
                    goes_on.set()
                    with pytest.raises(httpx.RemoteProtocolError) if breaks else contextlib.nullcontext():
                        assert b"".join([part async for part in parts]) == b"last"

    do(story())
