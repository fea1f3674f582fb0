"""A real ZooKeeper server beside the tests, and a way to it that can be cut."""

import asyncio
import contextlib
import re
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from firesteel.adapters.ha.zookeeper import ZooKeeperRegister
from firesteel.model import options
from firesteel.model.options import Configuration

LIMIT_S = 300.0
TICK_MS = 500
"""Sessions of 1 to 10 s are possible with it."""

QUORUM = "high-availability.zookeeper.quorum"

DIES_WITH_PARENT = ("setpriv", "--pdeathsig", "TERM")
"""Before a command: it ends with the thread that starts it. Said in the child itself (`preexec_fn`) it needs a fork, which a
process with a gRPC channel does not survive."""

_STARTED = re.compile(r"started zookeeper at 127\.0\.0\.1:(\d+)")


class ZooKeeper:
    """`firesteel zookeeper` as a process, which may be stopped and started again at its port."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.port = directory, 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """From the main thread: it ends with the thread that has started it."""
        arguments = ("--port", str(self.port), "--data-dir", str(self.directory), "--tick-ms", str(TICK_MS))
        log = self.directory.with_suffix(".log")
        begin = log.stat().st_size if log.exists() else 0
        with open(log, "ab") as output:
            self._process = subprocess.Popen(
                [*DIES_WITH_PARENT, sys.executable, "-m", "firesteel", "zookeeper", *arguments],
                stdout=output,
                stderr=output,
            )
        until_s = time.monotonic() + LIMIT_S
        while not (found := _STARTED.search(log.read_text(), begin)):
            assert self._process.poll() is None, log.read_text()
            assert time.monotonic() < until_s, log.read_text()
            time.sleep(0.02)
        self.port = int(found[1])

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            assert self._process.wait(LIMIT_S) == 0
            self._process = None

    def kill(self) -> None:
        """The server ends with the process that started it."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(LIMIT_S)
        self._process = None


class PatientRegister(ZooKeeperRegister):
    """The register of `high-availability.type: zookeeper`, with a lease that is not the session's timeout."""

    def __init__(self, config: Configuration) -> None:
        super().__init__(
            config.get_option(options.ZOOKEEPER_QUORUM),
            config.get_option(options.ZOOKEEPER_ROOT),
            session_timeout_s=config.get_option(options.ZOOKEEPER_SESSION_TIMEOUT) / 1000,
            connection_timeout_s=LIMIT_S,
        )


def zookeeper_options(server: ZooKeeper) -> dict[str, str]:
    """Of a cluster that is led by it, alone below its root."""
    return {
        "high-availability.type": "zookeeper",
        QUORUM: server.address,
        "high-availability.zookeeper.path.root": f"/{uuid.uuid4().hex}",
    }


@contextlib.contextmanager
def zookeeper(directory: Path) -> Iterator[ZooKeeper]:
    made = ZooKeeper(directory)
    made.start()
    try:
        yield made
    finally:
        made.stop()


class Wire:
    """A TCP proxy at `host`: what goes through it stops when it is cut, and nobody is told."""

    def __init__(self, port: int, host: str = "127.0.0.1", listen_port: int = 0) -> None:
        self._target, self._listens_at = port, (host, listen_port)
        self._whole = asyncio.Event()
        self._whole.set()
        self._of = b""
        self._tasks: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> "Wire":
        self._server = await asyncio.start_server(self._connected, *self._listens_at)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def cut(self, of: str = "") -> None:
        """Of those who connect only the one who says this in what it sends first, if anything."""
        self._of = of.encode()
        self._whole.clear()

    def drop(self) -> None:
        """Cut it, and break all connections; those who connect wait until it is mended."""
        self.cut()
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        self._whole.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self._tasks.append(asyncio.get_running_loop().create_task(self._join(reader, writer)))

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello = await reader.read(1 << 16)
        await self._lets(hello)
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers.append(back)
        back.write(hello)
        async with asyncio.TaskGroup() as ways:
            ways.create_task(self._pump(reader, back, hello))
            ways.create_task(self._pump(there, writer, hello))

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, hello: bytes) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(1 << 16):
                await self._lets(hello)
                target.write(data)
        await self._lets(hello)
        target.close()

    async def _lets(self, hello: bytes) -> None:
        if self._of in hello:
            await self._whole.wait()


@contextlib.asynccontextmanager
async def wire(port: int, **listening: Any) -> AsyncIterator[Wire]:
    async with Wire(port, **listening) as made:
        yield made
