"""Vertices of which nobody has said how many subtasks they have, on a mini cluster with a real Spark."""

from collections import Counter
from pathlib import Path

import pytest

from firesteel.minicluster import MiniCluster
from firesteel.model import options
from firesteel.model.states import JobStatus
from tests.integration.cluster.files import Files
from tests.integration.cluster.test_jobs import rows_of

pytestmark = pytest.mark.spark

BODY = """
@pipeline.source
def numbers(spark: SparkSession) -> DataFrame:
    drawn = spark.range(300_000).withColumn("noise", F.sha2(F.col("id").cast("string"), 256))
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
TWENTY_MEBIBYTES_IN_THREE = {options.SUBTASK_DATA_VOLUME.key: "8m"}


@pytest.mark.parametrize(
    ("configuration", "subtasks"),
    [({}, 1), (SAYS_FOUR, 4), (TWENTY_MEBIBYTES_IN_THREE, 3)],
    ids=("one", "four", "three"),
)
def test_little_data_takes_few_subtasks(
    files: Files, tmp_path: Path, configuration: dict[str, str], subtasks: int
) -> None:
    file = files.write(BODY.replace("GROUP", "k"))
    done = files.do(files.run(file, {"output": str(tmp_path / "out")}, configuration=configuration, parallelism=4))
    assert done.status is JobStatus.FINISHED, done
    found = {row["k"]: (row["count"], row["of"]) for row in rows_of(tmp_path / "out")}
    expected = Counter(number % 7 for number in range(300_000))
    assert found == {k: (count, subtasks) for k, count in expected.items()}


@pytest.mark.parametrize(
    ("configuration", "restarts"), [({}, 0), (TWENTY_MEBIBYTES_IN_THREE, 1)], ids=("little", "much")
)
def test_what_is_wrong_on_shares_is_done_by_one_subtask(
    files: Files, cluster: MiniCluster, tmp_path: Path, configuration: dict[str, str], restarts: int
) -> None:
    file = files.write(BODY.replace("GROUP", "noise"))
    done = files.do(files.run(file, {"output": str(tmp_path / "out")}, configuration=configuration, parallelism=4))
    assert (done.status, done.restarts) == (JobStatus.FINISHED, restarts), done
    assert {(row["count"], row["of"]) for row in rows_of(tmp_path / "out")} == {(1, 1)}
    assert sum(sink.rows for sink in done.sinks) == 300_000
    view = files.do(cluster.client.request_job(done.job_id))
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
