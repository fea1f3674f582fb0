"""A standby in the same process as its leader: what it hands on, and what that may cost it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from firesteel.assembly.client import MasterClient
from firesteel.core.leadership.lease import Sign
from firesteel.model.options import Configuration
from firesteel.rest.server import RestServer, serve_rest
from firesteel.runtime.register import LeaderRecord, Registered
from tests.rest.cluster import RestCluster, rest_cluster
from tests.rest.conftest import Do


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
                async with asyncio.timeout(30):
                    assert (await reader.readline()).split()[1] == b"408", server.address
                writer.close()

    do(story())
