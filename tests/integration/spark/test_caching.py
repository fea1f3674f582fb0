"""Spark's cache: no job is answered from what another one has cached, and it is released with its attempt."""

import asyncio
import contextlib
import http.client
import json
import os
import shutil
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.adapters.storage.sinks import commit_sink
from firesteel.model.options import Configuration
from firesteel.runtime.ports import TaskFailedError
from tests.integration.spark.conftest import CONFIGURATION
from tests.integration.spark.jobs import JobMaker, Runner, function, run
from tests.processes import jvms, listening_ports

pytestmark = pytest.mark.spark

JOB = """
from firesteel.adapters.spark.sinks.files import write_parquet
from pyspark.sql import functions as F
import os, pathlib, shutil, time

def shared(spark, input):
    log = input + ".log"
    def noted(x):
        with open(log, "a") as file:
            file.write("row\\n")
        return x
    return spark.read.parquet(input).select(F.udf(noted, "long")("id").alias("id"), F.rand().alias("r"))

def small(shared, output):
    write_parquet(shared.where("id < 3"), output + "/small")

def large(shared, output):
    write_parquet(shared.join(shared.select("id"), "id"), output + "/large")

def user(spark, input, output, how):
    rows = spark.read.parquet(input)
    even = rows.where("id % 2 = 0")
    if how == "by name":
        rows.createOrReplaceTempView("cached_rows")
        spark.sql("cache lazy table `cached_rows`")
        spark.table("cached_rows").count()
    else:
        rows.cache()
        assert rows.is_cached and even.join(rows, "id").count() == 5
    if how == "gone":
        shutil.rmtree(input)
    pathlib.Path(output).write_text(str(os.getpid()))
    if how == "fail":
        raise ValueError("on purpose")
    if how == "kill":
        time.sleep(600)

def plain(spark, input, output):
    write_parquet(spark.read.parquet(input), output)
"""
SHARED = (
    function("shared", wants_session=True, parameters=("input",), cached=True),
    function("small", "sink", inputs=("shared",), parameters=("output",)),
    function("large", "sink", inputs=("shared",), parameters=("output",)),
)
USER = (function("user", "sink", wants_session=True, parameters=("input", "output", "how")),)
PLAIN = (function("plain", "sink", wants_session=True, parameters=("input", "output")),)


@pytest.fixture(scope="module")
def backend(runner: asyncio.Runner, scratch: Path, blobs: LocalBlobStore) -> Iterator[SparkTaskBackend]:
    configuration = {**CONFIGURATION, "spark.ui.enabled": "true", "spark.ui.port": "0"}
    backend = SparkTaskBackend(Configuration(configuration), scratch / "cache", blobs)
    runner.run(backend.start())
    runner.run(backend.endpoint())  # its JVM is older than the first test
    yield backend
    runner.run(backend.close())


def cached_rdds() -> list[Any] | None:
    """What the JVM of this process that has a web interface keeps in its memory, as that says; None if it says nothing.

    It may say nothing for seconds on a loaded machine: whoever asks asks again.
    """
    for jvm in (each for each in jvms() if "spark.ui.enabled=true" in " ".join(each.cmdline())):
        for port in listening_ports(jvm):
            base = f"http://127.0.0.1:{port}/api/v1/applications"
            try:
                (application,) = json.load(
                    urllib.request.urlopen(base, timeout=5)
                )  # some say nothing, as foreachBatch's
            except (OSError, ValueError, http.client.HTTPException):  # a port of another kind
                continue
            found = json.load(urllib.request.urlopen(f"{base}/{application['id']}/storage/rdd", timeout=300))
            assert isinstance(found, list)
            return found
    return None


async def shown() -> None:
    """The web interface is told of what is kept a moment after that."""
    async with asyncio.timeout(300):
        while not await asyncio.to_thread(cached_rdds):
            await asyncio.sleep(0.05)


async def released() -> None:
    async with asyncio.timeout(300):
        while await asyncio.to_thread(cached_rdds) != []:
            await asyncio.sleep(0.05)


def table(path: Path, rows: int) -> str:
    path.mkdir()
    pyarrow.parquet.write_table(pyarrow.table({"id": range(rows)}), path / "part-0.parquet")
    return str(path)


def test_a_shared_result_is_made_once_and_read_the_same_by_all(
    backend: SparkTaskBackend, jobs: JobMaker, do: Runner, tmp_path: Path
) -> None:
    source, output = table(tmp_path / "in", 10), tmp_path / "out"
    outcome = do(run(backend, jobs.job(JOB, SHARED, parameters={"input": source, "output": str(output)})))
    for commit in outcome.sinks:
        commit_sink(commit)
    small, large = (pyarrow.parquet.read_table(output / name).to_pydict() for name in ("small", "large"))
    assert (len(small["id"]), len(large["id"])) == (3, 10)
    assert dict(zip(small["id"], small["r"], strict=True)).items() <= dict(zip(*large.values(), strict=True)).items()
    assert Path(source + ".log").read_text().count("row") == 10, "computed more than once"
    do(released())


def test_what_spark_would_not_find_again_is_not_said_to_be_cached(
    backend: SparkTaskBackend, jobs: JobMaker, do: Runner, tmp_path: Path
) -> None:
    """Each consumer would have drawn for itself, and a join by the key have lost all rows."""
    code = JOB.replace('F.rand().alias("r")', 'F.expr("uuid()").alias("r")')
    parameters = {"input": table(tmp_path / "in", 10), "output": str(tmp_path / "out")}
    with pytest.raises(TaskFailedError) as failed:
        do(run(backend, jobs.job(code, SHARED, parameters=parameters)))
    assert failed.value.failure.message.startswith('shared has share="cache", and values that Spark draws anew')


@pytest.mark.parametrize("how", ["return", "fail", "kill", "gone", "by name"])
def test_what_a_function_caches_is_released_however_it_ends(
    backend: SparkTaskBackend, jobs: JobMaker, do: Runner, tmp_path: Path, how: str
) -> None:
    source, mark = table(tmp_path / "in", 10), tmp_path / "mark"

    async def story() -> None:
        job = jobs.job(JOB, USER, parameters={"input": source, "output": str(mark), "how": how})
        running = asyncio.get_running_loop().create_task(run(backend, job))
        while not (mark.exists() and mark.read_text()) and not running.done():
            await asyncio.sleep(0.02)
        if how == "kill":
            await shown()
            await other_job_sees_new_files()
            os.kill(int(mark.read_text()), signal.SIGKILL)
        with pytest.raises(TaskFailedError) if how in ("fail", "kill") else contextlib.nullcontext():
            await running
        await released()

    async def other_job_sees_new_files() -> None:
        shutil.rmtree(source)
        output = tmp_path / "copy"
        parameters = {"input": table(tmp_path / "in", 4), "output": str(output)}
        (commit,) = (await run(backend, jobs.job(JOB, PLAIN, parameters=parameters))).sinks
        assert commit.rows == 4, "answered from another job's cache"

    do(story())
