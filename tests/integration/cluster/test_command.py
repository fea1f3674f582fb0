"""`firesteel run` as a process: exit codes, signals, and nothing left behind however it ends."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.integration.cluster.files import HEADER
from tests.sparkjvms import quick_start_arguments

pytestmark = pytest.mark.spark

GOOD = """
@pipeline.source
def numbers(spark: SparkSession) -> DataFrame:
    return spark.range(10)

@pipeline.sink
def result(numbers: DataFrame, output: str) -> None:
    fs.write_parquet(numbers, output)
"""
ENDLESS = """
@pipeline.source
def numbers(spark: SparkSession, started: str) -> DataFrame:
    open(started, "w").close()
    return spark.range(10**12).select((F.rand() + F.col("id")).alias("x"))

@pipeline.sink
def result(numbers: DataFrame, output: str) -> None:
    fs.write_parquet(numbers.agg(F.sum("x").alias("x")), output)
"""


class Command:
    """Starts `firesteel run` with a temporary directory of its own."""

    def __init__(self, scratch: Path) -> None:
        self.scratch, self.temporary = scratch, scratch / "tmp"
        self.temporary.mkdir()
        self.mark = f"{scratch}"

    def start(self, body: str, *arguments: str) -> "subprocess.Popen[str]":
        file = self.scratch / "job.py"
        file.write_text(HEADER + body)
        environment = {**os.environ, "TMPDIR": str(self.temporary), "FIRESTEEL_TEST_COMMAND": self.mark}
        command = [sys.executable, "-m", "firesteel", "run", str(file), "--param", f"output={self.scratch / 'out'}"]
        command += [*quick_start_arguments(), *arguments]
        return subprocess.Popen(
            command, env=environment, cwd=self.scratch, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def processes(self) -> list[psutil.Process]:
        """Every living process that belongs to it, at any depth."""
        return [process for process in psutil.process_iter() if self._is_mine(process)]

    def _is_mine(self, process: psutil.Process) -> bool:
        try:
            alive = process.status() != psutil.STATUS_ZOMBIE
            return alive and process.environ().get("FIRESTEEL_TEST_COMMAND") == self.mark
        except (psutil.Error, OSError):
            return False

    def assert_gone(self) -> None:
        """Neither processes nor temporary directories are left, after a moment at the most."""
        wait_until(lambda: not self.processes() and not list(self.temporary.iterdir()), 300)
        assert not self.processes()
        assert not list(self.temporary.iterdir())


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    command = Command(tmp_path)
    yield command
    for process in command.processes():
        process.kill()


def wait_until(holds: Callable[[], bool], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)


def start_endless(command: Command) -> "subprocess.Popen[str]":
    started = command.scratch / "started"
    process = command.start(ENDLESS, "--param", f"started={started}")
    wait_until(started.exists, 300)
    assert started.exists()
    return process


def test_a_good_job_ends_with_0_and_says_so_in_json(command: Command) -> None:
    process = command.start(GOOD, "--json")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    result = json.loads(out)
    assert (result["status"], result["sinks"][0]["rows"]) == ("FINISHED", 10)
    command.assert_gone()


def test_interrupted_it_cancels_the_job_and_ends_with_130(command: Command) -> None:
    process = start_endless(command)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert not (command.scratch / "out").exists()
    command.assert_gone()


def test_killed_hard_it_takes_its_processes_and_directories_with_it(command: Command) -> None:
    process = start_endless(command)
    process.kill()
    process.communicate(timeout=300)
    command.assert_gone()


def test_a_jvm_killed_in_mid_job_fails_the_job_with_the_reason(command: Command) -> None:
    process = start_endless(command)
    for found in command.processes():
        with contextlib.suppress(psutil.NoSuchProcess):  # others come and go
            if found.name() == "java":
                found.kill()
    _, err = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "Spark backend was killed" in err
    command.assert_gone()
