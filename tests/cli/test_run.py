"""`firesteel run` against a cluster without Spark: exit codes, output, interrupts."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from firesteel.cli.following.interrupts import SAME_WISH_S, SIGNALS, Interrupts
from firesteel.cli.jobs import run as run_module
from firesteel.client.building import BuildProcessFailed
from firesteel.client.transport import RequestFailed
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.states import JobStatus
from firesteel.runtime.ports import TaskFailedError
from tests.cli.fakes import FakeCluster
from tests.environments import environment, tarred


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch):
    """`cluster(statuses)` is what `run` opens."""
    monkeypatch.setattr(run_module, "java_problem", lambda: "")

    def install(*statuses: JobStatus) -> FakeCluster:
        fake = FakeCluster(statuses) if statuses else FakeCluster()
        monkeypatch.setattr(run_module, "open_cluster", lambda _: fake)
        return fake

    return install


def test_finished(command, cluster, etl: str) -> None:
    fake = cluster()
    code, out, err = command("run", etl, "--param", "input=a b", "--name", "mine", "-D", "spark.sql.ansi.enabled=false")
    assert code == 0
    assert out == "wordcount FINISHED in 3.2 s\n  result: 1,234 rows in 1 file, 12.3 kB -> /data/out (overwrite)\n"
    assert "lines -> counts: RUNNING" in err
    assert fake.closed
    assert fake.client.graph.name == "mine"
    assert fake.client.graph.parameters == {"input": "a b", "n": 3}
    assert fake.client.graph.configuration == {"spark.sql.ansi.enabled": "false"}


def test_json_is_one_object_on_standard_output(command, cluster, etl: str) -> None:
    cluster()
    code, out, _ = command("run", etl, "-p", "input=a", "--json")
    shown = json.loads(out)
    assert (code, shown["status"], shown["duration_ms"]) == (0, "FINISHED", 3_200)
    assert shown["sinks"][0]["rows"] == 1234


def test_failed_says_where_and_keeps_the_trace_in_the_log(command, cluster, etl: str) -> None:
    cluster(JobStatus.RUNNING, JobStatus.FAILED)
    code, out, err = command("run", etl, "-p", "input=a")
    assert (code, out) == (1, "wordcount FAILED in 3.2 s\n")
    assert "firesteel: counts (etl.py:12): no column 'wrod'" in err
    assert "deep" not in err
    log_file = Path(err.split("the full trace is in ")[1].split(" (or")[0])
    assert "deep" in log_file.read_text()
    cluster(JobStatus.FAILED)
    assert "deep" in command("run", etl, "-p", "input=a", "--verbose")[2]


def test_bad_pipeline(command, cluster, etl: str) -> None:
    fake = cluster()
    code, out, err = command("run", etl, "--json")
    assert code == 2
    assert "firesteel: lines (" in err
    assert "etl_cli_x.py:3): parameter 'input' (str) is missing: give --param input=..." in err
    assert json.loads(out)["status"] == "REJECTED"
    assert fake.client.graph is None
    assert fake.closed


def test_a_job_that_may_be_there_is_not_rejected(command, cluster, etl: str, monkeypatch) -> None:
    async def lost(graph: object, artifacts: object) -> None:
        raise RequestFailed("the storage of the masters is broken")

    monkeypatch.setattr(cluster().client, "submit_job", lost)
    code, out, _ = command("run", etl, "-p", "input=a", "--json", "--job-id", "a" * 32)
    assert code == 3
    found = json.loads(out)
    assert (found["status"], found["job_id"]) == ("UNKNOWN", "a" * 32)


@pytest.mark.parametrize("given", [("--timeout", "-5"), ("-D", "nonsense.key=1"), ("--job-id", "zz"), ("--set", "x")])
def test_what_is_refused_before_anything_is_read_is_json_too(
    command, cluster, etl: str, given: tuple[str, str]
) -> None:
    cluster()
    code, out, err = command("run", etl, "--json", *given)
    assert code == 2
    assert json.loads(out)["status"] == "REJECTED"
    assert json.loads(out)["error"] in err


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [("--on", "big gpu", "'big gpu' is not a list of labels"), ("--priority", "9" * 20, "is not a whole number")],
)
def test_options_that_do_not_fit(command, cluster, etl: str, option: str, value: str, says: str) -> None:
    cluster()
    code, _, err = command("run", etl, option, value)
    assert (code, err.count("\n")) == (2, 1)
    assert says in err


def test_a_file_that_ends_the_process_that_loads_it(command, cluster, etl: str, monkeypatch) -> None:
    """The cluster is well: who takes it for unreachable comes again."""

    async def call(entry_point: str, payload: bytes) -> bytes:
        raise BuildProcessFailed("the file can't be loaded: the process that did so has ended with code -11")

    monkeypatch.setattr(cluster(), "call", call)
    code, _, err = command("run", etl)
    assert code == 2
    assert "can't be loaded: the process that did so has ended with code -11" in err


def test_no_savepoint_is_not_the_beginning(command, cluster, etl: str) -> None:
    fake = cluster()
    code, _, err = command("run", etl, "-p", "input=a", "-s", "")
    assert (code, "no savepoint is there" in err, fake.client.graph) == (2, True, None)


def test_no_java(command, cluster, etl: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster()
    monkeypatch.setattr(run_module, "java_problem", lambda: "Java is missing: get it")
    code, out, err = command("run", etl, "-p", "input=a")
    assert (code, out, err) == (3, "", "firesteel: Java is missing: get it\n")


@pytest.mark.parametrize(
    "problem",
    [OSError("no space left"), TaskFailedError(FailureInfo(kind=FailureKind.ENVIRONMENT, message="no space left"))],
)
def test_cluster_that_does_not_answer(command, cluster, etl: str, problem: Exception) -> None:
    fake = cluster()

    async def broken(*_: object) -> bytes:
        raise problem

    fake.call = broken
    code, _, err = command("run", etl, "-p", "input=a")
    assert code == 3
    assert "no space left" in err


def test_client_that_fails_while_the_job_runs(command, cluster, etl: str) -> None:
    fake = cluster()

    async def broken(_: object) -> None:
        raise ConnectionResetError("gone")

    fake.client.request_job = broken
    assert command("run", etl, "-p", "input=a")[0] == 3


def test_queue_priority_and_timeout_travel_with_the_job(command, cluster, etl: str) -> None:
    fake = cluster()
    wishes = ("--priority", "-3", "--queue", "etl", "--timeout", "1.5 min")
    assert command("run", etl, "-p", "input=a", *wishes)[0] == 0
    asked = {"job.priority": "-3", "job.queue": "etl", "job.timeout": "90000"}
    assert asked.items() <= fake.client.graph.configuration.items()
    assert command("run", etl, "--timeout", "soon")[0] == 2


def test_ctrl_c_cancels_the_job_and_waits_for_its_end(command, cluster, etl: str) -> None:
    fake = cluster(JobStatus.RUNNING)
    fake.client.on_asked = lambda count: os.kill(os.getpid(), signal.SIGINT) if count == 2 else None
    code, out, err = command("run", etl, "-p", "input=a")
    assert code == 130
    assert out == "wordcount CANCELED in 3.2 s\n"
    assert "press Ctrl-C again to end at once" in err
    assert fake.client.cancelled == 1
    assert fake.closed


def test_ctrl_c_that_comes_too_late_is_no_failure(command, cluster, etl: str) -> None:
    """Whoever trusts 130 runs the job again, and its rows would be there twice."""
    fake = cluster(JobStatus.RUNNING)
    fake.client.on_asked = lambda count: os.kill(os.getpid(), signal.SIGINT) if count == 2 else None
    fake.client.after_cancelling = [JobStatus.FINISHED]
    code, out, err = command("run", etl, "-p", "input=a")
    assert (code, fake.client.cancelled) == (0, 1)
    assert out.startswith("wordcount FINISHED in 3.2 s")
    assert "it was too late to cancel the job: it has finished" in err


def test_ctrl_c_before_submission(command, cluster, etl: str) -> None:
    fake = cluster()

    async def interrupted(*_: object) -> bytes:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()
        raise AssertionError("never reached")

    fake.call = interrupted
    code, _, err = command("run", etl, "-p", "input=a")
    assert code == 130
    assert "interrupted before the job was submitted" in err
    assert fake.closed


@pytest.mark.parametrize("detach", [(), ("--detach",)])
def test_ctrl_c_while_the_job_is_handed_in(command, cluster, etl: str, detach: tuple[str, ...]) -> None:
    """It may be with the master already, so it is cancelled there."""
    fake = cluster(JobStatus.RUNNING)
    taken = fake.client.submit_job

    async def interrupted(graph, artifacts):
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0.05)
        return await taken(graph, artifacts)

    fake.client.submit_job = interrupted
    code, out, _ = command("run", etl, "-p", "input=a", *detach, "--master", "somewhere:1")
    assert (code, out) == (130, "wordcount CANCELED in 3.2 s\n")
    assert fake.client.cancelled == 1


@pytest.mark.parametrize("key", ["taskmanager.spark.master", "spark.master"])
def test_where_spark_is_is_not_said_for_one_job_of_another_cluster(command, cluster, etl: str, key: str) -> None:
    cluster(JobStatus.FINISHED)
    code, out, err = command("run", etl, "-p", "input=a", "-D", f"{key}=spark://h:7077", "--master", "somewhere:1")
    assert (code, out) == (2, "")
    assert f"-D {key}: where Spark is, the workers of that cluster say" in err


def test_options_that_another_cluster_has_been_started_with_are_not_passed_over(command, cluster, etl: str) -> None:
    cluster(JobStatus.FINISHED)
    given = ("taskmanager.numberOfTaskSlots=9", "job.priority=2", "client.timeout=9 s", "spark.sql.ansi.enabled=false")
    definitions = [text for each in given for text in ("-D", each)]
    code, _, err = command("run", etl, "-p", "input=a", *definitions, "--master", "somewhere:1")
    assert code == 0
    warning = "without effect on a cluster that was started without them: -D taskmanager.numberOfTaskSlots\n"
    assert err.count(warning) == 1


class Presses:
    """Interrupts whose clock stands still between signals."""

    def __init__(self) -> None:
        self.now_s, self.ended = 100.0, 0
        self.interrupts = Interrupts(self._end, lambda: self.now_s)

    def _end(self) -> None:
        self.ended += 1

    def press(self, after_s: float) -> None:
        """Twice at once, as a terminal and a command that passes signals on do it."""
        self.now_s += after_s
        self.interrupts.interrupt()
        self.interrupts.interrupt()


def test_a_signal_that_comes_when_all_is_done_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until a person sees that the process does not end."""
    ends: list[int] = []
    monkeypatch.setattr("firesteel.cli.following.interrupts.os._exit", ends.append)
    presses = Presses()

    async def story() -> None:
        with presses.interrupts as interrupts:
            interrupts.defer()
            presses.press(after_s=0)

    asyncio.run(story())
    for number in SIGNALS:
        os.kill(os.getpid(), number)
    assert ends == []
    presses.now_s += 1
    os.kill(os.getpid(), signal.SIGTERM)
    assert ends == [130]


def test_second_ctrl_c_ends_at_once() -> None:
    async def story() -> None:
        presses = Presses()
        with presses.interrupts as interrupts:
            interrupts.defer()
            presses.press(after_s=0)
            assert (interrupts.requested.is_set(), presses.ended) == (True, 0)
            presses.press(after_s=SAME_WISH_S)
            assert presses.ended == 1

    asyncio.run(story())


def test_where_a_job_goes_on_the_second_ctrl_c_ends_the_waiting_and_the_third_everything() -> None:
    async def story() -> None:
        presses = Presses()
        with presses.interrupts as interrupts:
            interrupts.defer(hurries=True)
            presses.press(after_s=0)
            assert (interrupts.requested.is_set(), interrupts.hurried.is_set()) == (True, False)
            presses.press(after_s=SAME_WISH_S)
            assert (interrupts.hurried.is_set(), presses.ended) == (True, 0)
            presses.press(after_s=SAME_WISH_S)
            assert presses.ended == 1

    asyncio.run(story())


def test_attachments_are_lists_between_commas(command, cluster, etl: str, tmp_path: Path) -> None:
    fake = cluster()
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("")
    (tmp_path / "here" / "data.csv").write_text("a")
    python = f"{tmp_path}/a.py, {tmp_path.as_uri()}/b.py"
    code, _, err = command("run", etl, "-p", "input=a", "--py-files", python, "--files", "data.csv#d.csv,")
    assert code == 0, err
    assert [each.name for each in fake.client.graph.artifacts] == ["code.zip", "a.py", "b.py", "data.csv#d.csv"]
    code, _, err = command("run", etl, "-p", "input=a", "--archives", "data.csv")
    assert (code, "its name must end in .zip" in err) == (2, True)


def test_an_environment_of_its_own_is_an_archive_and_an_option(command, cluster, etl: str, tmp_path: Path) -> None:
    fake = cluster()
    archive = tarred(environment(tmp_path / "env", "one"), tmp_path / "env.tar.gz")
    for written in (("--py-executable", "env/bin/python"), ("-pyexec", "env/bin/python"),
                    ("-D", "python.executable=env/bin/python")):  # fmt: skip
        code, _, err = command("run", etl, "-p", "input=a", "--archives", f"{archive}#env", *written)
        assert code == 0, err
        assert fake.client.graph.configuration["python.executable"] == "env/bin/python"
    code, _, err = command("run", etl, "-p", "input=a", "-pyexec", "env/bin/python")
    assert code == 2
    assert (
        "python.executable env/bin/python: no archive of the job is called env: add --archives FILE.tar.gz#env" in err
    )
