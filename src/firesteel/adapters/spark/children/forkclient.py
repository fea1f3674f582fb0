"""The worker's side of the fork server: children by request, spares ahead of need, exits as futures."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections import deque
from pathlib import Path

import msgspec

from firesteel.adapters.spark import wire
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.runtime.ports import TaskFailedError

logger = logging.getLogger(__name__)

MAX_DATAGRAM_BYTES = 65_536
MAX_STARTS = 6
"""Starts in a row of which none has forked anything, before whoever needs a process is told so."""


class Child:
    """One forked child, on its way or there. `exited` holds its exit status, negative for a signal.

    One that is on its way has not been sent anything: so one that is signalled meanwhile never begins with what it is for.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        self._reader, self._writer = reader, writer
        self.pid: asyncio.Future[int] = loop.create_future()
        self.exited: asyncio.Future[int] = loop.create_future()
        self._unsent: list[bytes] = []

    def send(self, message: msgspec.Struct) -> None:
        """Queue a message; a child that has gone is noticed by `receive`."""
        self._unsent.append(wire.frame(message))
        if self.pid.done():
            self._send_all()

    def forked(self, pid: int) -> None:
        """It is there."""
        self.pid.set_result(pid)
        if not self.exited.done():
            self._send_all()

    def _send_all(self) -> None:
        self._writer.writelines(self._unsent)
        self._unsent.clear()

    async def receive(self) -> wire.FromChild | None:
        """The child's next message, or None when it has closed its end."""
        return await wire.read_message(self._reader)

    def signal_group(self, number: signal.Signals) -> None:
        """Signal the child and what it started; nothing when it has ended (its pid may be another's by now). One that is not
        there yet has ended with that: it will find its end closed, and go."""
        if self.exited.done():
            return
        if not self.pid.done():
            self.exited.set_result(-number)
            self.close()
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid.result(), number)

    async def end(self, grace_seconds: float, limit_seconds: float | None) -> bool:
        """Wait for its end, for a while as it is, and then killed. False when it has not ended even so within the limit, and
        counts as ended: what hangs in the kernel, or under a fork server that stands still, runs no more code."""
        for limit in (grace_seconds, limit_seconds):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    await asyncio.shield(self.exited)
                return True
            self.signal_group(signal.SIGKILL)
        if self.exited.done():  # just now
            return True
        self.exited.set_result(-signal.SIGKILL)
        return False

    def end_of_stream_after_exit(self, grace_seconds: float) -> None:
        """Let `receive` end after the child has, even when something it started still holds its socket."""
        loop = asyncio.get_running_loop()
        self.exited.add_done_callback(lambda _: loop.call_later(grace_seconds, self._reader.feed_eof))

    def close(self) -> None:
        """Give up the connection: an idle child ends by itself."""
        self._writer.close()


class ForkServer:
    """Starts the fork server process and hands out its children."""

    def __init__(self, log: Path, spares: int) -> None:
        self._log, self._spare_target = log, spares
        self._process: asyncio.subprocess.Process | None = None
        self._control: socket.socket | None = None
        self._numbers = 0
        self._forking: dict[int, Child] = {}
        self._living: dict[int, Child] = {}
        self._spares: deque[Child] = deque()
        self._starts_left = MAX_STARTS
        self._starting = asyncio.Lock()
        self._closed = False

    @property
    def spares(self) -> int:
        """Number of children that are ahead of need, there or on their way."""
        return len(self._spares)

    async def start(self) -> None:
        """Start the process; it serves requests when it has loaded PySpark, about a second later."""
        async with self._starting:
            if self._control is None:
                await self._start()
        await self.refill()

    async def _start(self) -> None:
        self._starts_left -= 1
        if self._closed or self._starts_left < 0:
            self._starts_left = 1  # who asks after this one has another start tried
            raise TaskFailedError(
                _gone(f"the fork server has ended {MAX_STARTS} times without forking; its log is {self._log}")
            )
        if self._process is not None:
            await self._process.wait()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(self._log, "ab") as log:  # noqa: ASYNC230 - a local file, once per start
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "firesteel.adapters.spark.task.forkserver", str(theirs.fileno())),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(theirs.fileno(),),
                    process_group=0,
                )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._control = ours
        asyncio.get_running_loop().add_reader(ours, self._on_readable)

    async def take(self) -> Child:
        """A child that waits for its assignment. Raises TaskFailedError (ENVIRONMENT) when there can be none."""
        if self._control is None:
            await self.start()
        while self._spares:
            spare = self._spares.popleft()
            if not spare.exited.done():
                return spare
        return await self._fork()

    async def refill(self) -> None:
        """Fork spares up to the configured number. Called when the taken one is at work."""
        while self._control is not None and len(self._spares) < self._spare_target:
            self._spares.append(await self._fork())

    async def call(self, entry_point: str, payload: bytes) -> bytes:
        """Run `module:function(bytes) -> bytes` in a child. Raises TaskFailedError with the function's error."""
        child = await self.take()
        try:
            child.send(wire.CallFunction(entry_point=entry_point, payload=payload))
            match await child.receive():
                case wire.CallResult(payload=result):
                    return result
                case wire.Failed(failure=failure):
                    raise TaskFailedError(failure)
                case _:
                    status = await child.exited
                    raise TaskFailedError(_gone(f"the process of {entry_point} ended with status {status}"))
        finally:
            child.signal_group(signal.SIGKILL)
            child.close()

    async def close(self) -> None:
        """End the server and with it every child. Idempotent."""
        self._closed = True
        process, self._process = self._process, None
        if process is None:
            return
        self._disconnect()
        try:
            async with asyncio.timeout(5):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _fork(self) -> Child:
        ours, theirs = socket.socketpair()
        try:
            reader, writer = await asyncio.open_connection(sock=ours, limit=1 << 20)
            if self._control is None:  # it may have ended meanwhile
                writer.close()
                raise TaskFailedError(_gone(f"the fork server has ended; its log is {self._log}"))
            child = Child(reader, writer)
            self._numbers += 1
            self._forking[self._numbers] = child
            request = wire.encode(wire.Fork(self._numbers))
            try:
                socket.send_fds(self._control, [request], [theirs.fileno()])
            except OSError as error:
                self._disconnect()
                raise TaskFailedError(_gone(f"the fork server can't be reached: {error}")) from error
            return child
        finally:
            theirs.close()

    def _on_readable(self) -> None:
        assert self._control is not None, "the reader goes with the socket"
        while True:
            try:
                body = self._control.recv(MAX_DATAGRAM_BYTES)
            except BlockingIOError:
                return
            except ConnectionError:
                body = b""
            if not body:
                self._disconnect()
                return
            self._handle(wire.from_fork_server.decode(body))

    def _handle(self, message: wire.FromForkServer) -> None:
        match message:
            case wire.Forked(number=number, pid=pid):
                self._starts_left = MAX_STARTS
                child = self._forking.pop(number)
                self._living[pid] = child
                child.forked(pid)
            case wire.Exited(pid=pid, status=status):
                ended = self._living.pop(pid, None)
                if ended is not None and not ended.exited.done():
                    ended.exited.set_result(status)

    def _disconnect(self) -> None:
        """The server ends, or has ended: so do its children."""
        if self._control is None:
            return
        asyncio.get_running_loop().remove_reader(self._control)
        self._control.close()
        self._control = None
        for child in (*self._forking.values(), *self._living.values()):
            child.pid.cancel()
            if not child.exited.done():
                child.exited.set_result(-signal.SIGKILL)
            child.close()
        self._forking.clear()
        self._living.clear()
        self._spares.clear()


def _gone(message: str) -> FailureInfo:
    return FailureInfo(kind=FailureKind.ENVIRONMENT, message=message)
