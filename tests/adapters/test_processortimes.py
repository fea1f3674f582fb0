"""Processor time of processes that come and go does not fall."""

import os
import subprocess
import sys

from firesteel.adapters.spark.worker.figures import ProcessorTimes

BUSY = "import time\nwhile time.process_time() < 0.4: pass\nprint(flush=True)\ninput()\n"


def busy() -> subprocess.Popen[str]:
    """A process that has taken 0.4 s."""
    process = subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_what_one_had_taken_stays_when_it_has_ended() -> None:
    times = ProcessorTimes()
    assert (times.look([]), times.is_measured) == ([], False)
    with busy() as first:
        (resident_bytes,) = times.look([first.pid])
        assert resident_bytes > 1 << 20
        assert (times.look([]), times.total_s >= 0.3) == ([], True), "it lives, but is nobody's"
        first.communicate("")
    assert times.total_s >= 0.3
    with busy() as second:
        times.look([second.pid])
        assert 0.6 <= times.total_s < 3.0, "each counts once"
        second.communicate("")
    before = times.total_s
    times.look([os.getpid()])
    assert times.total_s > before
