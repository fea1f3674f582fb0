"""On a running mini cluster: what a job costs beside its own Spark query, and without one.

The query's bare side is a client of the same Spark Connect server whose session is already open.
Rounds go back and forth between the two. Each round reads copies of the texts in a folder of its own: a session that
sees the very same plan again takes it, file listing and all, out of Spark's plan cache, which is not what a query costs.
"""

import asyncio
import shutil
import sys
import tempfile
import time
import uuid
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession

import firesteel as fs
from benchmarks.report import ROOT, Report, Series, Verdict
from benchmarks.texts import copy_a_few
from firesteel.adapters.spark.wire import SparkAddress
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.minicluster import MiniCluster
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.pipeline.build import BuildRequest, BuiltJob, build_file

WARM_UP_ROUNDS = 8
"""The JVM compiles what it runs often; both sides get these before anything is measured."""
OVERHEAD_MS_MAX = 100
FUNCTION_MS_MAX = 40
QUERY_TIMEOUT_S = 60
ROUNDS_MIN = 15
"""Rounds are cheap here, and a difference of medians wants many."""

empty = fs.Pipeline("empty")


@empty.source
def origin(spark: SparkSession) -> DataFrame:
    """Rows that nobody asks for."""
    return spark.range(0)


@empty.sink
def nothing(origin: DataFrame) -> None:
    """What it costs is what its process and its session cost."""


def measure(rounds: int) -> Report:
    """Milliseconds from submission to the result, and of the bare query."""
    return asyncio.run(_measure(max(rounds, ROUNDS_MIN)))


async def _measure(rounds: int) -> Report:
    milliseconds: dict[str, list[float]] = {"bare query": [], "word count job": [], "empty function job": []}
    with tempfile.TemporaryDirectory(prefix="firesteel-bench-") as scratch:
        folder = Path(scratch)
        texts = copy_a_few(folder / "texts")
        counting, idle = word_count(folder, texts), empty_job(folder)
        async with MiniCluster(fs.Configuration({"cluster.work-dir": str(folder / "work")})) as cluster:
            await run(cluster, counting, output=str(folder / "first"))
            async with bare_client(cluster) as bare:
                for number in range(-WARM_UP_ROUNDS, rounds):
                    measured = (
                        await query(bare, fresh_copy(texts), folder / f"bare{number}"),
                        await run(cluster, counting, input=fresh_copy(texts), output=str(folder / f"job{number}")),
                        await run(cluster, idle),
                    )
                    if number >= 0:
                        for values, value in zip(milliseconds.values(), measured, strict=True):
                            values.append(value)
    series = tuple(Series(name, "ms", tuple(values)) for name, values in milliseconds.items())
    query_ms, job_ms, empty_ms = (each.median for each in series)
    return Report(
        case="warm",
        series=series,
        verdicts=(
            Verdict("job - bare query", job_ms - query_ms, "ms", at_most=OVERHEAD_MS_MAX),
            Verdict("empty function", empty_ms, "ms", at_most=FUNCTION_MS_MAX),
        ),
    )


def word_count(folder: Path, texts: Path) -> BuiltJob:
    """The example, built once; each run gets an output of its own."""
    return built(ROOT / "examples" / "wordcount.py", folder / "artifacts", {"input": str(texts), "output": "later"})


def built(file: Path, artifacts: Path, parameters: Mapping[str, str]) -> BuiltJob:
    """The job of a file."""
    artifacts.mkdir()
    job_id = JobID(uuid.uuid4().hex)
    return build_file(
        BuildRequest(file=str(file), job_id=job_id, parameters=dict(parameters), output_dir=str(artifacts))
    )


def empty_job(folder: Path) -> BuiltJob:
    """User code that runs no query."""
    artifacts = folder / "empty"
    artifacts.mkdir()
    return fs.build_job(empty, job_id=JobID(uuid.uuid4().hex), output_dir=artifacts)


async def run(cluster: MiniCluster, job: BuiltJob, **parameters: str) -> float:
    """Milliseconds from submission to the result; anything but FINISHED stops the benchmark."""
    job_id = JobID(uuid.uuid4().hex)
    graph = msgspec.structs.replace(job.graph, job_id=job_id, parameters={**job.graph.parameters, **parameters})
    started = time.perf_counter()
    await cluster.client.submit_job(graph, job.artifact_paths())
    result = await cluster.client.request_job_result(job_id)
    elapsed = (time.perf_counter() - started) * 1_000
    if result.status is not JobStatus.FINISHED:
        raise RuntimeError(f"{result.name} ended {result.status.value}: {result.failure}")
    return elapsed


@asynccontextmanager
async def bare_client(cluster: MiniCluster, module: str = "benchmarks.bare", *settings: str) -> AsyncIterator[Process]:
    """A process with a session on the cluster's own Spark, waiting for work: inputs to count by default."""
    endpoint = await spark_endpoint(cluster, for_outsider=True)
    arguments = (str(endpoint.port), endpoint.token, *settings)
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, cwd=ROOT, stdin=PIPE, stdout=PIPE
    )
    assert client.stdin is not None
    try:
        yield client
        client.stdin.close()
        await client.wait()
    finally:
        if client.returncode is None:
            client.kill()
            await client.wait()


async def spark_endpoint(cluster: MiniCluster, *, for_outsider: bool = False) -> SparkAddress:
    """Where the cluster's only Spark listens. No interface tells: nobody but a benchmark goes there past firesteel."""
    (worker,) = cluster.workers.values()
    backend = worker.backend
    assert isinstance(backend, SparkTaskBackend)
    return await backend.endpoint(for_outsider=for_outsider)


def fresh_copy(texts: Path) -> str:
    """The same files in a folder that no query has read."""
    folder = Path(tempfile.mkdtemp(dir=texts.parent, prefix="texts-"))
    for file in texts.iterdir():
        shutil.copy(file, folder)
    return str(folder)


async def query(client: Process, source: str, output: Path) -> float:
    """Milliseconds of the bare query, by the client's own clock."""
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write(f"{source}\t{output}\n".encode())
    async with asyncio.timeout(QUERY_TIMEOUT_S):
        return float(await client.stdout.readline()) * 1_000
