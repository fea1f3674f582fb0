"""Whole jobs whose vertices have several subtasks, on a mini cluster with a real Spark."""

from collections import Counter
from pathlib import Path

import pytest

from firesteel.minicluster import MiniCluster
from firesteel.model.states import JobStatus
from tests.integration.cluster.files import Files
from tests.integration.cluster.test_jobs import rows_of

pytestmark = pytest.mark.spark

BODY = """
@pipeline.source
def numbers(spark: SparkSession) -> DataFrame:
    return spark.range(100).select((F.col("id") % 7).cast("int").alias("k"), "id")

@pipeline.transform(parallelism=3, inputs={"numbers": fs.hash_by("k")})
def counts(numbers: DataFrame) -> DataFrame:
    return numbers.groupBy("GROUP").count()

@pipeline.sink(parallelism=3, inputs={"counts": fs.forward()})
def result(counts: DataFrame, output: str) -> None:
    fs.write_parquet(counts, output, mode="overwrite")
"""


def test_subtasks_of_a_sink_share_one_output(files: Files, tmp_path: Path) -> None:
    for _ in range(2):  # the second time it replaces what the first has written
        done = files.do(files.run(files.write(BODY.replace("GROUP", "k")), {"output": str(tmp_path / "out")}))
        assert done.status is JobStatus.FINISHED, done
        found = {row["k"]: row["count"] for row in rows_of(tmp_path / "out")}
        assert found == dict(Counter(number % 7 for number in range(100)))
        files_there = len(list((tmp_path / "out").glob("*.parquet")))
        assert [(sink.rows, sink.files) for sink in done.sinks] == [(7, files_there)]
    assert not list(tmp_path.glob(".firesteel*")), "staging is left"


def test_a_plan_that_shares_would_change_fails_the_job_at_once(files: Files, tmp_path: Path) -> None:
    done = files.do(files.run(files.write(BODY.replace("GROUP", "id")), {"output": str(tmp_path / "out")}))
    assert (done.status, done.restarts) == (JobStatus.FAILED, 0)
    assert done.failure is not None
    assert "counts has parallelism 3" in done.failure.message
    assert "groupBy(id)" in done.failure.message


def test_a_seed_that_is_drawn_while_a_module_is_imported_is_not_the_users(files: Files, tmp_path: Path) -> None:
    body = "NOISE = F.rand()\n" + BODY.replace('groupBy("GROUP")', 'where(NOISE >= 0).groupBy("k")')
    done = files.do(files.run(files.write(body), {"output": str(tmp_path / "out")}))
    assert done.status is JobStatus.FINISHED, done
    assert sum(row["count"] for row in rows_of(tmp_path / "out")) == 100


DRAWN = """
import uuid

def random(rows: DataFrame) -> DataFrame:
    drawn = F.udf(lambda x: str(uuid.uuid4()), "string").asNondeterministic()
    return rows.select("id", (F.col("id") % 5).alias("k"), F.rand().alias("r"), F.uuid().alias("u"), drawn("id").alias("p"))

SOURCE
@pipeline.sink(parallelism=3, inputs={"numbers": fs.hash_by("k")})
def hashed(numbers: DataFrame, output: str) -> None:
    fs.write_parquet(numbers, output + "/hashed")

@pipeline.sink(parallelism=2, inputs={"numbers": fs.rebalance()})
def spread(numbers: DataFrame, output: str) -> None:
    fs.write_parquet(numbers, output + "/spread")

@pipeline.sink
def whole(numbers: DataFrame, output: str) -> None:
    fs.write_parquet(numbers, output + "/whole")
"""
ONE_QUERY = """
@pipeline.source
def numbers(spark: SparkSession) -> DataFrame:
    return random(spark.range(100))
"""
BY_SPLITS = """
@pipeline.source(parallelism=2, splits=fs.range_splits("id", lower=0, upper=100, count=4))
def numbers(spark: SparkSession, splits: fs.RangeSplits) -> DataFrame:
    return random(splits.read(spark))
"""


@pytest.mark.parametrize("source", [ONE_QUERY, BY_SPLITS], ids=["one query", "by splits"])
def test_rows_are_made_once_however_they_are_laid_out(files: Files, tmp_path: Path, source: str) -> None:
    """A random key of one reader is the key of all."""
    done = files.do(files.run(files.write(DRAWN.replace("SOURCE", source)), {"output": str(tmp_path / "out")}))
    assert done.status is JobStatus.FINISHED, done
    hashed, spread, whole = (
        sorted(tuple(row.items()) for row in rows_of(tmp_path / "out" / name)) for name in ("hashed", "spread", "whole")
    )
    assert len(whole) == 100
    assert hashed == whole
    assert spread == whole


TELLINGS_MAX = 12
"""Jobs of which one at least takes longer than the interval in which Spark tells of a query."""


def test_finished_vertices_keep_their_figures(files: Files, cluster: MiniCluster, tmp_path: Path) -> None:
    """Also when the view comes from the archive. Nobody counts what a source reads, and that is said. What Spark counts
    it may tell too late for one job, and tells of no query that takes less than its interval of reports."""
    slow = "spark.range(500000000).where('id % 5000000 = 0').selectExpr('id div 5000000 as id')"
    body = BODY.replace("spark.range(100)", slow).replace("GROUP", "k")
    of_spark = {"tasks"}
    for _ in range(TELLINGS_MAX):
        done = files.do(files.run(files.write(body), {"output": str(tmp_path / "out")}))
        view = files.do(cluster.client.request_job(done.job_id))
        first, last = view.vertices[0], view.vertices[-1]
        assert first.io.rows_written == 100
        assert set(first.io_lacking) - of_spark == {"rows_read", "bytes_read"}
        subtasks = files.do(cluster.client.request_subtasks(done.job_id, last))
        assert sum(each.io.rows_written for each in subtasks) == last.io.rows_written == 7
        assert last.io.bytes_written > 0
        reader = next(vertex for vertex in view.vertices if "counts" in vertex.functions)
        assert (reader.io.rows_read, reader.io.bytes_read) == (100, first.io.bytes_written)
        assert set(reader.io_lacking) <= of_spark
        if first.io.tasks > 0 and not of_spark & {*first.io_lacking}:
            return  # the reader's queries may be too short to be told of, at each of these
    raise AssertionError("Spark has told of no job")
