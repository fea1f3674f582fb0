"""Stacks of a real attempt: of its Python while that computes, and of the JVM while it runs the attempt's query."""

import asyncio
from pathlib import Path

import pytest

from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.stacks import SampledStack, StackOrder
from firesteel.runtime.ports import TaskFailedError
from tests.integration.spark.jobs import JobMaker, Runner, deployment, function, run

pytestmark = pytest.mark.spark

WORKS = """
import pathlib, time

def computes(stop):
    while not pathlib.Path(stop).exists():
        sum(range(100_000))

def works(spark, stop):
    computes(stop)
    # 20 tasks that compute for a while, as one query
    counted = spark.range(0, 4_000_000_000, 1, 20).selectExpr("sum(sqrt(id) * cos(id))")
    return counted
"""


def test_where_an_attempt_is(backend: SparkTaskBackend, jobs: JobMaker, do: Runner, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    job = jobs.job(
        WORKS, [function("works", "result", wants_session=True, parameters=("stop",))], parameters={"stop": str(stop)}
    )
    where = deployment(job)
    order = StackOrder(attempt=where.attempt, samples=5, delay_ms=50, depth=100)

    async def until(what: str) -> SampledStack:
        async with asyncio.timeout(120):
            while True:
                for stack in await backend.sample_stacks(order):
                    if any(what in frame for frame in stack.frames):
                        return stack
                await asyncio.sleep(0.2)

    async def story() -> None:
        async with asyncio.timeout(60):
            while True:  # until it runs
                try:
                    await backend.sample_stacks(order)
                    break
                except TaskFailedError:
                    await asyncio.sleep(0.1)
        computes = await until("computes (job.py")
        assert computes.frames[0] == "Python"
        assert not computes.is_waiting
        stop.touch()
        task = await until("org.apache.spark.executor.Executor$TaskRunner.run")
        assert task.frames[0] == "JVM: Spark tasks"

    async def both() -> None:
        attempt = asyncio.create_task(run(backend, job, where))
        try:
            await story()
        finally:
            attempt.cancel()
            await asyncio.gather(attempt, return_exceptions=True)

    do(both())
