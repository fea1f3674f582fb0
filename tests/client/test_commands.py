"""The command line against a cluster on the network."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import msgspec
import pyarrow as pa
import pytest

from firesteel.assembly.client import MasterClient
from firesteel.model.ids import JobID
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.views import JobResult, ReturnedRows
from firesteel.testing.backend import TaskScript
from tests.cli.conftest import command, etl, own_environment
from tests.cli.test_rows import stream
from tests.client.conftest import Served
from tests.rest.cluster import LIMIT_S

__all__ = ["command", "etl", "own_environment"]


def test_jobs_from_the_command_line(command, etl: str, served: Served, script: TaskScript) -> None:
    served.call(script.hold, "lines")
    master = ("--master", served.address)
    code, out, _ = command("submit", etl, "-p", "input=x", *master)
    assert code == 0
    job_id = out.strip()
    served.until(JobID(job_id), lambda view: view.vertices[0].status is ExecutionState.RUNNING)
    code, out, _ = command("list", *master)
    assert code == 0
    assert out.startswith(f"{job_id}  RUNNING    wordcount")
    assert json.loads(command("list", "--json", *master)[1])[0]["job_id"] == job_id
    code, out, _ = command("info", job_id[:6], *master)
    assert code == 0
    assert out.splitlines()[0].startswith(f"wordcount ({job_id}): RUNNING")
    assert "  lines -> result: RUNNING" in out.splitlines()
    assert command("cancel", job_id, *master)[:2] == (0, f"{job_id} is being cancelled\n")
    code, out, _ = command("wait", job_id, *master)
    assert (code, out.splitlines()[0].split(" in ")[0]) == (1, "wordcount CANCELED")
    assert command("cancel", job_id, *master)[:2] == (0, f"{job_id} is CANCELED already\n")
    code, out, _ = command("retry", job_id, "-p", "input=y", *master)
    assert code == 0
    again = out.strip()
    assert served.do(served.rest.cluster.client.request_job(JobID(again))).parameters["input"] == "y"
    assert "only what has ended is tried again" in command("retry", again, *master)[2]
    code, _, err = command("retry", job_id, "-p", "input=y", *master)
    assert (code, f"wordcount was tried once more, as {again}, which is RUNNING" in err) == (2, True)
    code, other, _ = command("retry", job_id, *master)
    assert (code, other.strip() != again) == (0, True), "with other parameters it is another one"
    command("cancel", other.strip(), *master)
    command("wait", other.strip(), *master)
    command("cancel", again, *master)
    command("wait", again, *master)
    assert command("list", *master)[1:] == ("", "no jobs that have not ended; --all lists the others too\n")
    assert job_id in command("list", "--all", *master)[1]


def test_run_on_a_cluster(command, etl: str, served: Served, script: TaskScript) -> None:
    """With and without success; the second address is the right one."""
    served.call(script.fail, "lines")
    master = ("--master", f"127.0.0.1:9,{served.address}")
    code, _, err = command("run", etl, "-p", "input=x", *master)
    assert code == 1
    assert "lines: as the script says" in err
    code, out, err = command("run", etl, "-p", "input=x", *master, "--json")
    assert (code, json.loads(out)["status"]) == (0, "FINISHED")
    assert "lines -> result: FINISHED" in err
    job_id = json.loads(out)["job_id"]
    code, out, _ = command("attach", job_id, *master)
    assert (code, out.splitlines()[0].split(" in ")[0]) == (0, "wordcount FINISHED")
    assert "failed: lines: as the script says" in command("info", other_job(command, master, job_id), *master)[1]


def other_job(command, master: tuple[str, str], job_id: str) -> str:
    jobs = json.loads(command("list", "--all", "--json", *master)[1])
    return next(str(job["job_id"]) for job in jobs if job["job_id"] != job_id)


def test_what_goes_wrong(command, etl: str, served: Served, tmp_path: Path) -> None:
    master = ("--master", served.address)
    nobody = ("--master", "127.0.0.1:9")
    for arguments in (("list",), ("info", "ab"), ("wait", "ab"), ("cancel", "ab"), ("submit", etl, "-p", "input=x")):
        code, _, err = command(*arguments, *nobody)
        assert code == 3, arguments
        assert "nobody answers at http://127.0.0.1:9" in err
    code, _, err = command("list", "--master", f"https://{served.address}")
    assert (code, f"speaks no TLS: use http://{served.address}" in err) == (3, True)
    assert command("run", etl, "-p", "input=x", "--detach")[0] == 2
    assert command("run", etl, *master)[0] == 2
    (tmp_path / "broken.py").write_text("import firesteel, nothing_of_that_name\n")
    code, _, err = command("run", str(tmp_path / "broken.py"), *master)
    assert code == 2
    assert "nothing_of_that_name" in err
    (tmp_path / "ends.py").write_text("import firesteel, os\nos._exit(9)\n")
    code, _, err = command("run", str(tmp_path / "ends.py"), *master)
    assert code == 2
    assert "ended with code 9" in err
    for arguments in (("info", "ab"), ("info", ""), ("cancel", "0" * 32), ("wait", "no id")):
        code, _, err = command(*arguments, *master)
        assert code == 2, arguments
        assert err.startswith("firesteel: ")
    assert command("list", "--master", "ftp://x")[0] == 2


def test_interrupting_a_run_cancels_its_job(etl: str, served: Served, script: TaskScript, tmp_path: Path) -> None:
    """And interrupting one that only looks on does not."""
    served.call(script.hold, "lines")
    master = ("--master", served.address)
    with started(tmp_path, "run", etl, "-p", "input=x", *master) as run:
        served.do(script.until_running("lines"))
        (job,) = served.do(served.rest.cluster.client.list_jobs())
        with started(tmp_path, "attach", job.job_id, *master) as attached:
            assert "RUNNING" in lines_of(attached).readline()
            attached.send_signal(signal.SIGINT)
            assert attached.wait(LIMIT_S) == 130
        assert served.do(served.rest.cluster.client.request_job(job.job_id)).status is JobStatus.RUNNING
        while "RUNNING" not in lines_of(run).readline():
            pass
        run.send_signal(signal.SIGINT)
        assert run.wait(LIMIT_S) == 130
    assert served.do(served.rest.cluster.client.request_job(job.job_id)).status is JobStatus.CANCELED


def test_returned_rows_come_to_whoever_waits(command, etl: str, served: Served, monkeypatch) -> None:
    """Of a job that was handed in and left."""
    ended = MasterClient.request_job_result

    async def with_rows(self: MasterClient, job_id: JobID) -> JobResult:
        returned = ReturnedRows(function="top", sha256="0" * 64, rows=2, size_bytes=99)
        return msgspec.structs.replace(await ended(self, job_id), returned=(returned,))

    async def rows(self: MasterClient, job_id: JobID, function: str = "") -> bytes:
        return stream(pa.table({"word": ["to", "be"], "n": [3, 2]}))

    monkeypatch.setattr(MasterClient, "request_job_result", with_rows)
    monkeypatch.setattr(MasterClient, "fetch_result", rows)
    master = ("--master", served.address)
    job_id = command("submit", etl, "-p", "input=x", *master)[1].strip()
    for name in ("wait", "attach"):
        code, out, _ = command(name, job_id, *master)
        assert (code, out.splitlines()[-4:]) == (0, ["  top: 2 rows", "word\tn", "to\t3", "be\t2"])
        (shown,) = json.loads(command(name, job_id, "--json", *master)[1])["returned"]
        assert (shown["rows"], shown["records"]) == (2, [{"word": "to", "n": 3}, {"word": "be", "n": 2}])


def started(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    program = (sys.executable, "-m", "firesteel", *arguments)
    return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True)


def lines_of(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stderr is not None
    return process.stderr


@pytest.mark.parametrize("name", ["list", "info", "attach", "wait", "cancel", "submit"])
def test_help(command, name: str) -> None:
    code, out, _ = command(name, "--help")
    assert code == 0
    assert "--master" in out


def test_logs_and_exceptions_of_jobs_and_workers(command, etl: str, served: Served, script: TaskScript) -> None:
    served.call(script.fail, "lines")
    master = ("--master", served.address)
    job_id = command("submit", etl, "-p", "input=x", *master)[1].strip()
    assert command("wait", job_id, *master)[0] == 1
    code, out, _ = command("exceptions", job_id[:8], *master)
    assert code == 0
    assert " UTC  lines -> result, attempt 1 on worker-" in out
    assert "lines: as the script says" in out
    assert json.loads(command("exceptions", job_id, "--json", *master)[1])[0]["region"] == 0
    (worker,) = served.rest.cluster.workers
    logs = served.rest.cluster.work_dir / worker / "logs"
    (logs / job_id).mkdir(parents=True)
    (logs / job_id / "0-0.log").write_text("one\ntwo\n")
    (logs / "taskmanager.log").write_text("of the worker\n")
    code, out, err = command("logs", job_id[:8], *master)
    assert (code, out) == (0, "one\ntwo\n")
    assert f"==> lines -> result (region 0, attempt 1, 8 bytes) on {worker} <==" in err
    assert command("logs", job_id, "-f", *master)[1] == "one\ntwo\n"
    assert json.loads(command("logs", job_id, "--json", *master)[1])[0]["name"] == f"{job_id}_0-0.log"
    assert command("logs", job_id, "--list", *master)[1].startswith("lines -> result (region 0")
    assert command("logs", worker[:8], *master)[:2] == (0, "of the worker\n")
    assert command("logs", worker, "--list", *master)[0] == 2
    code, _, err = command("logs", "x12", *master)
    neither = "firesteel: neither a job's id nor a worker's begins with 'x12': `firesteel list --all` has the jobs; the workers are"
    assert (code, err.startswith(neither), worker in err) == (2, True, True)
    good = command("submit", etl, "-p", "input=x", *master)[1].strip()
    assert command("wait", good, *master)[0] == 0
    assert command("exceptions", good, *master)[1:] == ("", f"wordcount ({good}) has had no failures\n")


def test_the_shell_completes_commands_and_jobs(command, etl: str, served: Served, monkeypatch) -> None:
    job_id = command("submit", etl, "-p", "input=x", "--master", served.address)[1].strip()

    def completed(*words: str) -> str:
        environment = {
            **os.environ,
            "_FIRESTEEL_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(("firesteel", *words)),
            "COMP_CWORD": str(len(words)),
        }
        done = subprocess.run(
            [Path(sys.executable).parent / "firesteel"], check=False, env=environment, capture_output=True, text=True
        )
        return done.stdout

    assert completed("exc") == "plain,exceptions\n"
    assert "plain,--master" in completed("logs", "--ma")
    assert completed("info", "--master", served.address, job_id[:4]) == f"plain,{job_id}\n"
    assert completed("info", "--master", "127.0.0.1:9", "a").strip() == ""
