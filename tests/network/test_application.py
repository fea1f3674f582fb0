"""`firesteel application FILE`: a master for one job, with workers that join it, and how both end."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from firesteel.cli.main import exit_code

LIMIT_S = 300.0

SOURCE = """\
import os
import firesteel as fs

with open(os.environ["BUILDERS"], "a") as builders:
    builders.write(f"{os.getpid()}\\n")

pipeline = fs.Pipeline("alone")

@pipeline.source
def lines(spark, text: str): ...

@pipeline.result
def result(lines): ...
"""


class Application:
    """The command with temporary files of its own; `directory` is what fake workers look into."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.directory, self.temporary, self.builders = directory, directory / "tmp", directory / "builders"
        self.temporary.mkdir()
        file = directory / "code" / "etl_alone_x.py"
        file.parent.mkdir()
        file.write_text(SOURCE)
        self.environment = {
            **os.environ,
            "TMPDIR": str(self.temporary),
            "XDG_STATE_HOME": str(directory / "state"),
            "BUILDERS": str(self.builders),
        }
        ports = ("-D", "jobmanager.rpc.port=0", "-D", "rest.port=0")
        self.processes: list[subprocess.Popen[bytes]] = []
        self.master = self._start("master", "-m", "firesteel", "application", str(file), *ports, *arguments)

    def start_worker(self) -> subprocess.Popen[bytes]:
        port = self.until(lambda: re.search(r"started jobmanager at \S+:(\d+),", self.err()))[1]
        program = ("-m", "tests.network.fakeworker", str(self.directory), "-D", f"jobmanager.rpc.port={port}")
        return self._start("worker", *program)

    def out(self) -> str:
        return (self.directory / "master.out").read_text()

    def err(self) -> str:
        return (self.directory / "master.err").read_text()

    def attempts(self) -> str:
        file = self.directory / "attempts"
        return file.read_text() if file.exists() else ""

    def until(self, seen: Callable[[], Any]) -> Any:
        until_s = time.monotonic() + LIMIT_S
        while not (found := seen()):
            assert self.master.poll() is None, self.err()
            assert time.monotonic() < until_s, self.err()
            time.sleep(0.02)
        return found

    def ends(self) -> int:
        return self.master.wait(LIMIT_S)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def _start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with open(self.directory / f"{name}.out", "wb") as out, open(self.directory / f"{name}.err", "wb") as err:
            process = subprocess.Popen([sys.executable, *command], env=self.environment, stdout=out, stderr=err)
        self.processes.append(process)
        return process


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Application]]:
    started: list[Application] = []

    def start(*arguments: str) -> Application:
        started.append(Application(tmp_path, *arguments))
        return started[-1]

    yield start
    for each in started:
        each.close()


def test_it_waits_for_a_worker_runs_its_job_and_ends(start: Callable[..., Application]) -> None:
    it = start("-p", "text=a", "--name", "mine", "--set", "lines.retries=0")
    worker = it.start_worker()
    assert it.ends() == 0, it.err()
    assert it.out().startswith("mine FINISHED in ")
    assert [line.split()[0] for line in it.attempts().splitlines()] == ["lines", "result"]
    (builder,) = it.builders.read_text().split()
    assert int(builder) != it.master.pid, "the pipeline's code ran in the master"
    worker.terminate()
    assert worker.wait(LIMIT_S) == 0
    assert list(it.temporary.iterdir()) == []
    assert "Traceback" not in it.err()


def test_a_signal_cancels_the_job(start: Callable[..., Application], tmp_path: Path) -> None:
    (tmp_path / "hold-lines").touch()
    it = start("-p", "text=a", "--json")
    it.start_worker()
    it.until(it.attempts)
    it.master.send_signal(signal.SIGTERM)
    assert it.ends() == 130, it.err()
    assert '"status":"CANCELED"' in it.out().replace(" ", "")
    assert "Traceback" not in it.err()


def test_what_is_wrong_is_said_at_once(start: Callable[..., Application], capsys: pytest.CaptureFixture[str]) -> None:
    it = start()
    assert it.ends() == 2
    assert "parameter 'text' (str) is missing" in it.err()
    assert list(it.temporary.iterdir()) == []
    file = str(it.directory / "code" / "etl_alone_x.py")
    assert exit_code(["application", file, "--master", "localhost:8081"]) == 2
    assert "leave --master out" in capsys.readouterr().err
    kept = ("high-availability.type=filesystem", f"high-availability.storageDir={it.directory}")
    assert exit_code(["application", file, *(part for each in kept for part in ("-D", each))]) == 2
    assert "set high-availability.type to none" in capsys.readouterr().err
