"""Workers that see none of one another's files: all they share is a bucket, and what they say to their master."""

import asyncio
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import firesteel as fs
from firesteel.adapters.storage.resultsprobe import IDENTITY
from firesteel.adapters.storage.s3keys import S3Keys
from firesteel.adapters.storage.schemes import SCHEMES
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.pipeline.build import BuildRequest, build_file
from tests.durable.s3 import s3_options, s3_server
from tests.integration.cluster.files import HEADER
from tests.network.processes import LIMIT_S, Cluster, cluster, on_own_host
from tests.sparkjvms import quick_start
from tests.stack.conftest import s3_settings, until
from tests.stack.test_s3_commits import keys_at

RESULTS = "results of hosts"
REAL = ("-m", "firesteel", "taskmanager")
BODY = """
import os, time

def here(work):
    return F.lit(open(f"{work}/name").read().strip())

@pipeline.source(parallelism=2, splits=fs.file_splits(fs.param("input"), "csv", header=True))
def numbers(spark: SparkSession, splits: fs.FileSplits, work: str, seen: str, context) -> DataFrame:
    open(f"{seen}/{context.subtask}", "w").close()
    while len(os.listdir(seen)) < 2:  # both draw of the splits
        time.sleep(0.05)
    return splits.read(spark).withColumn("producer", here(work))

@pipeline.transform(parallelism=2, inputs={"numbers": fs.hash_by("day", "n")})
def counts(numbers: DataFrame, work: str) -> DataFrame:
    return numbers.groupBy("day", "n", "producer").count().withColumn("consumer", here(work))

@pipeline.sink
def files(counts: DataFrame, output: str) -> None:
    fs.write_parquet(counts, output, partition_by=["day"])

@pipeline.result
def rows(counts: DataFrame) -> DataFrame:
    return counts.select("day", F.col("n").cast("int"), "producer", "count", "consumer")
"""
DAYS = ("2026-01-0 1", "ü=%20", "2026-01-03")
FILES_A_DAY = 20


@pytest.fixture
def keys(s3: str) -> Iterator[S3Keys]:
    """Afterwards nothing of any result is left."""
    keys = keys_at(s3)
    yield keys
    left = left_in(keys)
    keys.delete([each.key for each in keys.found("")])
    assert left == []


def left_in(keys: S3Keys) -> list[str]:
    return [each.key for each in keys.found(f"{RESULTS}/") if each.key != f"{RESULTS}/{IDENTITY}"]


def write_days(keys: S3Keys) -> None:
    """Two numbers a file, in directories as Spark names partitions."""
    for day in DAYS:
        directory = f"in/day={day.replace('%', '%25').replace('=', '%3D')}"
        for part in range(FILES_A_DAY):
            keys.write(f"{directory}/{part} %.csv", f"n\n{2 * part}\n{2 * part + 1}\n".encode())


def options_at(url: str) -> dict[str, str]:
    return {
        **s3_settings(url),
        **s3_options(url),
        **quick_start(),
        "cluster.results-dir": f"s3://firesteel/{RESULTS}",
        "taskmanager.numberOfTaskSlots": "1",
        "heartbeat.timeout": "2 h",
    }


async def rows_returned(it: Cluster, **parameters: str) -> list[list[object]]:
    """By column."""
    file, built_in = it.directory / "job.py", it.directory / "built"
    file.write_text(HEADER + BODY)
    built_in.mkdir()
    request = BuildRequest(
        file=str(file), job_id=JobID(uuid.uuid4().hex), parameters=parameters, output_dir=str(built_in)
    )
    built = await asyncio.to_thread(build_file, request)
    job_id = await it.client.submit_job(built.graph, built.artifact_paths())
    result = await it.client.request_job_result(job_id)
    assert (result.status, result.restarts) == (JobStatus.FINISHED, 0), (result, it.log("one"), it.log("two"))
    return fs.ResultRows(await it.client.fetch_result(job_id, "rows")).values()


def test_a_job_of_two_hosts_has_the_bucket_alone(s3: str, keys: S3Keys, tmp_path: Path) -> None:
    """Splits, what is stored for other regions, rows that are returned and files: `s3://` and `s3a://` are the same."""
    write_days(keys)
    work, seen = tmp_path / "work", tmp_path / "seen"
    seen.mkdir()

    async def story() -> None:
        async with cluster(tmp_path, options_at(s3)) as it:
            for name in ("one", "two"):
                await it.start_worker(name, *REAL, within=on_own_host(work, name))
            await it.until_slots(2)
            places = {"input": "s3://firesteel/in", "output": "s3a://firesteel/out"}
            day, n, producer, count, consumer = await rows_returned(it, **places, work=str(work), seen=str(seen))
            there = sorted(zip(day, n, count, strict=True), key=str)
            assert there == sorted(((each, n, 1) for each in DAYS for n in range(2 * FILES_A_DAY)), key=str)
            assert set(producer) == {"one", "two"}
            assert any(made != read for made, read in zip(producer, consumer, strict=True))
            await until(lambda: left_in(keys) == [])
            assert not {"one", "two"} & set(os.listdir(work)), "each has written to its own file system"
            kept = [each.key for each in keys.found("") if "/blobs/" in each.key]
            assert kept, "the rows lie where the master keeps its jobs"

    asyncio.run(story())


async def exit_code(worker: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(LIMIT_S):
        return await worker.wait()


def test_a_worker_whose_spark_can_not_use_the_bucket_is_refused(s3: str, keys: S3Keys, tmp_path: Path) -> None:
    """Its own client can: only Spark lacks jars, or has been told of another server for this bucket."""

    async def story(elsewhere: str) -> None:
        options, packages = options_at(s3), SCHEMES["s3a"].packages
        del options["spark.jars.packages"]
        async with cluster(tmp_path, options) as it:
            bare = await it.start_worker("bare", *REAL)
            assert await exit_code(bare) == 3, it.log("bare")
            begin = f"Spark of this worker can't be used to store results in s3a://firesteel/{RESULTS} (cluster.results-dir)"
            told = f"{begin}: Spark has no jars for s3a://; name them: -D spark.jars.packages={packages}\n"
            assert told in it.log("bare")
            other = {"spark.jars.packages": packages, "fs.s3a.bucket.firesteel.endpoint": elsewhere}
            misled = await it.start_worker("misled", *REAL, **other)
            assert await exit_code(misled) == 3, it.log("misled")
            told = (
                f"files that were written in s3a://firesteel/{RESULTS} this worker sees 0; set cluster.results-dir to"
            )
            assert told in it.log("misled")
            assert (await it.overview()).task_managers == 0

    (tmp_path / "other").mkdir()
    with s3_server(tmp_path / "other") as elsewhere:
        asyncio.run(story(elsewhere))
