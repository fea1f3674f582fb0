"""What JVMs answer about their heap, in the words of the collectors that Spark runs with."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from firesteel.adapters.spark.worker.jvmheap import SIGNALS_MAX, HeapReader, JvmMemory, memory_values, parse_memory
from firesteel.model.metrics import JVM_HEAP_COMMITTED, JVM_HEAP_MAX, JVM_HEAP_USED

METASPACE = " Metaspace       used 79K, committed 80K, reserved 1179648K\n  class space    used 9K, committed 10K\n"
G1 = " garbage-first heap   total 119808K, used 82296K [0x0, 0x1)\n  region size 1024K, 39 young (39936K)\n" + METASPACE
NEWER_G1 = " garbage-first heap   total reserved 512000K, committed 119808K, used 82296K [0x0, 0x1)\n" + METASPACE
SERIAL = (
    " def new generation   total 4928K, used 3K [0x0, 0x1, 0x2)\n  eden space 4416K,   0% used [0x0)\n"
    " tenured generation   total 10944K, used 5K [0x0, 0x1)\n   the space 10944K, 0% used\n" + METASPACE
)
PARALLEL = " PSYoungGen      total 100K, used 10K [0x0)\n ParOldGen       total 200K, used 20K [0x0)\n"
KIB = 1024


@pytest.mark.parametrize(
    ("text", "used_kib", "committed_kib", "metaspace_kib"),
    [(G1, 82296, 119808, 79), (NEWER_G1, 82296, 119808, 79), (SERIAL, 8, 15872, 79), (PARALLEL, 30, 300, None)],
    ids=["g1", "newer g1", "serial", "parallel"],
)
def test_an_answer_is_read(text: str, used_kib: int, committed_kib: int, metaspace_kib: int | None) -> None:
    found = parse_memory(text, b"java\0-Xmx500m\0-XX:+UseG1GC\0")
    assert found is not None
    assert (found.heap_used, found.heap_committed) == (used_kib * KIB, committed_kib * KIB)
    assert found.heap_max == 500 << 20
    assert found.metaspace_used == (None if metaspace_kib is None else metaspace_kib * KIB)


def test_what_is_not_understood_is_no_figure() -> None:
    assert parse_memory(" ZHeap           used 18M, capacity 512M, max capacity 8G\n") is None


def test_a_process_that_is_gone_says_nothing() -> None:
    gone = next(pid for pid in range(2**21, 2**22) if not Path(f"/proc/{pid}").exists())
    assert gone != os.getpid()
    assert HeapReader().read([gone]) == [None]


LIKE_A_JVM = """
import os, signal
signal.signal(signal.SIGQUIT, lambda *_: os.write(1, b"threads\\n"))
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # signals that wait together are heard in the order of their numbers
os.write(1, b"up\\n")
while True:
    signal.pause()
"""


def test_a_process_that_opens_no_socket_is_signalled_a_few_times_only() -> None:
    with subprocess.Popen((sys.executable, "-c", LIKE_A_JVM), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        Path(f"/tmp/.java_pid{process.pid}").unlink(
            missing_ok=True
        )  # of a killed JVM that had this number; JVMs do so too
        reader = HeapReader(limit_s=0.2)
        for _ in range(SIGNALS_MAX):
            assert reader.read([process.pid]) == [None]
            assert process.stdout.readline() == b"threads\n"
        assert [reader.read([process.pid]) for _ in range(3)] == [[None]] * 3
        process.terminate()
        assert process.stdout.read() == b""


def test_a_process_that_does_not_catch_the_signal_is_sent_none() -> None:
    with subprocess.Popen((sys.executable, "-c", "print(flush=True); input()"), stdin=-1, stdout=-1) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        assert HeapReader(limit_s=0.2).read([process.pid]) == [None]
        process.stdin.write(b"\n")
        process.stdin.close()
        assert process.wait() == 0


def test_figures_of_several_jvms_are_sums_of_what_all_have_said() -> None:
    full, no_limit = JvmMemory(1, 2, 3, 4, 5), JvmMemory(10, 20, None, 40, 50)
    told = {value.name: value.value for value in memory_values([full, no_limit])}
    assert told[JVM_HEAP_USED.name] == 11
    assert told[JVM_HEAP_COMMITTED.name] == 22
    assert JVM_HEAP_MAX.name not in told
    assert memory_values([]) == []
