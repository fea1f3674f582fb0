"""Rows that a pipeline returns to its caller, on a mini cluster with a real Spark."""

import asyncio
import datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import Row

import firesteel as fs
from firesteel.minicluster import MiniCluster
from firesteel.model.failures import FailureKind
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult
from firesteel.runtime.client import UnknownResult
from tests.integration.cluster.conftest import Do
from tests.integration.cluster.files import Files

pytestmark = pytest.mark.spark

BODY = '''
import os

@pipeline.source(share="recompute")
def numbers(spark: SparkSession) -> DataFrame:
    return spark.range(20).withColumn("k", F.col("id") % 3)

@pipeline.transform(parallelism=2, inputs={"numbers": fs.hash_by("k")})
def counts(numbers: DataFrame) -> DataFrame:
    return numbers.groupBy("k").count()

@pipeline.result
def top(counts: DataFrame) -> DataFrame:
    return counts.orderBy(F.desc("count"), "k")

@pipeline.result
def odd_types(spark: SparkSession, numbers: DataFrame) -> DataFrame:
    return spark.sql("""select array(1, null) as a, map('x', 1.5D) as m, named_struct('f', date'2024-02-29') as s,
        cast(null as void) as n, 1.10BD as d, timestamp'2024-01-02 03:04:05.000006' as t, timestamp_ntz'2024-01-02 03:04:05' as z,
        double('nan') as f, X'00ff' as b, 'ä\\t' as `a b`, interval 3 days as i""")

@pipeline.result
def none(numbers: DataFrame) -> DataFrame:
    return numbers.where("id < 0")

@pipeline.sink
def out(numbers: DataFrame, output: str) -> None:
    fs.write_parquet(numbers, output)
'''


def rows_of(cluster: MiniCluster, do: Do, result: JobResult, function: str) -> fs.ResultRows:
    return fs.ResultRows(do(cluster.client.fetch_result(result.job_id, function)))


def test_rows_come_as_collect_gives_them(files: Files, cluster: MiniCluster, do: Do, tmp_path: Path) -> None:
    parameters = {"output": str(tmp_path / "out")}
    done = do(files.run(files.write(BODY), parameters, {"spark.sql.session.timeZone": "Asia/Tokyo"}))
    assert done.status is JobStatus.FINISHED, done.failure
    assert {each.function: each.rows for each in done.returned} == {"top": 3, "odd_types": 1, "none": 0}
    assert [sink.function for sink in done.sinks] == ["out"]
    top = rows_of(cluster, do, done, "top")
    assert top.rows() == [Row(k=0, count=7), Row(k=1, count=7), Row(k=2, count=6)]
    assert top.pandas()["count"].tolist() == [7, 7, 6]
    assert top.arrow().to_pydict() == {"k": [0, 1, 2], "count": [7, 7, 6]}
    (row,) = rows_of(cluster, do, done, "odd_types").rows()
    assert row.f != row.f
    assert (row.a, row.m, row.s) == ([1, None], {"x": 1.5}, Row(f=datetime.date(2024, 2, 29)))
    assert (row.n, row.d, row.b, row["a b"]) == (None, Decimal("1.10"), b"\x00\xff", "ä\t")
    assert (row.z.isoformat(), row.i) == ("2024-01-02T03:04:05", datetime.timedelta(days=3))
    tokyo = datetime.timezone(datetime.timedelta(hours=9))
    assert row.t.astimezone(tokyo) == datetime.datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=tokyo)
    assert str(rows_of(cluster, do, done, "odd_types").pandas()["t"][0]) == "2024-01-02 03:04:05.000006"
    none = rows_of(cluster, do, done, "none")
    assert (len(none), none.rows(), none.columns) == (0, [], ["id", "k"])
    do(change_dispatcher(cluster))
    assert len(rows_of(cluster, do, done, "top")) == 3, "who leads next has them too"
    with pytest.raises(UnknownResult, match="no rows of 'tip': name one of"):
        rows_of(cluster, do, done, "tip")
    with pytest.raises(UnknownResult, match="several functions"):
        rows_of(cluster, do, done, "")


async def change_dispatcher(cluster: MiniCluster) -> None:
    cluster.revoke_leadership("dispatcher")
    cluster.grant_leadership("dispatcher")


TOO_MANY = """
@pipeline.source
def numbers(spark: SparkSession) -> DataFrame:
    return spark.range(MANY)

@pipeline.result
def everything(numbers: DataFrame) -> DataFrame:
    return numbers

@pipeline.sink
def out(numbers: DataFrame) -> None:
    BODY
"""


def test_too_many_rows_and_rows_of_failed_jobs_leave_nothing(files: Files, cluster: MiniCluster, do: Do) -> None:
    blobs = Path(cluster.work_dir, "blobs")
    many = files.write(TOO_MANY.replace("MANY", "200_000").replace("BODY", "pass"))
    done = do(files.run(many, configuration={"job.result.max-size": "1m"}))
    assert (done.status, done.restarts) == (JobStatus.FAILED, 0)
    assert done.failure is not None
    assert done.failure.vertex == "everything"
    for part in ("more than 1 MiB", "limit()", "fs.write_parquet", "-D job.result.max-size=4m"):
        assert part in done.failure.message
    months = TOO_MANY.replace("spark.range(MANY)", "spark.sql('select array(interval 5 month) as m')")
    refused = do(files.run(files.write(months.replace("BODY", "pass"), "months.py")))
    assert refused.failure is not None
    assert (refused.failure.kind, refused.failure.vertex) == (FailureKind.NON_RECOVERABLE, "everything")
    assert "can't return column 'm' of type array<interval month>" in refused.failure.message
    nothing = TOO_MANY.replace("spark.range(MANY)", "spark.range(3).select()")
    refused = do(files.run(files.write(nothing.replace("BODY", "pass"), "nothing.py")))
    assert refused.failure is not None
    assert "everything returns rows without columns: select one" in refused.failure.message
    assert do(files.run(many)).status is JobStatus.FINISHED
    # The rows are stored, then another region fails for good: nobody is told of them, so they go.
    kept = {path.name for path in blobs.iterdir()}
    failing = files.write(TOO_MANY.replace("MANY", "3").replace("BODY", "numbers.count(); 1 / 0"))
    failed = do(
        files.run(
            failing,
            configuration={"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0 ms"},
        )
    )
    assert (failed.status, failed.returned) == (JobStatus.FAILED, ())
    do(until_only(blobs, kept))


async def until_only(directory: Path, names: set[str]) -> None:
    async with asyncio.timeout(300):
        while not {path.name for path in directory.iterdir()} <= names:
            await asyncio.sleep(0.02)
