"""Jobs on a cluster: a table is a source, and a worker that dies in the commit to one is followed by another."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firesteel.adapters.spark.staged.references import SinkWork
from firesteel.adapters.spark.worker import sinkoutput
from firesteel.minicluster import MiniCluster
from firesteel.model.states import JobStatus
from firesteel.model.tasks import Committed, SinkCommit
from firesteel.runtime.ports import TaskFailedError
from tests.integration.cluster.files import Files
from tests.stack.conftest import Do, started
from tests.stack.tables.conftest import KILLED
from tests.stack.tables.formats import Format

MAKES = """
@pipeline.source
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(100).selectExpr("id", "id % 3 as k")

@pipeline.sink
def result(rows: DataFrame, table: str, using: str) -> None:
    fs.write_table(rows, table, "error", using=using)
"""
ADDS = """
@pipeline.source
def known(spark: SparkSession, table: str) -> DataFrame:
    return spark.read.table(table)

@pipeline.sink
def result(known: DataFrame, table: str) -> None:
    fs.write_table(known.selectExpr("id + 100 as id", "k"), table)

@pipeline.result
def count(known: DataFrame) -> DataFrame:
    return known.agg(F.count("*").alias("n"))
"""


def test_another_worker_carries_a_commit_on(
    table_format: Format, older_spark: None, do: Do, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = f"delta.`{tmp_path}/t`" if table_format.name == "delta" else table_format.table("t")
    own = {"cluster.work-dir": str(tmp_path / "work"), "taskmanager.spark.class-data-archive": "false"}
    cluster = do(started({**own, **table_format.settings(tmp_path / "warehouse")}))
    try:
        files = Files(cluster, do, tmp_path)
        made = do(files.run(files.write(MAKES), {"table": table, "using": table_format.name}))
        assert made.status is JobStatus.FINISHED, made.failure
        adds = files.write(ADDS, "adds.py")
        assert do(_interrupted(cluster, files, (adds, table), monkeypatch)) is JobStatus.FINISHED
        again = do(files.run(adds, {"table": table}))
        assert again.status is JobStatus.FINISHED, again.failure
        assert [row.rows for row in again.sinks] == [200], "rows of the first two jobs, added once more"
    finally:
        do(cluster.close())


async def _interrupted(
    cluster: MiniCluster, files: Files, job: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> JobStatus:
    """The process that commits is killed when it has written; its worker is never heard of again."""
    real, reached = sinkoutput.SinkOutput.commit, asyncio.Event()

    async def so_far(self: Any, commit: SinkCommit) -> Committed:
        if reached.is_set() or "table" not in commit.format:
            return await real(self, commit)
        work = SinkWork(references=commit.stagings, commit_id=commit.commit_id, mode=commit.mode)
        async with self._sessions.open() as side:
            given = msgspec.structs.replace(work, endpoint=side.endpoint, session=side.name, settings=side.settings)
            payload = {**msgspec.json.decode(msgspec.json.encode(given)), "dies": "written"}
            with pytest.raises(TaskFailedError):
                await self._forks.call(KILLED, msgspec.json.encode(payload))
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError("waits for ever")

    monkeypatch.setattr(sinkoutput.SinkOutput, "commit", so_far)
    (first,) = cluster.workers
    path, table = job
    job_id = await files.submit(path, {"table": table})
    async with asyncio.timeout(240):
        await reached.wait()
        await cluster.start_task_executor()
        await cluster.terminate_task_executor(first)
        result = await cluster.client.request_job_result(job_id)
    assert result.failure is None, result.failure
    return result.status
