"""Vertices of which nobody has said how many subtasks they have, on a mini cluster with a real Spark."""

from collections import Counter
from pathlib import Path

import pytest

from firesteel.model import options
from firesteel.model.states import JobStatus
from tests.integration.cluster.conftest import Do, mini_cluster
from tests.integration.cluster.files import Files
from tests.integration.cluster.test_jobs import rows_of

pytestmark = pytest.mark.spark

BODY = """
@pipeline.source
def numbers(spark: SparkSession) -> DataFrame:
    drawn = spark.range(300000).withColumn("noise", F.sha2(F.col("id").cast("string"), 256))
    return drawn.select((F.col("id") % 7).cast("int").alias("k"), "id", "noise")

@pipeline.transform(inputs={"numbers": fs.hash_by("k")})
def counts(numbers: DataFrame, context) -> DataFrame:
    counted = numbers.groupBy("GROUP").agg(F.count("*").alias("count"))
    return counted.withColumn("of", F.lit(context.parallelism))

@pipeline.transform(parallelism=4, inputs={"counts": fs.rebalance()})
def spread(counts: DataFrame) -> DataFrame:
    return counts

@pipeline.sink(inputs={"spread": fs.rebalance()})
def result(spread: DataFrame, output: str) -> None:
    fs.write_parquet(spread, output)
"""
SAYS_FOUR = {options.AUTO_PARALLELISM.key: "false"}
TWO_BACKENDS = {
    options.SPARK_ISOLATION.key: "slot",
    options.NUMBER_OF_TASK_SLOTS.key: "2",
    options.SUBTASK_DATA_VOLUME.key: "8m",
}
"""A subtask is to read a third of what there is, but no more than two can do so at once."""
ROWS = 300_000


def test_one_backend_gives_one_query_all_of_its_cores(files: Files, tmp_path: Path) -> None:
    assert counted(files, tmp_path / "out") == 1


def test_what_is_wrong_on_shares_is_done_by_one_subtask(files: Files, tmp_path: Path) -> None:
    counted_by_one(files, tmp_path / "out", restarts=0)


def test_two_subtasks_read_the_shares_of_four(do: Do, tmp_path: Path) -> None:
    with mini_cluster(do, tmp_path / "cluster", TWO_BACKENDS) as cluster:
        files = Files(cluster, do, tmp_path)
        assert counted(files, tmp_path / "out") == 2
        counted_by_one(files, tmp_path / "again", restarts=1)


def counted(files: Files, output: Path) -> int:
    """Count the rows of each key. Returns the number of subtasks that have done it."""
    done = files.do(files.run(files.write(BODY.replace("GROUP", "k")), {"output": str(output)}, parallelism=4))
    assert done.status is JobStatus.FINISHED, done
    found = [(row["k"], row["count"]) for row in rows_of(output)]
    assert sorted(found) == sorted(Counter(number % 7 for number in range(ROWS)).items())
    (subtasks,) = {row["of"] for row in rows_of(output)}
    return int(subtasks)


def counted_by_one(files: Files, output: Path, *, restarts: int) -> None:
    """Count by what the rows are not distributed by."""
    done = files.do(files.run(files.write(BODY.replace("GROUP", "noise")), {"output": str(output)}, parallelism=4))
    assert (done.status, done.restarts) == (JobStatus.FINISHED, restarts), done
    assert {(row["count"], row["of"]) for row in rows_of(output)} == {(1, 1)}
    assert sum(sink.rows for sink in done.sinks) == ROWS
    view = files.do(files.cluster.client.request_job(done.job_id))
    counts = {vertex.name: (vertex.parallelism, vertex.max_parallelism) for vertex in view.vertices}
    assert counts["counts"] == (1, 4)
    told = [entry.failure.message for entry in view.exceptions]
    assert all(text.endswith("one subtask does it from now on") for text in told)
    assert len(told) == restarts


def test_what_is_wrong_on_shares_is_refused_where_the_number_is_to_stay(files: Files, tmp_path: Path) -> None:
    file = files.write(BODY.replace("GROUP", "noise"))
    done = files.do(files.run(file, {"output": str(tmp_path / "out")}, configuration=SAYS_FOUR, parallelism=4))
    assert done.status is JobStatus.FAILED
    assert done.failure is not None
    assert "counts has parallelism 4" in done.failure.message
