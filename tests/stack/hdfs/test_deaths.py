"""Whoever is killed while sinks write to HDFS: afterwards the rows of one run, and nothing of what was staged."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.minicluster import MiniCluster
from firesteel.model.states import JobStatus
from tests.integration.cluster.files import HEADER, Files
from tests.integration.cluster.test_command import Command, wait_until
from tests.stack.conftest import Do, started, until
from tests.stack.hadoop import Hdfs
from tests.stack.hdfs.conftest import hdfs_settings
from tests.stack.hdfs.test_sinks import ids

DELAY = "restart-strategy.fixed-delay"
RETRY = {"restart-strategy.type": "fixed-delay", f"{DELAY}.delay": "0 s", f"{DELAY}.attempts": "5"}
SINKS = """
import os, signal

@pipeline.source
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(100, 120).selectExpr("id", "id % 2 AS k").repartition(3)

@pipeline.sink
def result(rows: DataFrame, output: str, context, dies: bool = False) -> None:
    fs.write_parquet(rows, output + "/added", "append")
    fs.write_parquet(rows, output + "/parts", partition_by="k", overwrite_partitions="dynamic")
    fs.write_parquet(rows, output + "/whole")
    if dies and context.attempt < 2:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def cluster(do: Do, storage: Hdfs, tmp_path: Path) -> Iterator[MiniCluster]:
    """Of one test: another JVM may take the place of its first one."""
    cluster = do(started({**hdfs_settings(storage), "cluster.work-dir": str(tmp_path / "cluster")}))
    yield cluster
    do(cluster.close())


def left(storage: Hdfs, path: str) -> list[str]:
    return [each.name for each in storage.client().listed(path) if each.name.startswith(".firesteel")]


def test_attempts_that_are_killed_leave_nothing(cluster: MiniCluster, do: Do, files: Files, storage: Hdfs) -> None:
    output = storage.uri("/deaths")
    path = files.write(SINKS)
    assert do(files.run(path, {"output": output})).status is JobStatus.FINISHED
    result = do(files.run(path, {"output": output, "dies": "true"}, RETRY))
    assert result.status is JobStatus.FINISHED, result.failure
    assert result.restarts == 2
    rows = list(range(100, 120))
    assert [ids(storage, f"/deaths/{name}") for name in ("whole", "parts")] == [rows, rows]
    assert ids(storage, "/deaths/added") == sorted([*rows, *rows])
    do(until(lambda: not left(storage, "/deaths")))
    assert left(storage, "/deaths") == []


KILLED = """
import os, signal, sys
from firesteel.adapters.spark.worker import backend
from firesteel.adapters.storage.hdfstree import HdfsTree
from firesteel.cli.main import main

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def dying(name, at, calls=[]):
    real = getattr(HdfsTree, name)
    def call(self, *given):
        calls.append(given)
        len(calls) > at and die()
        return real(self, *given)
    setattr(HdfsTree, name, call)

def staged(run):
    async def killed(*arguments, **more):
        await run(*arguments, **more)
        die()
    return killed

match sys.argv.pop(1):
    case "staged":
        backend.SparkTaskBackend.run = staged(backend.SparkTaskBackend.run)
    case "half-moved":
        dying("rename", 1)
    case "moved-aside":
        dying("put_in_place", 1)
sys.exit(main())
"""


@pytest.mark.parametrize("phase", ["staged", "half-moved", "moved-aside"])
def test_a_whole_run_that_is_killed_leaves_all_of_an_output_or_nothing(
    phase: str, tmp_path: Path, storage: Hdfs
) -> None:
    command = Command(tmp_path)
    (tmp_path / "job.py").write_text(HEADER + SINKS)
    (tmp_path / "killed.py").write_text(KILLED)
    options = [text for name, value in hdfs_settings(storage).items() for text in ("-D", f"{name}={value}")]
    environment = {**os.environ, "TMPDIR": str(command.temporary), "FIRESTEEL_TEST_COMMAND": command.mark}
    parameters = ["--param", f"output={storage.uri(f'/killed-{phase}')}"]
    arguments = [sys.executable, str(tmp_path / "killed.py"), phase, "run", str(tmp_path / "job.py")]
    done = subprocess.run(
        [*arguments, *parameters, *options], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == -9, done.stderr
    wait_until(lambda: not command.processes() and not list(command.temporary.iterdir()), 200)
    assert not list(command.temporary.iterdir())
    rows = list(range(100, 120))
    seen = [ids(storage, f"/killed-{phase}/{name}") for name in ("added", "parts", "whole")]
    assert all(each in ([], rows) for each in seen), seen
    assert any(seen) is (phase != "staged"), "what was begun is carried to its end"
    assert left(storage, f"/killed-{phase}") == []
