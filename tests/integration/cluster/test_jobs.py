"""Whole jobs on a mini cluster with a real Spark: right rows, the right regions, nothing left behind."""

import asyncio
import contextlib
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from firesteel.minicluster import MiniCluster
from firesteel.model.states import JobStatus
from tests.integration.cluster.files import Files
from tests.paths import paths_now

pytestmark = pytest.mark.spark
EXAMPLES = Path(__file__).parents[3] / "examples"

ODD_FILES = {
    "plain.txt": b"to be or not to be\n",
    "a dir/two words.txt": b"be\tquick\r\nbe  slow\x0b\x0cend",
    "ünï/日本.txt": "größe 日本 größe\n\u00a0x\u00a0y".encode(),
    "[glob]*{a,b}.txt": b"glob glob",
    "empty.txt": b"",
    "_hidden.txt": b"hidden be",
    "colon:name.txt": b"colon",
}


def rows_of(directory: Path) -> list[dict[str, Any]]:
    """All rows of a Parquet directory, as Spark's readers see it."""
    files = [path for path in sorted(directory.iterdir()) if path.name[0] not in "_."]
    return [row for path in files for row in pyarrow.parquet.read_table(path).to_pylist()]


def write_tree(root: Path) -> Counter[str]:
    """Write ODD_FILES below `root`; returns what plain Python counts there."""
    counts: Counter[str] = Counter()
    for name, content in ODD_FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        counts.update(word.decode("utf-8", "replace") for word in content.split())
    return counts


def test_word_count_counts_what_plain_python_counts(files: Files, tmp_path: Path) -> None:
    expected = write_tree(tmp_path / "in put")
    output = tmp_path / "out put é"
    parameters = {"input": str(tmp_path / "in put"), "output": str(output)}
    result = files.do(files.run(EXAMPLES / "wordcount.py", parameters))
    assert result.status is JobStatus.FINISHED
    assert {row["word"]: row["count"] for row in rows_of(output)} == dict(expected)
    assert result.sinks[0].rows == len(expected)
    assert result.sinks[0].columns == (("word", "string"), ("count", "bigint"))
    assert not list(tmp_path.glob(".firesteel*")), "staging is left"


def test_a_dataset_with_two_consumers_is_stored_and_only_the_failed_region_runs_again(
    files: Files, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    body = f"""
import os, uuid
RUNS = {str(runs)!r}

def note(name):
    open(os.path.join(RUNS, f"{{name}}-{{uuid.uuid4().hex}}"), "w").close()
    return sum(1 for found in os.listdir(RUNS) if found.startswith(name + "-"))

@pipeline.source
def numbers(spark: SparkSession) -> DataFrame:
    note("numbers")
    return spark.range(100).withColumn("a.b c", F.col("id") * 2)

@pipeline.sink
def evens(numbers: DataFrame, output: str) -> None:
    fs.write_parquet(numbers.where("id % 2 = 0"), output + "/evens")

@pipeline.sink
def odds(numbers: DataFrame, output: str) -> None:
    if note("odds") == 1:
        raise RuntimeError("the first time always fails")
    fs.write_parquet(numbers.where("id % 2 = 1"), output + "/odds")
"""
    configuration = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }
    result = files.do(files.run(files.write(body), {"output": str(tmp_path / "out")}, configuration))
    assert (result.status, result.restarts) == (JobStatus.FINISHED, 1)
    assert sorted(row["a.b c"] for row in rows_of(tmp_path / "out" / "odds")) == list(range(2, 200, 4))
    assert len(rows_of(tmp_path / "out" / "evens")) == 50
    assert Counter(path.name.split("-")[0] for path in runs.iterdir()) == {"numbers": 1, "odds": 2}


def test_output_of_a_job_that_fails_is_not_visible(files: Files, tmp_path: Path) -> None:
    body = """
@pipeline.source
def numbers(spark: SparkSession) -> DataFrame:
    return spark.range(10)

@pipeline.sink
def good(numbers: DataFrame, output: str) -> None:
    fs.write_parquet(numbers, output + "/good")

@pipeline.sink
def bad(numbers: DataFrame, output: str) -> None:
    raise RuntimeError("no")
"""
    result = files.do(files.run(files.write(body), {"output": str(tmp_path / "out")}))
    assert result.status is JobStatus.FAILED
    assert not list((tmp_path / "out").glob("**/*.parquet")), "a failed job shows rows"


SLOW = """
import os, time

@pipeline.source
def numbers(spark: SparkSession, gate: str) -> DataFrame:
    open(gate + ".started", "a").write("x")
    while not os.path.exists(gate):
        time.sleep(0.02)
    return spark.range(10)

@pipeline.sink
def result(numbers: DataFrame, output: str) -> None:
    fs.write_parquet(numbers, output)
"""


async def until_exists(path: Path) -> None:
    async with asyncio.timeout(300):
        while not path.exists():
            await asyncio.sleep(0.02)


def test_a_change_of_masters_does_not_disturb_what_runs(cluster: MiniCluster, files: Files, tmp_path: Path) -> None:
    async def story() -> None:
        gate = tmp_path / "gate"
        parameters = {"gate": str(gate), "output": str(tmp_path / "out")}
        job_id = await files.submit(files.write(SLOW), parameters)
        await until_exists(Path(f"{gate}.started"))
        result = asyncio.ensure_future(cluster.client.request_job_result(job_id))
        for component in (job_id, "resource_manager", "dispatcher"):
            cluster.revoke_leadership(component)
            cluster.grant_leadership(component)
            await asyncio.sleep(0.05)
        gate.touch()
        assert (await result).status is JobStatus.FINISHED
        assert (await result).restarts == 0

    files.do(story())
    assert (tmp_path / "gate.started").read_text() == "x", "the attempt ran twice"
    assert len(rows_of(tmp_path / "out")) == 10


def test_cancel_interrupts_a_query(cluster: MiniCluster, files: Files, tmp_path: Path) -> None:
    body = """
@pipeline.source
def numbers(spark: SparkSession) -> DataFrame:
    return spark.range(10**12).select((F.rand() + F.col("id")).alias("x"))

@pipeline.sink
def result(numbers: DataFrame, output: str) -> None:
    fs.write_parquet(numbers.agg(F.sum("x").alias("x")), output)
"""

    async def story() -> None:
        job_id = await files.submit(files.write(body), {"output": str(tmp_path / "out")})
        async with asyncio.timeout(300):
            while not any(v.progress for v in (await cluster.client.request_job(job_id)).vertices):
                await asyncio.sleep(0.05)
        await cluster.client.cancel_job(job_id)
        async with asyncio.timeout(300):
            assert (await cluster.client.request_job_result(job_id)).status is JobStatus.CANCELED

    files.do(story())
    assert not (tmp_path / "out").exists()


def test_two_jobs_at_once_share_the_worker(files: Files, tmp_path: Path) -> None:
    expected = write_tree(tmp_path / "in")

    async def story() -> None:
        runs = [
            files.run(EXAMPLES / "wordcount.py", {"input": str(tmp_path / "in"), "output": str(tmp_path / name)})
            for name in ("one", "two")
        ]
        assert [result.status for result in await asyncio.gather(*runs)] == [JobStatus.FINISHED] * 2

    files.do(story())
    for name in ("one", "two"):
        assert {row["word"]: row["count"] for row in rows_of(tmp_path / name)} == dict(expected)


def test_ended_jobs_leave_nothing_on_the_worker(cluster: MiniCluster, files: Files, work_dir: Path) -> None:
    async def settled() -> None:
        async with asyncio.timeout(300):
            while (await cluster.client.request_cluster_overview()).slots_free < 2 or leftovers(work_dir):
                await asyncio.sleep(0.05)

    with contextlib.suppress(TimeoutError):
        files.do(settled())
    assert not leftovers(work_dir)


ARROW_STREAM = b"\xff\xff\xff\xff"
"""The bytes that one begins with."""


def is_kept(blob: Path) -> bool:
    """Whether it has rows that a job has returned, what scripts have printed, or is gone by now."""
    try:
        return blob.name == "outputs" or blob.read_bytes()[: len(ARROW_STREAM)] == ARROW_STREAM
    except FileNotFoundError:
        return True


def leftovers(work_dir: Path) -> list[Path]:
    """What attempts have left below the work directory; logs stay, and rows and output of jobs."""
    blobs = [each for each in paths_now(work_dir, "blobs/*") if not is_kept(each)]
    return sorted([*paths_now(work_dir, "worker-*/attempts/*"), *paths_now(work_dir, "worker-*/partitions/*"), *blobs])


def test_session_builders_in_functions_give_the_attempts_session(files: Files, tmp_path: Path) -> None:
    """As many write it who come from scripts; what the builder sets is a setting of the function."""
    body = """
@pipeline.source
def moments() -> DataFrame:
    spark = SparkSession.builder.appName("x").config("spark.sql.session.timeZone", "Asia/Tokyo").getOrCreate()
    return spark.sql("SELECT timestamp_seconds(0) AS moment")

@pipeline.sink
def hours(moments: DataFrame, output: str) -> None:
    spark = SparkSession.builder.appName("y").config("spark.executor.memory", "9g").getOrCreate()
    assert spark.session_id == moments.sparkSession.session_id
    fs.write_parquet(moments.selectExpr("hour(moment) AS hour"), output)
"""
    done = files.do(files.run(files.write(body), {"output": str(tmp_path / "out")}))
    assert done.status is JobStatus.FINISHED, done.failure
    assert rows_of(tmp_path / "out") == [{"hour": 9}]


def test_functions_that_a_loop_makes_have_the_values_of_their_turn(files: Files, tmp_path: Path) -> None:
    body = """
@pipeline.source
def numbers(spark: SparkSession) -> DataFrame:
    rows = spark.range(1)
    for step in range(3):
        add = F.udf(lambda value: value + step, "long")
        rows = rows.withColumn(f"plus{step}", add("id"))
    def tenfold(parts):
        for part in parts:
            yield part * factor
    factor = 10
    rows = rows.mapInPandas(tenfold, rows.schema)
    factor = step = 1_000
    return rows

@pipeline.sink
def written(numbers: DataFrame, output: str) -> None:
    fs.write_parquet(numbers, output)
"""
    done = files.do(files.run(files.write(body), {"output": str(tmp_path / "out")}))
    assert done.status is JobStatus.FINISHED, done.failure
    assert rows_of(tmp_path / "out") == [{"id": 0, "plus0": 0, "plus1": 10, "plus2": 20}]
