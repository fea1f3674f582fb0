"""Connections of clients that are slow, gone or hostile: they are cut off, and others are served meanwhile."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from firesteel.testing.backend import TaskScript
from tests.rest.cluster import RestCluster, rest_cluster
from tests.rest.conftest import Do

GET = b"GET /overview HTTP/1.1\r\nHost: localhost\r\n"
LINES = b"x" * 65_536
SIZE = 16 << 20
"""More than the buffers on the way take."""


class Client:
    """Speaks TCP."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def talk_until_cut_off(self, data: bytes) -> int:
        """Say the same again and again; returns how many bytes were taken."""
        said = 0
        try:
            while not self.reader.at_eof():
                self.writer.write(data)
                await self.writer.drain()
                said += len(data)
                await asyncio.sleep(0)
        except ConnectionError:
            pass
        return said

    async def rest_of_all(self) -> int:
        """Bytes until the end of the connection."""
        size = 0
        with contextlib.suppress(ConnectionError):
            while data := await self.reader.read(1 << 20):
                size += len(data)
        return size

    async def status(self) -> bytes:
        """Of an answer; the connection goes on."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        (length,) = [line for line in head.lower().splitlines() if line.startswith(b"content-length")]
        await self.reader.readexactly(int(length.partition(b":")[2]))
        return head.split()[1]


@contextlib.asynccontextmanager
async def clients_of(rest: RestCluster, count: int, said: bytes = b"") -> AsyncIterator[list[Client]]:
    """That say something, and close in the end."""
    clients = [Client(*await asyncio.open_connection(*rest.server.host_port)) for _ in range(count)]
    try:
        for client in clients:
            client.writer.write(said)
        yield clients
    finally:
        for client in clients:
            client.writer.close()


def open_connections(rest: RestCluster) -> int:
    server = rest.server._server
    assert server is not None
    return len(server.server_state.connections)


async def is_served(rest: RestCluster, *, keep: bool = False) -> bool:
    """A connection that is kept for the next time may be cut off just then."""
    answer = await rest.http.get("/overview", headers={"Connection": "keep-alive" if keep else "close"})
    return answer.status_code == 200


@pytest.mark.parametrize("said", [b"", b"\r\n", b"GET /over", GET + b"X: y"])
def test_who_does_not_say_what_he_wants(do: Do, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    """Also on a connection over which something was asked before."""
    monkeypatch.setattr(
        "firesteel.rest.connection.HEAD_TIMEOUT_S", 2.0
    )  # who is served asks sooner, on a busy machine too

    async def story() -> None:
        async with (
            rest_cluster(tmp_path) as rest,
            clients_of(rest, 100, said) as clients,
            clients_of(rest, 1, GET + b"\r\n") as (again,),
        ):
            assert await again.status() == b"200"
            again.writer.write(said or b"\r\n")
            assert await is_served(rest)
            assert [await client.rest_of_all() for client in [*clients, again]] == [0] * 101
            assert await is_served(rest)

    do(story())


@pytest.mark.parametrize(
    "said",
    [
        GET,
        b"POST /jars/upload HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        b"GET /jobs/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: ",
    ],
)
def test_a_head_or_a_tail_without_end(do: Do, tmp_path: Path, said: bytes) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path) as rest, clients_of(rest, 1, said) as (client,):
            assert await client.talk_until_cut_off(b"x: " + LINES if said == GET else LINES) < 64 << 20
            assert await is_served(rest)

    do(story())


def test_who_does_not_read_his_answer(do: Do, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firesteel.rest.connection.WRITE_TIMEOUT_S", 0.2)

    async def story() -> None:
        (tmp_path / "large.log").write_bytes(b"x\n" * (SIZE // 2))
        ask = b"GET /jobmanager/logs/large.log HTTP/1.1\r\nHost: localhost\r\n\r\n"
        async with rest_cluster(tmp_path) as rest, clients_of(rest, 5, ask) as clients:
            for client in clients:
                await client.reader.readexactly(100)
                client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            assert await is_served(rest)
            while open_connections(rest):
                await asyncio.sleep(0.01)
            for client in clients:
                client.writer.transport.resume_reading()  # type: ignore[attr-defined]
                assert await client.rest_of_all() < SIZE

    do(story())


def test_more_connections_than_there_may_be(
    do: Do, script: TaskScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firesteel.rest.connection.CONNECTIONS_MAX", 10)

    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            assert await is_served(rest, keep=True)
            async with clients_of(rest, 20) as clients:
                assert await clients[-1].rest_of_all() == 0
                assert await is_served(rest, keep=True)

    do(story())
