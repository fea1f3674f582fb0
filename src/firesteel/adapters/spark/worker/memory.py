"""Watches what attempts hold and print: memory of the task process, of what it has started and of its Spark Python workers,
size of the log."""

import asyncio
import os
from pathlib import Path

from firesteel.adapters.spark.jvm.pythonworkers import children, python_workers
from firesteel.adapters.spark.worker.attempt import AttemptRun
from firesteel.adapters.spark.worker.printed import keep_short
from firesteel.model import metrics
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.metric import MetricValue
from firesteel.model.options import TASK_MEMORY_LIMIT

SAMPLE_SECONDS = 0.25
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class MemoryGuard:
    """One for all attempts of a worker."""

    def __init__(self, limit_mib: int, log_limit_mib: int) -> None:
        self._limit_mib, self._log_limit_bytes = limit_mib, log_limit_mib << 20
        self._runs: list[AttemptRun] = []
        self._held_mib: dict[AttemptRun, int] = {}
        """As last looked at."""

    def values(self) -> list[MetricValue]:
        """Figures of the attempts that run."""
        return [
            metrics.ATTEMPTS_RUNNING.of(len(self._runs)),
            metrics.ATTEMPTS_MEMORY.of(sum(self._held_mib.values()) << 20),
        ]

    def add(self, run: AttemptRun) -> None:
        self._runs.append(run)

    def remove(self, run: AttemptRun) -> None:
        self._runs.remove(run)
        self._held_mib.pop(run, None)

    async def watch(self) -> None:
        """Sample until cancelled."""
        while True:
            for run in tuple(self._runs):
                await self._check(run)
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _check(self, run: AttemptRun) -> None:
        pid = run.child.pid
        if not pid.done() or pid.cancelled() or run.child.exited.done():
            return
        await asyncio.to_thread(keep_short, Path(run.task.log), self._log_limit_bytes)
        own = resident_mib(pid.result()) + await asyncio.to_thread(_descendants_mib, pid.result())
        workers = await asyncio.to_thread(_python_workers_mib, run) if run.server_session else 0
        if run in self._runs:
            self._held_mib[run] = own + workers
            run.memory_peak_bytes = max(run.memory_peak_bytes, own + workers << 20)
        if own + workers > self._limit_mib:
            run.condemn(_too_much(own, workers, self._limit_mib))


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


def _python_workers_mib(run: AttemptRun) -> int:
    supervisor = run.seat.take().server.pid
    if supervisor is None:
        return 0
    return sum(map(_proportional_kib, python_workers(supervisor, run.server_session))) >> 10


def _descendants_mib(pid: int) -> int:
    """Memory of the processes that a task process has started, and of theirs: `multiprocessing`, `subprocess`."""
    kib, pids = 0, children(pid)
    while pids:
        kib += sum(map(_proportional_kib, pids))
        pids = [child for each in pids for child in children(each)]
    return kib >> 10


def resident_mib(pid: int) -> int:
    """Resident memory of a process (field 2 of /proc/PID/statm); 0 when it has ended."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES >> 20
    except (OSError, IndexError, ValueError):
        return 0


def _proportional_kib(pid: int) -> int:
    """Memory of a process, pages it shares with others by its share of them: workers are forks of one daemon."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("Pss:")), 0)
    except OSError:
        return 0
