"""Whoever is killed while sinks write to a bucket: afterwards the rows of one run, and nothing of what was staged."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.adapters.storage.s3keys import S3Keys
from firesteel.minicluster import MiniCluster
from firesteel.model.states import JobStatus
from tests.integration.cluster.files import HEADER, Files
from tests.integration.cluster.test_command import Command, wait_until
from tests.stack.conftest import Do, s3_settings, started, until
from tests.stack.test_s3_commits import keys_at
from tests.stack.test_s3_sinks import ids

SINKS = """
import os, psutil, signal, time

@F.udf("string")
def deadly(id):
    if id == 199_999:
        psutil.Process().parent().parent().kill()  # the JVM of this Python worker's daemon
    return "x" * 100

@pipeline.source
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(100, 120).repartition(3)

@pipeline.sink
def result(rows: DataFrame, spark: SparkSession, output: str, context, dies: bool = False) -> None:
    fs.write_parquet(rows, output + "/added", "append")
    fs.write_parquet(rows, output + "/whole")
    if dies and context.attempt == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if dies and context.attempt == 1:  # with an upload in parts on its way
        fs.write_csv(spark.range(0, 200_000, 1, 1).select(deadly("id")), output + "/large")
"""


@pytest.fixture
def cluster(do: Do, s3: str, tmp_path: Path) -> Iterator[MiniCluster]:
    """Of one test: its JVM is killed, and another one takes its place."""
    cluster = do(started({**s3_settings(s3), "cluster.work-dir": str(tmp_path / "cluster")}))
    yield cluster
    do(cluster.close())


def test_attempts_that_are_killed_leave_nothing(
    cluster: MiniCluster, do: Do, tmp_path: Path, s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, given_up = keys_at(s3), list[str]()
    real = S3Keys.abort_uploads

    def noted(self: S3Keys, prefix: str, infix: str = "") -> None:
        uploads = self._client.list_multipart_uploads(Bucket="firesteel", Prefix=prefix).get("Uploads", [])
        given_up.extend(each["Key"] for each in uploads)
        real(self, prefix, infix)

    monkeypatch.setattr(S3Keys, "abort_uploads", noted)
    files = Files(cluster, do, tmp_path)
    path = files.write(SINKS)
    assert do(files.run(path, {"output": "s3a://firesteel/deaths"})).status is JobStatus.FINISHED
    delay = "restart-strategy.fixed-delay"
    settings = {"restart-strategy.type": "fixed-delay", f"{delay}.delay": "0 s", f"{delay}.attempts": "5"}
    result = do(files.run(path, {"output": "s3a://firesteel/deaths", "dies": "true"}, settings))
    assert result.status is JobStatus.FINISHED, result.failure
    assert result.restarts == 2
    assert ids(keys, "deaths/whole/") == list(range(100, 120))
    assert ids(keys, "deaths/added/") == sorted([*range(100, 120)] * 2)
    assert list(keys.found("deaths/large/")) == []
    do(until(lambda: not any(keys.found("deaths/.firesteel-staging/"))))
    assert list(keys.found("deaths/.firesteel-staging/")) == []
    assert keys._client.list_multipart_uploads(Bucket="firesteel").get("Uploads", []) == []
    assert [key for key in given_up if "/part-" in key], "there was one to give up"


KILLED = """
import os, signal, sys
from firesteel.adapters.spark.worker import backend
from firesteel.adapters.storage.s3keys import S3Keys
from firesteel.cli.main import main

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def dying(name, at, calls=[]):
    real = getattr(S3Keys, name)
    def call(self, *given, **more):
        if ".lock" not in str(given[0]):
            calls.append(given)
            len(calls) > at and die()
        return real(self, *given, **more)
    setattr(S3Keys, name, call)

def staged(run):
    async def killed(*arguments, **more):
        await run(*arguments, **more)
        die()
    return killed

match sys.argv.pop(1):
    case "staged":
        backend.SparkTaskBackend.run = staged(backend.SparkTaskBackend.run)
    case "half-copied":
        dying("copy", 1)
    case "half-deleted":
        dying("delete", 1)
sys.exit(main())
"""


@pytest.mark.parametrize("phase", ["staged", "half-copied", "half-deleted"])
def test_a_whole_run_that_is_killed_leaves_all_of_an_output_or_nothing(phase: str, tmp_path: Path, s3: str) -> None:
    keys, command = keys_at(s3), Command(tmp_path)
    (tmp_path / "job.py").write_text(HEADER + SINKS)
    (tmp_path / "killed.py").write_text(KILLED)
    options = [text for name, value in s3_settings(s3).items() for text in ("-D", f"{name}={value}")]
    environment = {**os.environ, "TMPDIR": str(command.temporary), "FIRESTEEL_TEST_COMMAND": command.mark}
    output = f"killed-{phase}"
    parameters = ["--param", f"output=s3a://firesteel/{output}"]
    arguments = [sys.executable, str(tmp_path / "killed.py"), phase, "run", str(tmp_path / "job.py")]
    done = subprocess.run(
        [*arguments, *parameters, *options], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == -9, done.stderr
    wait_until(lambda: not command.processes() and not list(command.temporary.iterdir()), 200)
    assert not list(command.temporary.iterdir())
    rows = list(range(100, 120))
    seen = ids(keys, f"{output}/added/"), ids(keys, f"{output}/whole/")
    assert all(each in ([], rows) for each in seen), seen
    assert any(seen) is (phase != "staged"), "what was begun is carried to its end"
    assert list(keys.found(f"{output}/.firesteel-staging/")) == []
