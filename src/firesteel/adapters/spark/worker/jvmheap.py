"""What a JVM says of its heap, asked over HotSpot's attach socket: what `jcmd PID GC.heap_info` does, without a JDK.

The protocol is HotSpot's (`attachListener_linux.cpp`): a file `.attach_pidN` and SIGQUIT have the JVM open a socket
`.java_pidN`; a request is the protocol's version, a command and three arguments, each ended by a zero byte. A JVM that may
open none (`-XX:+DisableAttachMechanism`) prints its threads for each SIGQUIT, and one that catches none (`-Xrs`) ends of it.
"""

import contextlib
import os
import re
import signal
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from firesteel.model import metrics
from firesteel.model.metric import MetricValue

ANSWER_LIMIT_S = 2.0
"""Time that a JVM has to open its socket, and to answer: one that collects garbage takes longer, and is left out."""

SIGNALS_MAX = 3
"""SIGQUITs that a JVM gets: one that has opened no socket after them is asked no more, unless another has it open one."""

ANSWER_BYTES_MAX = 64 << 10
LOOK_S = 0.02

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
        self._limit_s = limit_s
        self._signals: dict[int, int] = {}

    def read(self, pids: Iterable[int]) -> list[JvmMemory | None]:
        """What each JVM says; None when it does not, in time. Who is not among them is forgotten. Blocks: call it in a
        thread."""
        asked = list(pids)
        self._signals = {pid: self._signals.get(pid, 0) for pid in asked}
        return [self._read(pid) for pid in asked]

    def _read(self, pid: int) -> JvmMemory | None:
        try:
            text = _ask(self._opened_socket(pid), pid, "GC.heap_info")
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return None
        return parse_memory(text, arguments)

    def _opened_socket(self, pid: int) -> Path:
        """The JVM's socket, which it is asked to open when there is none. Raises OSError."""
        status = _status(pid)
        number = int(status["NSpid"].split()[-1]) if "NSpid" in status else pid  # in a container it has another
        temporary = Path(f"/proc/{pid}", "root", "tmp")
        opened, request = temporary / f".java_pid{number}", temporary / f".attach_pid{number}"
        if opened.exists():
            return opened
        if self._signals[pid] >= SIGNALS_MAX or not _catches(status, signal.SIGQUIT):
            raise ConnectionRefusedError(f"the JVM {pid} opens no socket")
        os.close(os.open(request, os.O_CREAT | os.O_WRONLY, 0o600))
        try:
            self._signals[pid] += 1
            os.kill(pid, signal.SIGQUIT)
            end_s = time.monotonic() + self._limit_s
            while not opened.exists():
                if time.monotonic() > end_s:
                    raise TimeoutError(f"the JVM {pid} opens no socket")
                time.sleep(LOOK_S)
        finally:
            with contextlib.suppress(OSError):
                request.unlink()
        return opened


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


def _ask(opened: Path, pid: int, command: str) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(ANSWER_LIMIT_S)
        connection.connect(str(opened))
        connection.sendall(b"".join(part.encode() + b"\0" for part in ("1", "jcmd", command, "", "")))
        answer = bytearray()
        while len(answer) < ANSWER_BYTES_MAX and (data := connection.recv(4_096)):
            answer += data
    code, _, text = answer.decode(errors="replace").partition("\n")
    if code != "0":
        raise OSError(f"the JVM {pid} refused {command}: {code}")
    return text


def _status(pid: int) -> dict[str, str]:
    """What the system says of a process, by name. Raises OSError."""
    lines = (line.partition(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: value.strip() for name, _, value in lines}


def _catches(status: dict[str, str], number: signal.Signals) -> bool:
    """Whether the process has a handler for that signal."""
    return bool(int(status.get("SigCgt", "0"), 16) >> (number - 1) & 1)
