"""`firesteel run script.py ARGUMENTS`, without Spark: whose argument is whose, and where what is printed goes."""

import json
from pathlib import Path

import msgspec
import pytest

from firesteel.cli.jobs import run as run_module
from firesteel.model.states import JobStatus
from tests.cli.fakes import FAILURE, FakeCluster, view


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run_module, "java_problem", lambda: "")

    def install(*statuses: JobStatus) -> FakeCluster:
        fake = FakeCluster(statuses or (JobStatus.RUNNING, JobStatus.FINISHED))
        fake.client.printed = {("stdout", 0): b"counted\n", ("stderr", 0): b"a warning\n"}
        monkeypatch.setattr(run_module, "open_cluster", lambda _: fake)
        return fake

    return install


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "code").mkdir()
    path = tmp_path / "code" / "count it.py"
    path.write_text("from pyspark.sql import SparkSession\nraise AssertionError('run by whoever builds its job')\n")
    return str(path)


def test_what_follows_a_script_is_the_scripts(command, cluster, script: str) -> None:
    fake = cluster()
    code, out, err = command("run", "--name", "mine", script, "--name", "x", "-D", "--", "--json", "")
    assert (code, out) == (0, "counted\n")
    assert "a warning\n" in err
    assert "FINISHED in 3.2 s" in err
    (vertex,) = fake.client.graph.vertices
    (function,) = vertex.functions
    assert (fake.client.graph.name, vertex.name, function.entry_point) == ("mine", "count it", "count it.py")
    assert function.arguments == ("--name", "x", "-D", "--", "--json", "")
    assert (vertex.parallelism, vertex.max_attempts) == (1, 1)


def test_what_may_have_been_meant_for_firesteel_is_told(command, cluster, script: str) -> None:
    cluster()
    _, _, err = command("run", script, "--master", "m:1", "-Dspark.ui.enabled=false", "--depth=3")
    told = [line.partition(" follows")[0].split()[-1] for line in err.splitlines() if "argument of the script" in line]
    assert told == ["--master", "-Dspark.ui.enabled"]


def test_json_leaves_standard_output_to_the_result(command, cluster, script: str) -> None:
    cluster()
    code, out, err = command("run", "--json", script)
    assert (code, json.loads(out)["status"]) == (0, "FINISHED")
    assert "counted\n" in err


@pytest.mark.parametrize(("given", "code"), [(3, 3), (137, 137), (0, 1)])
def test_the_exit_code_is_the_scripts(command, cluster, script: str, given: int, code: int) -> None:
    fake = cluster(JobStatus.RUNNING, JobStatus.FAILED)
    fake.client.failure = msgspec.structs.replace(FAILURE, exit_code=given)
    ended, out, err = command("run", "--json", script)
    assert ended == code
    assert json.loads(out)["failure"].get("exit_code", 0) == given
    assert "no column 'wrod'" in err
    assert "the full trace is in" not in err


def test_attempts_follow_one_another(command, cluster, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = cluster()
    fake.client.printed = {("stdout", 0): b"first try\n", ("stdout", 1): b"second try\n"}

    async def request_job(job_id):
        plain = view(JobStatus.RUNNING if fake.client.asked < 2 else JobStatus.FINISHED, job_id=job_id)
        fake.client.asked += 1
        if plain.status.is_terminal:
            fake.client._statuses = [JobStatus.FINISHED]
            fake.client._ended.set()
        vertices = tuple(msgspec.structs.replace(vertex, attempts=2) for vertex in plain.vertices)
        return msgspec.structs.replace(plain, vertices=vertices)

    fake.client.request_job = request_job
    assert command("run", script)[:2] == (0, "first try\nsecond try\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--param", "a=b"), "--param is for pipelines"),
        (("--parallelism", "4"), "--parallelism is for pipelines"),
        (("--set", "count it.parallelism=4"), "its parallelism is 1"),
        (("--set", "other.retries=4"), "there is no function 'other'"),
    ],
)
def test_what_is_for_pipelines_is_refused(command, cluster, script: str, arguments, words: str) -> None:
    fake = cluster()
    code, _, err = command("run", *arguments, script)
    assert (code, words in err) == (2, True), err
    assert fake.client.graph is None


def test_options_of_a_pipeline_may_follow_its_file_and_arguments_may_not(command, cluster, etl: str) -> None:
    cluster()
    assert command("run", etl, "-p", "input=a")[0] == 0
    code, _, err = command("run", etl, "-p", "input=a", "more")
    assert (code, "give --param NAME=VALUE" in err) == (2, True)


def test_a_script_is_never_run_here(command, script: str) -> None:
    code, _, err = command("plan", script)
    assert (code, "is a plain script" in err, "there is no plan" in err) == (2, True, True)


@pytest.mark.parametrize("text", ["if True:\nprint 1\n", "x = '\0'\n", "import pyspark\ndef f(:\n"])
def test_what_python_can_not_compile_is_refused_before_it_is_submitted(
    command, cluster, script: str, text: str
) -> None:
    fake = cluster()
    Path(script).write_text(text)
    code, _, err = command("run", script, "--x")
    assert (code, fake.client.graph) == (2, None)
    assert "count it.py:" in err
