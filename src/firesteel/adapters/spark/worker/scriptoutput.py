"""The output of a script, on its way from its two pipes to the attempt's log and to the master, as it comes.

A pipe that is full makes the script wait, so nothing is lost while the master is slow, and nothing piles up here.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from firesteel.model.options import SCRIPT_OUTPUT_LIMIT
from firesteel.runtime.background import BackgroundTasks

STREAMS = ("stdout", "stderr")
PIPE_BYTES = 1 << 20
CHUNK_BYTES = 1 << 18
CLOSE_SECONDS = 10.0
"""Time in which what is still in the pipes when the script has ended is passed on, or given up."""

Send = Callable[[str, int, bytes], Awaitable[None]]
"""Takes a stream's name, and bytes with their place in it. Raises OSError when they can't be taken."""

logger = logging.getLogger(__name__)


class ScriptOutput:
    """Both streams of one attempt. Beyond `limit_bytes` of a stream the rest goes to the log only."""

    def __init__(self, log: Path, send: Send, limit_bytes: int) -> None:
        self._log, self._send, self._limit = log, send, limit_bytes
        self._tasks = BackgroundTasks()
        self._streams: list[_Stream] = []

    async def open(self, directory: Path) -> None:
        """Make the pipes in `directory`, and begin to read. Raises OSError."""
        making = BackgroundTasks(on_error=lambda error: None)  # it is raised here
        task = making.start(asyncio.to_thread(self._make_pipes, directory), "script-pipes")
        try:
            await asyncio.shield(task)
        except BaseException:
            await making.join()  # a thread goes on when its caller is cancelled
            await self.close()
            raise
        for stream in self._streams:
            self._tasks.start(self._pass_on(stream), f"script-{stream.name}")

    async def close(self) -> None:
        """Pass on what has been printed, and end. Idempotent."""
        for stream in self._streams:
            stream.ended = True
            stream.news.set()
        await self._tasks.close(CLOSE_SECONDS)
        while self._streams:
            os.close(self._streams.pop().descriptor)

    def _make_pipes(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        for name in STREAMS:
            os.mkfifo(directory / name, 0o600)
            # Open for writing, too: so it has no end while the script has not opened it, or has closed it.
            descriptor = os.open(directory / name, os.O_RDWR | os.O_NONBLOCK)
            with contextlib.suppress(OSError):  # the kernel's limit for a user's pipes
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            self._streams.append(_Stream(name, descriptor))

    async def _pass_on(self, stream: "_Stream") -> None:
        sent, is_sending = 0, True
        while True:
            data = stream.read()
            if data:
                await asyncio.to_thread(self._write_log, data)
                if is_sending:
                    part = data[: self._limit - sent]
                    is_whole = len(part) == len(data)
                    is_taken = await self._sent(stream, sent, part if is_whole else part + _too_much(self._limit))
                    is_sending, sent = is_whole and is_taken, sent + len(part)
            elif stream.ended:
                return
            else:
                await stream.wait()

    async def _sent(self, stream: "_Stream", offset: int, data: bytes) -> bool:
        try:
            await self._send(stream.name, offset, data)
        except OSError as error:
            logger.warning("from here on, what a script prints is in %s only: %s", self._log, error)
            return False
        return True

    def _write_log(self, data: bytes) -> None:
        with contextlib.suppress(OSError), open(self._log, "ab") as log:  # a full disk must not stop the script
            log.write(data)


class _Stream:
    def __init__(self, name: str, descriptor: int) -> None:
        self.name, self.descriptor = name, descriptor
        self.news, self.ended = asyncio.Event(), False

    def read(self) -> bytes:
        """Bytes that are there now; empty when there are none."""
        with contextlib.suppress(BlockingIOError):
            return os.read(self.descriptor, CHUNK_BYTES)
        return b""

    async def wait(self) -> None:
        """Wait until there is something, or nothing more to come."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self.descriptor, self.news.set)
        try:
            await self.news.wait()
        finally:
            loop.remove_reader(self.descriptor)
        self.news.clear()


def _too_much(limit_bytes: int) -> bytes:
    text = f"\n... (more than {limit_bytes >> 20} MiB, the limit of {SCRIPT_OUTPUT_LIMIT.key}: the rest is not shown)\n"
    return text.encode()
