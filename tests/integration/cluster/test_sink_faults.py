"""Whoever is killed while sinks write and commit: afterwards the rows of one run, and no staging.

Every death has a place, not a time: user code kills what it runs in, or a seam of the commit is replaced by one that
ends the process, or the worker, at that step.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet
import pytest

from firesteel.adapters.spark.sinks import jdbccommit
from firesteel.adapters.spark.staged.references import SinkWork
from firesteel.adapters.spark.worker import sinkoutput
from firesteel.adapters.storage import local, swap
from firesteel.adapters.storage.sinks import commit_sink
from firesteel.adapters.storage.sinkstore import STAGING_NAME
from firesteel.minicluster import MiniCluster
from firesteel.model.states import JobStatus
from firesteel.model.tasks import Committed, SinkCommit
from tests.integration.cluster.conftest import Do, mini_cluster
from tests.integration.cluster.files import HEADER, Files
from tests.integration.cluster.postgres import Postgres, is_missing
from tests.integration.cluster.test_command import Command
from tests.paths import paths_now
from tests.sparkjvms import quick_start_arguments
from tools.postgres import DRIVER

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(is_missing(), reason="needs PostgreSQL and its JDBC driver: make postgres"),
]

SINKS = """
import os, pathlib, psutil, signal, time

@F.udf("bigint")
def deadly(id):
    if id == 110:
        psutil.Process().parent().parent().kill()  # the JVM of this Python worker's daemon
    return id

@pipeline.source
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(100, 120).selectExpr("id", "id % 3 as k").repartition(4)

@pipeline.sink
def result(rows: DataFrame, output: str, url: str, secret: str, context, dies: bool = False) -> None:
    fs.write_parquet(rows, output + "/added", "append")
    if dies and context.attempt == 2:
        rows = rows.withColumn("id", deadly("id"))
    fs.write_parquet(rows.where("k > 0"), output + "/parts", partition_by="k", overwrite_partitions="dynamic")
    fs.write_parquet(rows, output + "/whole")
    fs.write_jdbc(rows, url, "faults", properties={"user": "tester", "password": "file:" + secret})
    if dies and context.attempt == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if dies and context.attempt == 1:
        worker = psutil.Process().parent().parent()
        for process in worker.children(recursive=True):
            if process.name() == "java" and str(pathlib.Path(output).parent) in " ".join(process.cmdline()):
                process.kill()  # below the work directory of this test's cluster; other tests' servers live on
        time.sleep(600)
"""
NEW = list(range(100, 120))


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    server = Postgres()
    yield server
    server.stop()


@pytest.fixture
def cluster(do: Do, tmp_path: Path) -> Iterator[MiniCluster]:
    """Of each test's own: workers and JVMs are killed in it, and replaced."""
    with mini_cluster(do, tmp_path / "work", {"spark.driver.extraClassPath": str(DRIVER)}) as made:
        yield made


class Targets:
    """Two directories, a partitioned one and a table, each with a row that was there before."""

    def __init__(self, root: Path, postgres: Postgres) -> None:
        self.root, self.postgres = root, postgres
        self.secret = root / "secret"
        self.secret.write_text(postgres.password)
        for place in ("added", "parts/k=0", "parts/k=1", "whole"):
            (root / "out" / place).mkdir(parents=True)
            pyarrow.parquet.write_table(pyarrow.table({"id": [7]}), root / "out" / place / "part-old.parquet")
        postgres.query(
            "drop table if exists faults; create table faults (id bigint, k bigint); insert into faults values (7, 0)"
        )

    @property
    def parameters(self) -> dict[str, str]:
        return {"output": str(self.root / "out"), "url": self.postgres.url, "secret": str(self.secret)}

    def seen(self) -> dict[str, list[int]]:
        """What readers find in each."""
        found: dict[str, list[int]] = {}
        for path in paths_now(self.root / "out", "**/part-*"):
            relative = path.parent.relative_to(self.root / "out")
            if not any(part.startswith((".", "_")) for part in relative.parts):
                ids = pyarrow.parquet.ParquetFile(path).read(["id"])["id"].to_pylist()
                found.setdefault(relative.parts[0], []).extend(ids)
        found["table"] = [int(row) for (row,) in self.postgres.query("select id from faults")]
        return {name: sorted(ids) for name, ids in sorted(found.items())}

    def staged(self) -> list[str]:
        return [*map(str, paths_now(self.root, f"**/{STAGING_NAME}")), *self.postgres.staging_tables()]


OLD = {"added": [7], "parts": [7, 7], "table": [7], "whole": [7]}
DONE = {"added": [7, *NEW], "parts": [7, *(i for i in NEW if i % 3)], "table": [7, *NEW], "whole": NEW}


@pytest.fixture
def targets(tmp_path: Path, postgres: Postgres) -> Targets:
    return Targets(tmp_path, postgres)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(300):
        while not holds():
            await asyncio.sleep(0.05)


RESTARTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "3",
    "restart-strategy.fixed-delay.delay": "1 ms",
}


def test_a_task_process_and_a_jvm_killed_when_all_is_staged_and_a_jvm_while_it_writes(
    files: Files, targets: Targets
) -> None:
    result = files.do(files.run(files.write(SINKS), {**targets.parameters, "dies": "true"}, RESTARTS))
    assert (result.status, result.restarts) == (JobStatus.FINISHED, 3), result.failure
    assert targets.seen() == DONE
    files.do(until(lambda: not targets.staged()))


class Cut(BaseException):
    """The worker dies here."""


def nothing(commit: SinkCommit) -> None:
    """The intent is journaled."""


def half(commit: SinkCommit) -> None:
    """Some files have been moved, or swapped; the transaction is open."""
    with pytest.MonkeyPatch.context() as patch:
        if commit.format == "jdbc":
            work = SinkWork(references=commit.stagings, commit_id=commit.commit_id, mode=commit.mode)
            patch.setattr(jdbccommit, "drop", cut)
            with pytest.raises(Cut):
                jdbccommit.perform(msgspec.json.encode(work))
        elif commit.mode == "overwrite-partitions":
            patch.setattr(swap, "put_in_place", cut_second(swap.put_in_place))
            with pytest.raises(Cut):
                commit_sink(commit)
        else:
            patch.setattr(os, "rename", cut_second(os.rename) if commit.mode == "append" else os.rename)
            patch.setattr(local, "remove", cut)
            with pytest.raises(Cut):
                commit_sink(commit)


def done(commit: SinkCommit) -> None:
    """All of it is visible, and nobody has been told."""
    if commit.format == "jdbc":
        work = SinkWork(references=commit.stagings, commit_id=commit.commit_id, mode=commit.mode)
        jdbccommit.perform(msgspec.json.encode(work))
    else:
        commit_sink(commit)


def cut(*_: Any) -> None:
    raise Cut


def cut_second(real: Callable[..., None]) -> Callable[..., None]:
    """`real` once, and then the end."""
    calls = iter((real, cut))

    def call(*arguments: Any) -> None:
        next(calls)(*arguments)

    return call


@pytest.mark.parametrize("phase", [nothing, half, done], ids=lambda phase: phase.__name__)
def test_a_worker_that_dies_in_a_commit_is_followed_by_another(
    cluster: MiniCluster,
    files: Files,
    targets: Targets,
    phase: Callable[[SinkCommit], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first worker comes so far with each of the four commits, and is never heard of again."""
    real = sinkoutput.SinkOutput.commit
    reached: list[SinkCommit] = []

    async def so_far(self: sinkoutput.SinkOutput, commit: SinkCommit) -> Committed:
        if len(reached) == 4:
            return await real(self, commit)
        phase(commit)
        reached.append(commit)
        await asyncio.Event().wait()
        raise AssertionError("nobody is heard of again")

    monkeypatch.setattr(sinkoutput.SinkOutput, "commit", so_far)

    async def story() -> JobStatus:
        (first,) = cluster.workers
        job_id = await files.submit(files.write(SINKS), targets.parameters)
        await until(lambda: len(reached) == 4)
        assert targets.seen() == DONE if phase is done else targets.staged()
        await cluster.start_task_executor()
        await cluster.terminate_task_executor(first)
        return (await cluster.client.request_job_result(job_id)).status

    assert files.do(story()) is JobStatus.FINISHED
    assert targets.seen() == DONE
    files.do(until(lambda: not targets.staged()))


KILLED = """
import os, signal, sys
from firesteel.adapters.spark.worker import backend
from firesteel.adapters.spark.worker import sinkoutput
from firesteel.adapters.storage import local, swap
from firesteel.cli.main import main

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def renamed_one(tree, old, new, real=local.LocalTree.rename, calls=[]):
    calls.append(new)
    real(tree, old, new) if len(calls) == 1 else die()

def staged(run):
    async def killed(*arguments, **more):
        await run(*arguments, **more)
        die()
    return killed

match sys.argv.pop(1):
    case "staged":
        backend.SparkTaskBackend.run = staged(backend.SparkTaskBackend.run)
    case "half":
        local.LocalTree.rename = renamed_one
sys.exit(main())
"""


@pytest.mark.parametrize("phase", ["staged", "half"])
def test_a_whole_run_that_is_killed_leaves_all_of_an_output_or_nothing(
    phase: str, tmp_path: Path, postgres: Postgres
) -> None:
    targets, command = Targets(tmp_path, postgres), Command(tmp_path)
    (tmp_path / "job.py").write_text(HEADER + SINKS)
    (tmp_path / "killed.py").write_text(KILLED)
    parameters = [text for name, value in targets.parameters.items() for text in ("--param", f"{name}={value}")]
    options = [*quick_start_arguments(), "-D", f"spark.driver.extraClassPath={DRIVER}"]
    environment = {**os.environ, "TMPDIR": str(command.temporary), "FIRESTEEL_TEST_COMMAND": command.mark}
    arguments = [
        sys.executable,
        str(tmp_path / "killed.py"),
        phase,
        "run",
        str(tmp_path / "job.py"),
        *parameters,
        *options,
    ]
    done = subprocess.run(
        arguments, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == -9, done.stderr
    asyncio.run(until(lambda: not command.processes() and not list(command.temporary.iterdir())))
    seen = targets.seen()
    assert all(seen[name] in (OLD[name], DONE[name]) for name in DONE), seen
    assert not targets.staged()
    assert phase != "staged" or seen == OLD
    assert phase == "staged" or seen["added"] == DONE["added"], "what was begun is carried to its end"
