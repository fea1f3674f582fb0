"""What a worker measures of its task processes and its Spark backends."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

import psutil

from firesteel.adapters.spark.jvm.pythonworkers import children
from firesteel.adapters.spark.worker.jvmheap import HeapReader, memory_values
from firesteel.model import metrics
from firesteel.model.metric import MetricValue
from firesteel.runtime.background import keep_looking


class JvmFigures:
    """Figures of the JVMs that are up: asked for one after the other now and then, and kept until they are asked again."""

    def __init__(self, supervisors: Callable[[], Iterable[int]], interval_ms: int) -> None:
        """`supervisors` gives those of JVMs that are up."""
        self._supervisors, self._interval_s = supervisors, interval_ms / 1_000
        self._heaps, self._times = HeapReader(), ProcessorTimes()
        self._values: list[MetricValue] = []

    def values(self) -> list[MetricValue]:
        """As last looked at."""
        return self._values

    async def watch(self) -> None:
        """Look until cancelled."""
        await keep_looking(self._measure, "a look at the JVMs of Spark", self._interval_s)

    async def _measure(self) -> None:
        self._values = await asyncio.to_thread(self._look, tuple(self._supervisors()))

    def _look(self, supervisors: Iterable[int]) -> list[MetricValue]:
        """Figures of the JVMs of these supervisors, together; what is measured of none is left out. Blocks."""
        jvms = [pid for supervisor in supervisors for pid in children(supervisor)]
        resident_bytes = self._times.look(jvms)
        values = [metrics.SPARK_BACKENDS.of(len(resident_bytes))]
        if self._times.is_measured:
            values.append(metrics.JVM_CPU_TIME.of(round(self._times.total_s * 1e9)))
        if resident_bytes:
            values.append(metrics.JVM_RESIDENT_MEMORY.of(sum(resident_bytes)))
        memories = self._heaps.read(jvms)
        known = [memory for memory in memories if memory is not None]
        return [*values, *memory_values(known)] if len(known) == len(memories) else values


class ProcessorTimes:
    """Processor time of processes that come and go, together. Never falls: what one had taken when it was last seen stays."""

    def __init__(self) -> None:
        self._ended_s = 0.0
        self._live_s: dict[tuple[int, float], float] = {}
        """By pid and time of its start: pids are used again."""

    @property
    def is_measured(self) -> bool:
        """Whether any process has been seen."""
        return bool(self._live_s) or self._ended_s > 0

    @property
    def total_s(self) -> float:
        return self._ended_s + sum(self._live_s.values())

    def look(self, pids: Sequence[int]) -> list[int]:
        """Take up what these processes, and those that were seen before, have taken by now; resident bytes of these."""
        before, self._live_s = self._live_s, {}
        resident_bytes = []
        for pid in dict.fromkeys((*pids, *(pid for pid, _ in before))):
            try:
                process = psutil.Process(pid)
                times, memory, started_s = process.cpu_times(), process.memory_info(), process.create_time()
            except psutil.Error:
                continue  # it has ended meanwhile
            if pid in pids:
                resident_bytes.append(memory.rss)
            if pid in pids or (pid, started_s) in before:
                self._live_s[pid, started_s] = times.user + times.system
        self._ended_s += sum(seconds for process, seconds in before.items() if process not in self._live_s)
        return resident_bytes
