"""What a JVM says of its heap, asked over its attach socket."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from firesteel.adapters.spark.worker.jvmattach import ANSWER_LIMIT_S, SIGNALS_MAX, AttachSockets
from firesteel.model import metrics
from firesteel.model.metric import MetricValue

__all__ = ["SIGNALS_MAX", "HeapReader", "JvmMemory", "memory_values", "parse_memory"]

ANSWER_BYTES_MAX = 64 << 10

_HEAP_PART = re.compile(
    r"^\s*(?:garbage-first heap|def new generation|tenured generation|PSYoungGen|ParOldGen)\s+"
    r"total (?:reserved \d+K, committed )?(?P<committed>\d+)K, used (?P<used>\d+)K",
    re.MULTILINE,
)
_METASPACE = re.compile(r"^\s*Metaspace\s+used (?P<used>\d+)K, committed (?P<committed>\d+)K", re.MULTILINE)
_HEAP_MAX = re.compile(rb"-Xmx(?P<mebibytes>\d+)m")


@dataclass(frozen=True, slots=True)
class JvmMemory:
    """Bytes; None is what was not said."""

    heap_used: int
    heap_committed: int
    heap_max: int | None
    metaspace_used: int | None
    metaspace_committed: int | None


def memory_values(found: Iterable[JvmMemory]) -> list[MetricValue]:
    """Figures of several JVMs together; nothing where there is none, or one of them has not said it."""
    jvms = list(found)
    fields: dict[metrics.Metric, list[int | None]] = {
        metrics.JVM_HEAP_USED: [jvm.heap_used for jvm in jvms],
        metrics.JVM_HEAP_COMMITTED: [jvm.heap_committed for jvm in jvms],
        metrics.JVM_HEAP_MAX: [jvm.heap_max for jvm in jvms],
        metrics.JVM_METASPACE_USED: [jvm.metaspace_used for jvm in jvms],
        metrics.JVM_METASPACE_COMMITTED: [jvm.metaspace_committed for jvm in jvms],
    }
    told: list[MetricValue] = []
    for metric, values in fields.items():
        known = [value for value in values if value is not None]
        if known and len(known) == len(jvms):
            told.append(metric.of(sum(known)))
    return told


class HeapReader:
    """Reads the memory of JVMs, and remembers those that open no socket."""

    def __init__(self, limit_s: float = ANSWER_LIMIT_S) -> None:
        self._sockets = AttachSockets(limit_s)

    def read(self, pids: Iterable[int]) -> list[JvmMemory | None]:
        """What each JVM says; None when it does not, in time. Who is not among them is forgotten. Blocks: call it in a
        thread."""
        asked = list(pids)
        self._sockets.keep(asked)
        return [self._read(pid) for pid in asked]

    def _read(self, pid: int) -> JvmMemory | None:
        try:
            text = self._sockets.ask(pid, "GC.heap_info", ANSWER_BYTES_MAX)
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return None
        return parse_memory(text, arguments)


def parse_memory(text: str, arguments: bytes = b"") -> JvmMemory | None:
    """From the answer to GC.heap_info and the JVM's command line; None for collectors that answer otherwise."""
    parts = list(_HEAP_PART.finditer(text))
    if not parts:
        return None
    metaspace, heap_max = _METASPACE.search(text), _HEAP_MAX.search(arguments)
    return JvmMemory(
        heap_used=sum(int(part["used"]) for part in parts) << 10,
        heap_committed=sum(int(part["committed"]) for part in parts) << 10,
        heap_max=int(heap_max["mebibytes"]) << 20 if heap_max else None,
        metaspace_used=int(metaspace["used"]) << 10 if metaspace else None,
        metaspace_committed=int(metaspace["committed"]) << 10 if metaspace else None,
    )
