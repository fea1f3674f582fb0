"""A real ZooKeeper server beside the tests, and a way to it that can be cut."""

import asyncio
import contextlib
import ctypes
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

LIMIT_S = 240.0
TICK_MS = 500
"""Sessions of 1 to 10 s are possible with it."""

QUORUM = "high-availability.zookeeper.quorum"

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
        arguments = ("--port", str(self.port), "--data-dir", str(self.directory), "--tick-ms", str(TICK_MS))
        log = self.directory.with_suffix(".log")
        begin = log.stat().st_size if log.exists() else 0
        with open(log, "ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "firesteel", "zookeeper", *arguments],
                stdout=output,
                stderr=output,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - it only makes one system call
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
    """A TCP proxy: what goes through it stops when it is cut, and nobody is told."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.whole = asyncio.Event()
        self.whole.set()
        self._tasks: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> "Wire":
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
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

    def cut(self) -> None:
        self.whole.clear()

    def mend(self) -> None:
        self.whole.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.whole.wait()
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers += (writer, back)
        for source, target in ((reader, back), (there, writer)):
            self._tasks.append(asyncio.get_running_loop().create_task(self._pump(source, target)))

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(1 << 16):
                await self.whole.wait()
                target.write(data)
        target.close()


@contextlib.asynccontextmanager
async def wire(port: int) -> AsyncIterator[Wire]:
    async with Wire(port) as made:
        yield made


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
