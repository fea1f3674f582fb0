"""Looks at where an attempt's Python and its JVM are, some times: by a signal that has the process write its stacks, and
by the JVM's attach socket. Neither takes rights beyond those of the worker's user."""

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

from firesteel.adapters.spark.jvm.pythonworkers import children
from firesteel.adapters.spark.stackdump import DUMP_NAME, DUMP_SIGNAL
from firesteel.adapters.spark.worker.attempt import AttemptRun
from firesteel.adapters.spark.worker.jvmattach import AttachSockets, catches, process_status
from firesteel.adapters.spark.worker.stacktexts import Stack, counted, jvm_stacks, python_stacks
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.stacks import SampledStack, StackOrder
from firesteel.runtime.ports import TaskFailedError

DUMP_BYTES_MAX = 16 << 20
JVM_ANSWER_BYTES_MAX = 8 << 20
PIDS_KEPT = 64


class AttemptStacks:
    """One attempt at a time: what looks more often than that is a load itself."""

    def __init__(self) -> None:
        self._sampler, self._turn = StackSampler(), asyncio.Lock()

    async def of(self, run: AttemptRun | None, order: StackOrder) -> tuple[SampledStack, ...]:
        """Raises TaskFailedError where the attempt does not run here."""
        if run is None or not run.child.pid.done() or run.child.exited.done():
            text = f"attempt {order.attempt.attempt} of region {order.attempt.region} does not run here any more"
            raise TaskFailedError(FailureInfo(kind=FailureKind.NON_RECOVERABLE, message=text))
        supervisor = run.seat.take().server.pid if run.endpoint is not None else None
        async with self._turn:
            return await asyncio.to_thread(self._sampler.sample, order, run.child.pid.result(), supervisor)


class StackSampler:
    """For one thread at a time; blocks."""

    def __init__(self) -> None:
        self._sockets = AttachSockets()

    def sample(self, order: StackOrder, pid: int | None, supervisor: int | None) -> tuple[SampledStack, ...]:
        """Of a task process, and the JVM below a supervisor, as far as there are such and they answer."""
        jvms = children(supervisor) if supervisor is not None else []
        self._sockets.keep(jvms[:PIDS_KEPT])
        found: list[Stack] = []
        python = _PythonLooks.of(pid) if pid is not None else None
        for _ in range(order.samples):
            if python is not None and not python.look():
                break
            for jvm in tuple(jvms):
                try:
                    found += jvm_stacks(self._sockets.ask(jvm, "Thread.print", JVM_ANSWER_BYTES_MAX), order.depth)
                except OSError:
                    jvms.remove(jvm)
            if python is None and not jvms:
                break
            time.sleep(order.delay_ms / 1_000)
        if python is not None:
            found += python.stacks(order.depth)
        return counted(found)


class _PythonLooks:
    """Looks at one task process."""

    def __init__(self, pid: int, dump: Path) -> None:
        self._pid, self._dump = pid, dump
        self._waits: list[bool] = []
        """Whether its main thread waited, by look."""
        self._size = -1
        """Bytes that were written before the last look."""

    @classmethod
    def of(cls, pid: int) -> "_PythonLooks | None":
        """None for a process that does not write its stacks, which must not be signalled, and for one that is gone."""
        try:
            dump = _dump_of(pid)
            if dump is None or not catches(process_status(pid), DUMP_SIGNAL):
                return None
            os.truncate(dump, 0)
        except OSError:
            return None
        return cls(pid, dump)

    def look(self) -> bool:
        """Have it write its stacks once. False when it can't any more, or has written too much."""
        try:
            size = self._dump.stat().st_size
            if size > DUMP_BYTES_MAX or not catches(process_status(self._pid), DUMP_SIGNAL):
                return False
            if size == self._size:
                self._waits.pop()  # it has had no time since the last one: two signals are one
            is_running = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()[0] == "R"
            os.kill(self._pid, DUMP_SIGNAL)
        except OSError:
            return False
        self._size = size
        self._waits.append(not is_running)
        return True

    def stacks(self, depth: int) -> Iterator[Stack]:
        try:
            text = self._dump.read_text(errors="replace")
            os.truncate(self._dump, 0)
        except OSError:
            return
        yield from python_stacks(text, self._waits, depth)


def _dump_of(pid: int) -> Path | None:
    """The file in memory that the process writes its stacks to. Raises OSError."""
    opened = Path(f"/proc/{pid}/fd").iterdir()
    return next((each for each in opened if os.readlink(each).startswith(f"/memfd:{DUMP_NAME}")), None)
