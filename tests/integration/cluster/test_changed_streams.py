"""New versions of a stream that start from a savepoint of an old one: what fits goes on, what does not is refused."""

import asyncio
from pathlib import Path

import pyarrow.parquet
import pytest

from firesteel.adapters.spark.streams.snapshots.savepoints import read_manifest
from firesteel.model.failures import FailureKind
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.model.streams import AfterSavepoint
from firesteel.model.views import JobResult
from tests.integration.cluster.files import HEADER, Files

pytestmark = [pytest.mark.spark, pytest.mark.streams]

COUNT = """
@pipeline.source
def lines(spark: SparkSession, input: str) -> DataFrame:
    return spark.readStream.text(input)

@pipeline.transform
def rows(lines: DataFrame) -> DataFrame:
    parts = F.split("value", " ")
    return lines.select(parts[0].alias("k"), parts[1].alias("v"))

@pipeline.transform
def counts(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").count()

@pipeline.sink
def result(counts: DataFrame, output: str):
    def replace(batch, batch_id):
        batch.write.mode("overwrite").parquet(output)
    return counts.writeStream.outputMode("complete").foreachBatch(replace)
"""
FROM = "execution.state-recovery.path"
NOW = {"execution.streaming.trigger": "available-now", "spark.sql.shuffle.partitions": "2"}


async def until_committed(files: Files, job_id: JobID) -> None:
    """A batch of some query."""
    async with asyncio.timeout(300):
        while True:
            view = await files.cluster.client.request_job(job_id)
            assert not view.status.is_globally_terminal, view.exceptions
            if any(query.batch_id >= 0 for each in view.vertices for of in each.progress for query in of.queries):
                return
            await asyncio.sleep(0.1)


def counted(output: Path) -> dict[str, int]:
    rows = pyarrow.parquet.read_table(output).to_pylist()
    return {row["k"]: row["count"] for row in rows}


def test_a_plan_that_the_state_fits_goes_on_and_another_is_refused(files: Files, tmp_path: Path) -> None:
    source, output = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    (source / "1.txt").write_text("a x\na y\nb x\n")
    path = files.write("")

    async def run(body: str, **configuration: str) -> JobResult:
        path.write_text(HEADER.replace('"test"', '"test", mode="streaming"') + body)
        return await files.run(path, {"input": str(source), "output": str(output)}, {**NOW, **configuration})

    async def story() -> None:
        client = files.cluster.client
        path.write_text(HEADER.replace('"test"', '"test", mode="streaming"') + COUNT)
        first = await files.submit(
            path, {"input": str(source), "output": str(output)}, {"spark.sql.shuffle.partitions": "2"}
        )
        await until_committed(files, first)
        saved = await client.take_savepoint(first, str(tmp_path / "saved"), after=AfterSavepoint.STOP)
        assert (await client.request_job_result(first)).status is JobStatus.FINISHED
        assert '"grouping keys":["split(value,  , -1)[0]"]' in read_manifest(saved).queries[0].fingerprint

        (source / "2.txt").write_text("a x\nc x\n")
        changed = COUNT.replace('groupBy("k")', 'groupBy(F.col("v").alias("k"))')
        refused = await run(changed, **{FROM: saved})
        assert refused.failure is not None
        assert refused.failure.kind is FailureKind.NON_RECOVERABLE
        assert "sink result can't go on from savepoint" in refused.failure.message
        assert "grouping keys of the aggregation: it was split(value,  , -1)[0], and is" in refused.failure.message
        assert counted(output) == {"a": 2, "b": 1}, "nothing of it has run"

        filtered = await run(COUNT.replace("rows.groupBy", "rows.where(\"k <> 'c'\").groupBy"), **{FROM: saved})
        assert filtered.status is JobStatus.FINISHED, filtered.failure
        assert counted(output) == {"a": 3, "b": 1}

        forced = await run(changed, **{FROM: saved, "execution.state-recovery.ignore-changed-plan": "true"})
        assert forced.status is JobStatus.FINISHED, forced.failure
        assert counted(output) == {"a": 2, "b": 1, "x": 2}, "what Spark would have done, asked for by name"

    files.do(story())


JOIN = """
@pipeline.source
def left(spark: SparkSession, input: str) -> DataFrame:
    return spark.readStream.schema("id long, k long").option("pathGlobFilter", "a*").json(input)

@pipeline.source
def right(spark: SparkSession, input: str) -> DataFrame:
    return spark.readStream.schema("id long, k long").option("pathGlobFilter", "b*").json(input)

@pipeline.transform
def both(left: DataFrame, right: DataFrame) -> DataFrame:
    x, y = left.select(F.col("id").alias("ai"), "k"), right.select(F.col("id").alias("bi"), "k")
    return x.join(y, "k").select("k", "ai", "bi")

@pipeline.sink
def result(both: DataFrame, output: str):
    return fs.stream_files(both, output)
"""


def test_sources_that_change_places_or_are_elsewhere_are_refused(files: Files, tmp_path: Path) -> None:
    source, output, path = tmp_path / "in", tmp_path / "out", files.write("")
    source.mkdir()
    (source / "a1.json").write_text('{"id":1,"k":1}\n')
    (source / "b1.json").write_text('{"id":101,"k":1}\n')
    settings = {"spark.sql.shuffle.partitions": "2"}

    def write(body: str) -> None:
        path.write_text(HEADER.replace('"test"', '"test", mode="streaming"') + body)

    async def run(body: str, saved: str, place: Path) -> JobResult:
        write(body)
        return await files.run(path, {"input": str(place), "output": str(output)}, {**NOW, FROM: saved})

    async def story() -> None:
        write(JOIN)
        first = await files.submit(path, {"input": str(source), "output": str(output)}, settings)
        await until_committed(files, first)
        saved = await files.cluster.client.take_savepoint(first, str(tmp_path / "s"), after=AfterSavepoint.STOP)
        assert (await files.cluster.client.request_job_result(first)).status is JobStatus.FINISHED
        (source / "a2.json").write_text('{"id":2,"k":1}\n')

        exchanged = await run(JOIN.replace("x.join(y", "y.join(x"), saved, source)
        assert exchanged.failure is not None
        assert "order of the sources: it was json" in exchanged.failure.message

        (tmp_path / "in2").mkdir()
        elsewhere = await run(JOIN, saved, tmp_path / "in2")
        assert elsewhere.failure is not None
        assert "directory of a source: it was json" in elsewhere.failure.message

        same = await run(JOIN, saved, source)
        assert same.status is JobStatus.FINISHED, same.failure
        rows = pyarrow.parquet.read_table(output).to_pylist()
        assert sorted((row["ai"], row["bi"]) for row in rows) == [(1, 101), (2, 101)]

    files.do(story())
