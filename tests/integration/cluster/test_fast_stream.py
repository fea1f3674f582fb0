"""A query that keeps two batches and never pauses: looking at it takes nothing from it."""

import asyncio
import contextlib

import pytest

from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.runtime.client import CheckpointFailed
from tests.integration.cluster.files import HEADER, Files

pytestmark = [pytest.mark.spark, pytest.mark.streams]

FAST = """
@pipeline.source
def numbers(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").option("rowsPerSecond", 1000).load()

@pipeline.sink
def result(numbers: DataFrame):
    return numbers.groupBy((F.col("value") % 7).alias("k")).count().writeStream.outputMode("update").format("noop")
"""
SETTINGS = {"spark.sql.streaming.minBatchesToRetain": "2", "spark.sql.shuffle.partitions": "2"}
LOOKS = 10


def test_a_query_that_retention_follows_closely_is_looked_at(files: Files) -> None:
    client, path = files.cluster.client, files.write("")
    path.write_text(HEADER.replace('"test"', '"test", mode="streaming"') + FAST)

    async def until_committed(job_id: JobID) -> None:
        async with asyncio.timeout(300):
            while True:
                view = await client.request_job(job_id)
                assert not view.status.is_globally_terminal, view.exceptions
                found = [query for each in view.vertices for of in each.progress for query in of.queries]
                if any(query.batch_id >= 3 for query in found):
                    return
                await asyncio.sleep(0.1)

    async def story() -> None:
        job_id = await files.submit(path, {}, SETTINGS)
        await until_committed(job_id)
        taken = 0
        for _ in range(LOOKS):
            with contextlib.suppress(CheckpointFailed):
                await client.take_checkpoint(job_id)
                taken += 1
        view = await client.request_job(job_id)
        assert taken, "it was looked at"
        assert (view.status, view.restarts) == (JobStatus.RUNNING, 0), view.exceptions
        await client.cancel_job(job_id)
        await client.request_job_result(job_id)

    files.do(story())
