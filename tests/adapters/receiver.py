"""A receiver of webhooks: an HTTP server in this process that remembers what it was sent, and answers as it is told."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

LIMIT_S = 300.0
PART_BYTES = 1 << 16


@dataclass
class Receiver:
    url: str = ""
    answers: list[int] = field(default_factory=list)
    """Statuses of the next answers; 0 breaks the connection off. Then all is well."""
    answer_bytes: int = 0
    """Size of its answers."""
    sent_bytes: int = 0
    """What of that was taken, as far as is known here."""
    bodies: list[bytes] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    refused: int = 0
    connections: list[asyncio.Task[None]] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    _came: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def until(self, count: int) -> list[Any]:
        """The bodies that were taken, once there are so many."""
        async with asyncio.timeout(LIMIT_S), self._came:
            await self._came.wait_for(lambda: len(self.bodies) >= count)
        return [msgspec.json.decode(body) for body in self.bodies]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a server calls this in a task"
        self.connections.append(task)
        self.writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {
                    name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)
                }
                body = await reader.readexactly(int(headers["content-length"]))
                status = self.answers.pop(0) if self.answers else 204
                if 200 <= status < 300:
                    self.bodies.append(body)
                    self.headers.append(headers)
                else:
                    self.refused += 1
                async with self._came:
                    self._came.notify_all()
                if status == 0:
                    break
                writer.write(b"HTTP/1.1 %d It\r\nContent-Length: %d\r\n\r\n" % (status, self.answer_bytes))
                await writer.drain()
                for _ in range(0, self.answer_bytes, PART_BYTES):
                    writer.write(b"x" * PART_BYTES)
                    await writer.drain()
                    self.sent_bytes += PART_BYTES
        writer.close()


@contextlib.asynccontextmanager
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    made.url = f"http://{host}:{port}/hook"
    try:
        yield made
    finally:
        server.close()
        for writer in made.writers:
            writer.close()
        await asyncio.gather(*made.connections)
