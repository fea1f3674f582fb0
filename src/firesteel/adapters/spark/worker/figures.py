"""What a worker measures of its task processes and its Spark backends."""

import asyncio
from collections.abc import Callable, Iterable

import psutil

from firesteel.adapters.spark.jvm.pythonworkers import children
from firesteel.adapters.spark.worker.jvmheap import HeapReader, memory_values
from firesteel.model import metrics
from firesteel.model.metric import MetricValue


class JvmFigures:
    """Figures of the JVMs that are up: asked for one after the other now and then, and kept until they are asked again."""

    def __init__(self, supervisors: Callable[[], Iterable[int]], interval_ms: int) -> None:
        """`supervisors` gives those of JVMs that are up."""
        self._supervisors, self._interval_s = supervisors, interval_ms / 1_000
        self._heaps = HeapReader()
        self._values: list[MetricValue] = []

    def values(self) -> list[MetricValue]:
        """As last looked at."""
        return self._values

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            self._values = await asyncio.to_thread(jvm_values, tuple(self._supervisors()), self._heaps)
            await asyncio.sleep(self._interval_s)


def jvm_values(supervisors: Iterable[int], heaps: HeapReader) -> list[MetricValue]:
    """Figures of the JVMs of these supervisors, together; what is measured of none is left out. Blocks."""
    jvms = [pid for supervisor in supervisors for pid in children(supervisor)]
    seconds, resident_bytes, count = 0.0, 0, 0
    for pid in jvms:
        try:
            process = psutil.Process(pid)
            times = process.cpu_times()
            resident_bytes += process.memory_info().rss
        except psutil.Error:
            continue  # it has ended meanwhile
        seconds += times.user + times.system
        count += 1
    values = [metrics.SPARK_BACKENDS.of(count)]
    if count:
        values += [metrics.JVM_CPU_TIME.of(round(seconds * 1e9)), metrics.JVM_RESIDENT_MEMORY.of(resident_bytes)]
    memories = heaps.read(jvms)
    known = [memory for memory in memories if memory is not None]
    return [*values, *memory_values(known)] if len(known) == len(memories) else values
