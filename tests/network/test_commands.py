"""`firesteel jobmanager` and `firesteel taskmanager` in the foreground: how they end, and what they say."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

LIMIT_S = 300.0


class Command:
    """A `firesteel ...` process with temporary files of its own."""

    def __init__(self, scratch: Path, program: tuple[str, ...], definitions: dict[str, str]) -> None:
        self.temporary = scratch / "tmp"
        self.temporary.mkdir(exist_ok=True)
        self._log = scratch / "log"
        arguments = [part for key, value in definitions.items() for part in ("-D", f"{key}={value}")]
        environment = {**os.environ, "TMPDIR": str(self.temporary)}
        with open(self._log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *program, *arguments], env=environment, stdout=log, stderr=subprocess.STDOUT
            )

    def log(self) -> str:
        return self._log.read_text()

    def until_started(self) -> "Command":
        until_s = time.monotonic() + LIMIT_S
        while "started " not in self.log():
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < until_s, self.log()
            time.sleep(0.01)
        return self

    def ends(self) -> int:
        return self.process.wait(LIMIT_S)


MASTER = ("-m", "firesteel", "jobmanager")
FREE_PORTS = {"jobmanager.rpc.port": "0", "rest.port": "0"}


@contextlib.contextmanager
def command(scratch: Path, program: tuple[str, ...], definitions: dict[str, str]) -> Iterator[Command]:
    made = Command(scratch, program, definitions)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_master_stops_cleanly(tmp_path: Path, number: int) -> None:
    with command(tmp_path, MASTER, FREE_PORTS) as master:
        master.until_started().process.send_signal(number)
        assert master.ends() == 0
        assert list(master.temporary.iterdir()) == []
        assert "Traceback" not in master.log()


def test_a_worker_without_a_master_waits_for_it_and_stops_cleanly(tmp_path: Path) -> None:
    program = ("-m", "tests.network.fakeworker", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with command(tmp_path, program, {"jobmanager.rpc.port": f"{port}"}) as worker:
        worker.until_started().process.terminate()
        assert worker.ends() == 0
        assert list(worker.temporary.iterdir()) == []
        assert "Traceback" not in worker.log()


@pytest.mark.parametrize(
    ("definitions", "code", "text"),
    [
        ({"jobmanager.rpc.prot": "1"}, 2, "did you mean jobmanager.rpc.port?"),
        ({"security.ssl.internal.enabled": "true"}, 2, "set security.ssl.internal.certificate"),
        ({"jobmanager.rpc.port": "70000"}, 2, "a number up to 65535"),
        ({"cluster.work-dir": "/dev/null/x"}, 3, "/dev/null/x"),
    ],
)
def test_what_can_not_be_started_says_why(tmp_path: Path, definitions: dict[str, str], code: int, text: str) -> None:
    with command(tmp_path, MASTER, {**FREE_PORTS, **definitions}) as master:
        assert master.ends() == code
        assert text in master.log().splitlines()[-1]
        assert "Traceback" not in master.log()
        assert list(master.temporary.iterdir()) == []


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = {**FREE_PORTS, "jobmanager.rpc.address": "127.0.0.1", "jobmanager.rpc.port": f"{port}"}
        with command(tmp_path, MASTER, options) as master:
            assert master.ends() == 3
            assert f"{port}" in master.log().splitlines()[-1]
