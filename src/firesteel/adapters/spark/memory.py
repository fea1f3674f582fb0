"""Watches the resident memory of task processes, and kills the one that outgrows its limit."""

import asyncio
import os

from firesteel.adapters.spark.attempt import AttemptRun
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.options import TASK_MEMORY_LIMIT

SAMPLE_SECONDS = 0.25
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class MemoryGuard:
    """One for all attempts of a worker."""

    def __init__(self, limit_mib: int) -> None:
        self._limit_mib = limit_mib
        self._runs: list[AttemptRun] = []

    def add(self, run: AttemptRun) -> None:
        self._runs.append(run)

    def remove(self, run: AttemptRun) -> None:
        self._runs.remove(run)

    async def watch(self) -> None:
        """Sample until cancelled."""
        while True:
            for run in self._runs:
                self._check(run)
            await asyncio.sleep(SAMPLE_SECONDS)

    def _check(self, run: AttemptRun) -> None:
        pid = run.child.pid
        if not pid.done() or pid.cancelled() or run.child.exited.done():
            return
        resident = resident_mib(pid.result())
        if resident > self._limit_mib:
            run.condemn(
                FailureInfo(
                    kind=FailureKind.USER,
                    message=f"the task process held {resident} MiB of memory, over the limit of {self._limit_mib} MiB: "
                    f"collect less data into Python, or raise {TASK_MEMORY_LIMIT.key}",
                    exception="MemoryLimitExceeded",
                )
            )


def resident_mib(pid: int) -> int:
    """Resident memory of a process (field 2 of /proc/PID/statm); 0 when it has ended."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES >> 20
    except (OSError, IndexError, ValueError):
        return 0
