"""Whose JVM dies with whom: a job's own, and that of an attempt that is to run alone. Real JVMs, several at once."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import psutil
import pytest

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.core.scheduler.commit import gather_commits
from firesteel.model.failures import FailureKind
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.runtime.ports import TaskFailedError
from tests.integration.spark.conftest import CONFIGURATION
from tests.integration.spark.jobs import JobMaker, deployment, function, run
from tests.integration.spark.test_endings import appears
from tests.processes import jvms

if TYPE_CHECKING:
    from tests.integration.spark.inprocess import InProcess

pytestmark = pytest.mark.spark

BODY = """
from firesteel.adapters.spark.sinks.files import write_parquet
from pyspark.sql import functions as F
import pathlib, time

def hungry(spark, output):
    write_parquet(spark.range(1).select(F.expr("repeat(cast(id as string), 1500000000)").alias("x")), output)

def patient(spark, mark, gate, output):
    spark.range(3).createOrReplaceTempView("mine")
    pathlib.Path(mark).write_text(spark.sql("select count(*) as n from mine").first().n.__str__())
    while not pathlib.Path(gate).exists():
        time.sleep(0.02)
    write_parquet(spark.table("mine"), output)

def tabled(spark):
    from firesteel.adapters.spark.sinks.tables import write_table
    write_table(spark.range(3), "lost")
"""
TABLED = (function("tabled", "sink", wants_session=True),)
HUNGRY = (function("hungry", "sink", wants_session=True, parameters=("output",)),)
PATIENT = (function("patient", "sink", wants_session=True, parameters=("mark", "gate", "output")),)


async def until_jvms(count: int, others: set[psutil.Process]) -> None:
    async with asyncio.timeout(300):
        while len(set(jvms()) - others) != count:
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("isolation", ["job", "shared"])
def test_a_job_that_exhausts_its_heap_does_not_touch_another(
    isolation: str, tmp_path: Path, blobs: LocalBlobStore, jobs: JobMaker
) -> None:
    async def story() -> None:
        others = set(jvms())  # servers of other tests' fixtures
        config = Configuration({**CONFIGURATION, "taskmanager.spark.isolation": isolation})
        backend = SparkTaskBackend(config, tmp_path / "work", blobs)
        await backend.start()
        paths = {name: str(tmp_path / name) for name in ("mark", "gate", "output")}
        patient = jobs.job(BODY, PATIENT, parameters=paths)
        hungry = jobs.job(BODY, HUNGRY, parameters={"output": str(tmp_path / "never")})
        running = asyncio.get_running_loop().create_task(run(backend, patient))
        assert await appears(tmp_path / "mark") == "3"
        with pytest.raises(TaskFailedError) as caught:
            await run(backend, hungry, msgspec.structs.replace(deployment(hungry), alone=isolation == "shared"))
        assert caught.value.failure.kind is FailureKind.ENVIRONMENT
        assert "ran out of memory (heap)" in caught.value.failure.message
        assert caught.value.failure.backend
        (tmp_path / "gate").touch()
        assert (await running).sinks[0].rows == 3
        await backend.release_job(hungry.graph.job_id)
        await backend.release_job(patient.graph.job_id)
        await until_jvms(1, others)  # the spare, or the one that all share
        async with asyncio.timeout(300):
            while len(list((tmp_path / "work" / "backends").iterdir())) != (isolation == "job"):
                await asyncio.sleep(0.1)
        await backend.close()
        await until_jvms(0, others)

    asyncio.run(story())


def test_a_table_that_would_go_with_its_jvm_is_refused(
    backend: SparkTaskBackend, jobs: JobMaker, do: Callable[[Any], Any], local: "InProcess"
) -> None:
    """Where the job's rows were staged, and where they are committed, are catalogs that know nothing of one another."""
    job = jobs.job(BODY, TABLED)
    with pytest.raises(TaskFailedError) as caught:
        do(run(backend, job, msgspec.structs.replace(deployment(job), alone=True)))
    assert "this attempt has a JVM of its own (taskmanager.spark.isolation" in caught.value.failure.message
    assert caught.value.failure.kind is FailureKind.NON_RECOVERABLE
    (commit,) = gather_commits([do(run(backend, job))])  # in the JVM that all share there is one catalog
    do(backend.commit(commit))
    local.spark.sql("DROP TABLE lost")  # other tests here look at what that JVM's catalog lists


@pytest.mark.parametrize(
    ("isolation", "heap", "says"),
    [
        ("slot", "1g", "set taskmanager.spark.heap to 1888m or more"),
        ("shared", "100m", "taskmanager.spark.heap is 100 MiB, and Spark starts with 472 or more"),
    ],
)
def test_heaps_that_are_too_small_are_refused_with_what_to_do(
    tmp_path: Path, blobs: LocalBlobStore, isolation: str, heap: str, says: str
) -> None:
    config = Configuration(
        {"taskmanager.spark.isolation": isolation, "taskmanager.numberOfTaskSlots": "4", "taskmanager.spark.heap": heap}
    )
    backend = SparkTaskBackend(config, tmp_path / "work", blobs)
    with pytest.raises(ConfigurationError, match=says):
        asyncio.run(backend.start())
