"""Notices Spark tasks that run in a backend nobody uses, by the CPU time of its executor threads.

Spark says nothing about a job whose operation was cancelled while a stage of it was being submitted by another thread:
the operation has ended, and the stage begins after that. The threads are named in /proc, by the first 15 characters.
"""

import asyncio
from pathlib import Path

from firesteel.adapters.spark.jvm.pythonworkers import children

_EXECUTOR_THREADS = "Executor task launch worker"[:15]
_SAMPLE_SECONDS = 1.0
_BUSY_TICKS = 2
"""Hundredths of a second that idle threads never use in a sample."""


async def works(supervisor_pid: int) -> bool:
    """Whether tasks run in the JVM under that supervisor. Takes about a second."""
    before = await asyncio.to_thread(_ticks, supervisor_pid)
    await asyncio.sleep(_SAMPLE_SECONDS)
    return await asyncio.to_thread(_ticks, supervisor_pid) - before >= _BUSY_TICKS


def _ticks(supervisor_pid: int) -> int:
    """CPU time of all executor threads that live."""
    return sum(_thread_ticks(task) for jvm in children(supervisor_pid) for task in Path(f"/proc/{jvm}/task").glob("*"))


def _thread_ticks(task: Path) -> int:
    try:
        if (task / "comm").read_text().rstrip("\n") != _EXECUTOR_THREADS:
            return 0
        fields = (task / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return 0
    return int(fields[11]) + int(fields[12])
