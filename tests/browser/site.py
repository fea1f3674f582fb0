"""A cluster without Spark that has a job in every state, behind its REST endpoint and dashboard."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import FunctionKind, JobGraph
from firesteel.model.splits import FileInputFormat, ParameterReference
from firesteel.model.tasks import IOMetrics
from firesteel.testing.backend import TaskScript
from tests.rest.cluster import RestCluster, graph, rest_cluster

TRACE = """Traceback (most recent call last):
  File "sales/pipeline.py", line 42, in totals
    return orders.groupBy("customer").agg(F.sum("amount"))
pyspark.errors.exceptions.AnalysisException: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter
with name `amount` cannot be resolved. Did you mean one of the following? [`amount_eur`, `customer`, `day`].
'Aggregate [customer#12], [customer#12, sum('amount) AS sum(amount)#31]
"""
USERS_LINE = FailureInfo(
    kind=FailureKind.USER,
    message="[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `amount` cannot be "
    "resolved. Did you mean one of the following? [`amount_eur`, `customer`, `day`].",
    exception="pyspark.errors.exceptions.AnalysisException",
    vertex="totals",
    location="sales/pipeline.py:42",
    excerpt="\n".join(
        (
            "  39  def totals(orders: DataFrame) -> DataFrame:",
            '  40      """What each customer has paid."""',
            "  41      # in euros",
            '> 42      return orders.groupBy("customer").agg(F.sum("amount"))',
        )
    ),
    trace=TRACE,
    spark_error="UNRESOLVED_COLUMN.WITH_SUGGESTION",
)
NO_DISK = FailureInfo(kind=FailureKind.ENVIRONMENT, message="the disk of the worker is full", vertex="words")
SALES = "customers -> cleaned ; orders -> parsed => totals*4 => report -> mail ; cleaned => totals ; totals => archive"


@dataclass
class Site:
    rest: RestCluster
    jobs: dict[str, JobID]
    vertices: dict[tuple[str, str], str]
    """Ids by the names of job and vertex."""

    @property
    def address(self) -> str:
        return self.rest.server.address

    @property
    def script(self) -> TaskScript:
        return self.rest.script


def named(text: str, name: str, **fields: object) -> JobGraph:
    """A graph whose functions are of the kinds that their places say."""
    made = graph(text, name, **fields)
    read = {edge.target for edge in made.edges}
    vertices = tuple(
        msgspec.structs.replace(
            vertex,
            functions=tuple(msgspec.structs.replace(each, kind=FunctionKind.SOURCE) for each in vertex.functions),
        )
        if vertex.id not in read and vertex.functions[0].kind is FunctionKind.TRANSFORM
        else vertex
        for vertex in made.vertices
    )
    return msgspec.structs.replace(made, vertices=vertices)


def declaring(job: JobGraph, name: str) -> JobGraph:
    """The graph with one source that says what it reads: the files of the parameter `input`."""
    declared = FileInputFormat(path=ParameterReference("input"), format="parquet", split_mib=64)
    vertices = tuple(
        msgspec.structs.replace(
            vertex,
            functions=tuple(
                msgspec.structs.replace(each, splits=declared) if each.name == name else each
                for each in vertex.functions
            ),
        )
        for vertex in job.vertices
    )
    return msgspec.structs.replace(job, vertices=vertices)


@contextlib.asynccontextmanager
async def site(
    tmp_path: Path,
    *,
    workers: int = 3,
    options: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> AsyncIterator[Site]:
    """Jobs that have finished, failed, were cancelled, restarted, run, and wait."""
    script = TaskScript(
        io=IOMetrics(rows_read=1_204_511, bytes_read=340_000_000, rows_written=88_123, bytes_written=9_400_000)
    )
    (tmp_path / "jobmanager.log").write_text("12:00:00 INFO  leading: 0 stored jobs go on, 0 have ended\n")
    settings = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "50 ms",
        **(options or {}),
    }
    async with rest_cluster(tmp_path, script=script, workers=workers, options=settings, headers=headers) as rest:
        made = Site(rest, {}, {})
        await finished(made)
        await failed(made)
        await cancelled(made)
        await running(made)
        yield made


async def submitted(made: Site, job: JobGraph) -> JobID:
    await made.rest.submit(job)
    made.jobs[job.name] = job.job_id
    made.vertices.update({(job.name, vertex.name): vertex.id for vertex in job.vertices})
    return job.job_id


async def finished(made: Site) -> None:
    parameters = {"input": "/data/2026-11-22/orders", "output": "s3a://reports/daily", "api_token": "geheim"}
    plain = named(
        SALES, "daily sales report", parameters=parameters, configuration={"spark.sql.shuffle.partitions": "64"}
    )
    job = declaring(plain, "orders")
    made.script.pause_s = lambda: 0.1
    await made.rest.finish(await submitted(made, job))
    restarted = named("lines => words*3 => counts", "word counts that were restarted")
    made.script._failures["words"] = [NO_DISK]
    await made.rest.finish(await submitted(made, restarted))


async def failed(made: Site) -> None:
    made.script._failures["monthly"] = [USERS_LINE]
    text = "read => monthly*2 => written"
    job = named(text, "monthly totals", configuration={"restart-strategy.type": "none"})
    await made.rest.finish(await submitted(made, job))


async def cancelled(made: Site) -> None:
    made.script.hold("slowly")
    job_id = await submitted(made, named("slowly -> away", "an export that took too long"))
    await made.script.until_running("slowly")
    await made.rest.http.patch(f"/jobs/{job_id}")
    await made.rest.finish(job_id)


async def running(made: Site) -> None:
    """One that runs, with a part of it done, takes all slots but two; the next ones wait for more than these."""
    made.script.hold("features", "hours")
    await submitted(
        made, named("events => features*4 -> scores*4 => model", "customer features of the last ninety days")
    )
    await made.script.until_running("features", 4)
    for number in range(4):
        await submitted(made, named("clicks => hours*6", f"backfill {number + 1} of 4"))
    while not any(each["reason"] for each in (await made.rest.get("/jobs/overview"))["jobs"]):
        await asyncio.sleep(0.05)
