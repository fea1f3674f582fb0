"""Watches what attempts hold and print: memory of the task process, of what it has started and of its Spark Python workers,
size of the log."""

import asyncio
import os
import time
from collections.abc import Iterable
from pathlib import Path

from firesteel.adapters.spark.jvm.pythonworkers import children, daemons
from firesteel.adapters.spark.worker.attempt import AttemptRun
from firesteel.adapters.spark.worker.printed import keep_short
from firesteel.model import metrics
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.metric import MetricValue
from firesteel.model.options import TASK_MEMORY_LIMIT
from firesteel.runtime.background import keep_looking

SAMPLE_SECONDS = 0.25
LOOK_SECONDS = 1.0
"""How often Spark's JVM is searched for Python workers, thread by thread, and shared pages are shared out."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class MemoryGuard:
    """One for all attempts of a worker."""

    def __init__(self, limit_mib: int, log_limit_mib: int) -> None:
        self._limit_mib, self._log_limit_bytes = limit_mib, log_limit_mib << 20
        self._runs: dict[AttemptRun, _Watched] = {}

    def values(self) -> list[MetricValue]:
        """Figures of the attempts that run."""
        return [
            metrics.ATTEMPTS_RUNNING.of(len(self._runs)),
            metrics.ATTEMPTS_MEMORY.of(sum(each.held_mib for each in self._runs.values()) << 20),
        ]

    def add(self, run: AttemptRun) -> None:
        self._runs[run] = _Watched(run)

    def remove(self, run: AttemptRun) -> None:
        del self._runs[run]

    async def watch(self) -> None:
        """Sample until cancelled."""
        await keep_looking(self._sample, "a look at what attempts hold of the memory", SAMPLE_SECONDS)

    async def _sample(self) -> None:
        for run in tuple(self._runs):
            await self._check(run)

    async def _check(self, run: AttemptRun) -> None:
        pid, watched = run.child.pid, self._runs.get(run)
        if watched is None or not pid.done() or pid.cancelled() or run.child.exited.done():
            return
        await asyncio.to_thread(self._look, watched, pid.result())
        if run in self._runs:
            run.memory_peak_bytes = max(run.memory_peak_bytes, watched.held_mib << 20)
        if watched.held_mib > self._limit_mib:
            run.condemn(_too_much(watched.own_mib, watched.workers_mib, self._limit_mib))

    def _look(self, watched: "_Watched", pid: int) -> None:
        keep_short(Path(watched.run.task.log), self._log_limit_bytes)
        watched.look(pid, self._limit_mib)


class _Watched:
    """The processes of one attempt, and what they hold."""

    def __init__(self, run: AttemptRun) -> None:
        self.run = run
        self._next_look = 0.0
        self._daemons: list[int] = []
        self._shares = [0, 0]
        """Of what the task process has started, and of Python workers, in MiB as last counted."""
        self.own_mib = self.workers_mib = 0

    @property
    def held_mib(self) -> int:
        return self.own_mib + self.workers_mib

    def look(self, pid: int, limit_mib: int) -> None:
        """`pid`: of the task process. What is shared counts by its share where that is looked at: now and then, and when it
        would be too much in whole."""
        is_due = time.monotonic() >= self._next_look
        if is_due:
            self._daemons = self._found_daemons()
        started = _descendants(pid)
        workers = [*self._daemons, *(worker for daemon in self._daemons for worker in children(daemon))]
        own, *whole = resident_mib(pid), _resident_mib(started), _resident_mib(workers)
        if is_due or own + sum(whole) > limit_mib:
            whole = [_proportional_mib(started), _proportional_mib(workers)]
            self._shares = whole
            self._next_look = time.monotonic() + LOOK_SECONDS
        of_started, self.workers_mib = map(min, self._shares, whole)  # some of it may have been given back
        self.own_mib = own + of_started

    def _found_daemons(self) -> list[int]:
        supervisor = self.run.seat.take().server.pid if self.run.server_session else None
        return [] if supervisor is None else daemons(supervisor, self.run.server_session)


def _too_much(own_mib: int, workers_mib: int, limit_mib: int) -> FailureInfo:
    held, advice = (
        f"the task process and what it has started held {own_mib} MiB of memory",
        "collect less data into Python",
    )
    if workers_mib > own_mib:
        held = f"Spark's Python workers held {workers_mib} MiB of memory and the task process {own_mib} MiB"
        advice = "let Python functions hold less at once (more, smaller Spark partitions; smaller Arrow batches)"
    return FailureInfo(
        kind=FailureKind.USER,
        message=f"{held}, over the limit of {limit_mib} MiB: {advice}, or raise {TASK_MEMORY_LIMIT.key}",
        exception="MemoryLimitExceeded",
    )


def _descendants(pid: int) -> list[int]:
    """The processes that a task process has started, and theirs: `multiprocessing`, `subprocess`."""
    found, pids = list[int](), children(pid)
    while pids:
        found += pids
        pids = [child for each in pids for child in children(each)]
    return found


def resident_mib(pid: int) -> int:
    """Resident memory of a process (field 2 of /proc/PID/statm); 0 when it has ended."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES >> 20
    except (OSError, IndexError, ValueError):
        return 0


def _resident_mib(pids: Iterable[int]) -> int:
    return sum(map(resident_mib, pids))


def _proportional_mib(pids: Iterable[int]) -> int:
    """Memory of processes, pages they share with others by their share of them: workers are forks of one daemon."""
    return sum(map(_proportional_kib, pids)) >> 10


def _proportional_kib(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("Pss:")), 0)
    except OSError:
        return 0
