"""Attempts that share a JVM take turns: a short query beside a long one, which came first and holds all cores."""

import asyncio
from pathlib import Path

import pytest

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.options import Configuration
from tests.integration.spark.conftest import CONFIGURATION
from tests.integration.spark.jobs import JobMaker, function, run

pytestmark = pytest.mark.spark

TASKS = 600
"""As many take longer than a short query on any machine; the long one is cancelled then."""
SOURCE = f"""
from firesteel.adapters.spark.sinks.files import write_parquet
import pathlib, time

def long(spark, begun, output):
    def nap(parts):
        pathlib.Path(begun, str(time.monotonic_ns())).touch()
        time.sleep(0.05)
        yield from parts

    write_parquet(spark.range(0, {TASKS}, 1, {TASKS}).mapInPandas(nap, "id long"), output)

def short(spark, output):
    write_parquet(spark.range(0, 2, 1, 2), output)
"""
LONG = (function("long", "sink", wants_session=True, parameters=("begun", "output")),)
SHORT = (function("short", "sink", wants_session=True, parameters=("output",)),)


def test_a_short_query_does_not_wait_for_the_tasks_of_a_long_one(
    tmp_path: Path, blobs: LocalBlobStore, jobs: JobMaker
) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()

    async def story() -> int:
        backend = SparkTaskBackend(
            Configuration({**CONFIGURATION, "taskmanager.cpu.cores": "1"}), tmp_path / "work", blobs
        )
        await backend.start()
        job = jobs.job(SOURCE, LONG, parameters={"begun": str(begun), "output": str(tmp_path / "long")})
        running = asyncio.get_running_loop().create_task(run(backend, job))
        try:
            async with asyncio.timeout(300):
                while not any(begun.iterdir()):
                    assert not running.done(), running.exception()
                    await asyncio.sleep(0.02)
                await run(backend, jobs.job(SOURCE, SHORT, parameters={"output": str(tmp_path / "short")}))
                return len(list(begun.iterdir()))
        finally:
            running.cancel()
            await asyncio.wait({running})
            await backend.close()

    assert asyncio.run(story()) < TASKS * 3 // 4, "it waited until the long one had begun all its tasks"
