"""Stacks of task processes and JVMs, as they are written and as they are sampled."""

import os
import subprocess
import sys

import pytest

from firesteel.adapters.spark.worker.stacks import StackSampler
from firesteel.adapters.spark.worker.stacktexts import counted, jvm_stacks, python_stacks
from firesteel.model.ids import JobID, RegionAttemptID, RegionIndex
from firesteel.model.stacks import StackOrder

PYTHON = """Thread 0x00007f1 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait
  File "/usr/lib/python3.11/queue.py", line 171 in get

Current thread 0x00007f2 (most recent call first):
  File "/code/sales/pipeline.py", line 42 in totals
  File "/code/sales/pipeline.py", line 7 in <module>
"""
JVM = """2026-11-24 12:00:00
Full thread dump OpenJDK 64-Bit Server VM (17.0.19+10 mixed mode):

"main" #1 prio=5 os_prio=0 cpu=1.00ms elapsed=9.00s tid=0x1 nid=0x2 runnable  [0x3]
   java.lang.Thread.State: RUNNABLE
\tat java.lang.Object.wait(java.base@17.0.19/Native Method)

"Executor task launch worker for task 0.0 in stage 1.0 (TID 1)" #99 daemon prio=5 runnable  [0x4]
   java.lang.Thread.State: RUNNABLE
\tat org.apache.spark.sql.Codegen$It.processNext(Unknown Source)
\t- locked <0x5> (a java.lang.Object)
\tat java.util.concurrent.ThreadPoolExecutor.runWorker(java.base@17.0.19/ThreadPoolExecutor.java:1136)
\tat app//org.apache.spark.scheduler.Task.run(Task.scala:147)

"SparkConnectExecuteThread_opId=1" #100 daemon prio=5 waiting on condition  [0x6]
   java.lang.Thread.State: TIMED_WAITING (parking)
\tat jdk.internal.misc.Unsafe.park(java.base@17.0.19/Native Method)
"""
WORKS = """
import sys
from firesteel.adapters.spark.stackdump import write_stacks_on_signal
write_stacks_on_signal()

def computes():
    print("up", flush=True)
    while True:
        sum(range(1000))

computes()
"""


def order(depth: int = 100, samples: int = 5) -> StackOrder:
    return StackOrder(attempt=RegionAttemptID(JobID("a"), RegionIndex(0), 0), samples=samples, delay_ms=10, depth=depth)


def test_pythons_dumps() -> None:
    first, second = counted(python_stacks(PYTHON + PYTHON, [True, False], depth=1))[:2]
    waits = {stack.frames: stack.is_waiting for stack in (first, second)}
    assert waits[("Python", "wait (threading.py:320)")]
    found = [(stack.frames, stack.is_waiting, stack.count) for stack in counted(python_stacks(PYTHON, [True], 100))]
    assert found == [
        (("Python", "get (queue.py:171)", "wait (threading.py:320)"), True, 1),
        (("Python", "<module> (pipeline.py:7)", "totals (pipeline.py:42)"), True, 1),
    ]
    assert [waits for _, waits in python_stacks(PYTHON + PYTHON, [True, False], 100)] == [True, True, True, False]
    assert list(python_stacks("", [], 100)) == []


def test_the_jvms_print() -> None:
    """Of threads that work for attempts."""
    task, query = jvm_stacks(JVM, depth=100)
    run, worker, innermost = "Task.run(Task.scala:147)", "ThreadPoolExecutor.runWorker", "Codegen$It.processNext"
    frames, waits = task
    assert frames[0] == "JVM: Spark tasks"
    assert frames[1].endswith(run)
    assert worker in frames[2]
    assert innermost in frames[3]
    assert (len(frames), waits) == (4, False)
    assert query[1]
    assert query[0][0] == "JVM: queries of Spark Connect"


@pytest.mark.skipif(sys.platform != "linux", reason="files in memory are Linux's")
def test_a_process_that_computes_is_seen() -> None:
    with subprocess.Popen((sys.executable, "-c", WORKS), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        try:
            for _ in range(2):  # the second time nothing is left of the first
                found = StackSampler().sample(order(), process.pid, None)
                assert 1 <= sum(stack.count for stack in found) <= 5, "two signals may be one"
                assert all("computes" in " ".join(stack.frames) and not stack.is_waiting for stack in found)
            assert process.poll() is None
        finally:
            process.kill()


def test_a_process_that_knows_no_signal_is_left_alone() -> None:
    """It would end of it."""
    with subprocess.Popen((sys.executable, "-c", "input()"), stdin=subprocess.PIPE) as process:
        assert StackSampler().sample(order(), process.pid, None) == ()
        assert process.poll() is None
        process.kill()


def test_who_is_gone_has_no_stacks() -> None:
    gone = next(pid for pid in range(2**21, 2**22) if not os.path.exists(f"/proc/{pid}"))
    assert StackSampler().sample(order(), gone, gone) == ()
