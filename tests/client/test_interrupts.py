"""Signals to `firesteel run --master`, as terminals and `timeout` send them, and repeated submissions: real processes."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import IO

import pytest

from firesteel.cli.exits import OUTPUT_LOST
from firesteel.cli.following.interrupts import SAME_WISH_S
from firesteel.core.effects import DISPATCHER
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.testing.backend import TaskScript
from tests.cli.conftest import command, etl, own_environment
from tests.client.conftest import Served

__all__ = ["command", "etl", "own_environment"]

LIMIT_S = 300.0
PROGRAM = (sys.executable, "-m", "firesteel")
JOB_ID = "5f" * 16


@contextlib.contextmanager
def run(served: Served, etl: str, *before: str) -> Iterator[subprocess.Popen[str]]:
    """`firesteel run` of a job that runs until it is cancelled, in a process group of its own."""
    program = (*before, *PROGRAM, "run", etl, "-p", "input=x", "--job-id", JOB_ID, "--master", served.address)
    pipe = subprocess.PIPE
    process = subprocess.Popen(program, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    with process:
        try:
            until_it_says(process, "RUNNING")
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def until_it_says(process: subprocess.Popen[str], text: str) -> None:
    for line in errors_of(process):
        if text in line:
            return
    raise AssertionError(f"it has ended without {text!r}")


def errors_of(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stderr is not None
    return process.stderr


def status(served: Served) -> JobStatus:
    (job,) = served.do(served.rest.cluster.client.list_jobs())
    found: JobStatus = job.status
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("pause_s", [0.0, 0.02])
def test_a_pair_of_signals_is_one_wish(
    etl: str, served: Served, script: TaskScript, number: int, pause_s: float
) -> None:
    served.call(script.hold, "lines")
    with run(served, etl) as process:
        process.send_signal(number)
        time.sleep(pause_s)
        process.send_signal(number)
        assert process.wait(LIMIT_S) == 130
    assert status(served) is JobStatus.CANCELED


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_ctrl_c_under_timeout(etl: str, served: Served, script: TaskScript, number: int) -> None:
    """A terminal tells both, and `timeout` tells its child again, twice: on a busy machine too late to be the same wish."""
    served.call(script.hold, "lines")
    with run(served, etl, "timeout", "600") as process:
        os.killpg(process.pid, number)
        process.wait(LIMIT_S)
        until_it_says(process, "cancelled")
    assert served.do(served.rest.cluster.client.request_job_result(JobID(JOB_ID))).status is JobStatus.CANCELED


def test_a_second_ctrl_c_does_not_wait_for_the_jobs_end(etl: str, served: Served, script: TaskScript) -> None:
    """Its attempt does not end, so it stays CANCELLING; who leaves is told its id."""
    script.is_stubborn = True
    served.call(script.hold, "lines")
    with run(served, etl) as process:
        process.send_signal(signal.SIGINT)
        until_it_says(process, "CANCELLING")
        time.sleep(SAME_WISH_S)
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 130
        assert errors_of(process).read().endswith(f"firesteel: interrupted: job {JOB_ID} is being cancelled\n")
    assert status(served) is JobStatus.CANCELLING


def test_the_first_ctrl_c_is_acted_on_until_a_master_has_answered(etl: str, served: Served, script: TaskScript) -> None:
    """Nobody leads when it is pressed, nor when it is pressed again."""
    served.call(script.hold, "lines")
    with run(served, etl) as process:
        served.call(served.rest.cluster.revoke_leadership, DISPATCHER)
        process.send_signal(signal.SIGINT)
        until_it_says(process, "cancelling the job")
        time.sleep(SAME_WISH_S)
        process.send_signal(signal.SIGINT)
        until_it_says(process, "no master has answered to that yet")
        served.call(served.rest.cluster.grant_leadership, DISPATCHER)
        assert process.wait(LIMIT_S) == 130
    assert served.do(served.rest.cluster.client.request_job_result(JobID(JOB_ID))).status is JobStatus.CANCELED


def test_the_third_ctrl_c_ends_the_command_at_once(etl: str, served: Served, script: TaskScript) -> None:
    served.call(script.hold, "lines")
    with run(served, etl) as process:
        served.call(served.rest.cluster.revoke_leadership, DISPATCHER)
        for text in ("cancelling the job", "no master has answered to that yet", f"`firesteel cancel {JOB_ID}`"):
            process.send_signal(signal.SIGINT)
            until_it_says(process, text)
            time.sleep(SAME_WISH_S)
        assert process.wait(LIMIT_S) == 130
        served.call(served.rest.cluster.grant_leadership, DISPATCHER)


def test_a_terminal_that_is_closed_cancels_the_job(etl: str, served: Served, script: TaskScript) -> None:
    served.call(script.hold, "lines")
    program = (*PROGRAM, "run", etl, "-p", "input=x", "--master", served.address)
    child, terminal = pty.fork()
    if child == 0:
        os.execv(program[0], program)
    seen = b""
    while b"RUNNING" not in seen:
        seen += os.read(terminal, 1 << 16)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == OUTPUT_LOST, "its result could not be printed"
    assert status(served) is JobStatus.CANCELED


def test_whoever_reads_what_it_says_may_go(etl: str, served: Served, script: TaskScript) -> None:
    """As in `firesteel run ... 2>&1 | head`: the job is followed to its end."""
    served.call(script.hold, "lines")
    with run(served, etl) as process:
        errors_of(process).close()
        served.call(script.release, "lines")
        assert process.wait(LIMIT_S) == 0
    assert status(served) is JobStatus.FINISHED


def test_a_submission_may_be_repeated_with_its_id(command, etl: str, served: Served, script: TaskScript) -> None:
    """While it runs and after its end, by `submit` and by `run`; another job's id is refused."""
    served.call(script.hold, "lines")
    job = (etl, "-p", "input=x", "--master", served.address, "--job-id")
    for given in (JOB_ID, f"{JOB_ID[:8].upper()}-{JOB_ID[8:]}"):
        assert command("submit", *job, given)[:2] == (0, f"{JOB_ID}\n")
    code, out, err = command("submit", etl, "-p", "input=y", *job[3:], JOB_ID)
    assert (code, out) == (0, f"{JOB_ID}\n"), "it is the same intent"
    assert "is known already: nothing was handed in, though it has other parameters (input)" in err
    code, _, err = command("submit", *job, JOB_ID, "--name", "other")
    assert (code, f"job {JOB_ID} is another one, wordcount: choose another id for other" in err) == (2, True)
    served.do(script.until_running("lines"))
    served.call(script.release, "lines")
    code, out, _ = command("run", *job, JOB_ID, "--json")
    assert (code, json.loads(out)["job_id"], json.loads(out)["status"]) == (0, JOB_ID, "FINISHED")
    code, out, err = command("run", *job, JOB_ID)
    assert (code, out.startswith("wordcount FINISHED in")) == (0, True)
    assert f"job {JOB_ID} is known already: nothing was handed in\n" in err
    assert command("submit", *job, JOB_ID)[:2] == (0, f"{JOB_ID}\n")
    assert len(served.do(served.rest.cluster.client.list_jobs())) == 1
    assert script.ends("lines") == ["FINISHED"]
    for wrong in ("run of 2026-11-22", ""):
        code, _, err = command("submit", *job, wrong)
        assert (code, "an id has 32 hex digits" in err) == (2, True)


def test_a_repeated_run_ends_as_its_job_did(command, etl: str, served: Served, script: TaskScript) -> None:
    served.call(script.fail, "lines")
    job = (etl, "-p", "input=x", "--master", served.address, "--job-id", JOB_ID)
    first, second = command("run", *job), command("run", *job)
    assert (first[0], second[0]) == (1, 1)
    assert (first[1], "lines: as the script says" in second[2]) == (second[1], True)
    assert command("submit", *job)[:2] == (0, f"{JOB_ID}\n")
    assert script.ends("lines") == ["FAILED"]
