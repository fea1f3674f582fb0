"""Spark's own pages of a worker's JVM, and what it keeps of its events: both are off unless somebody asks for them."""

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import msgspec
import pytest

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.inspection.sparkpages import read_page
from firesteel.adapters.inspection.sparkwork import look
from firesteel.adapters.spark.clusters.masters import LOOPBACK
from firesteel.adapters.spark.jvm import launch
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.ids import JobID, RegionAttemptID, RegionIndex
from firesteel.model.inquiries import InquiryRefused, LookAtSparkWork, ReadSparkPage, SparkPage, SparkWorkSeen
from firesteel.model.options import Configuration
from firesteel.model.sparkwork import SparkWork
from tests.integration.spark.conftest import CONFIGURATION
from tests.integration.spark.jobs import JobMaker, Runner, function, run

pytestmark = pytest.mark.spark

SOURCE = """
from firesteel.adapters.spark.sinks.files import write_parquet

def short(spark, output):
    write_parquet(spark.range(0, 8, 1, 8), output)
"""
SHORT = (function("short", "sink", wants_session=True, parameters=("output",)),)
BASE = "/v1/jobs/j/spark"
LIMIT_S = 300.0


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not await holds():
            await asyncio.sleep(0.05)


async def page(backend: SparkTaskBackend, target: str) -> SparkPage:
    asked = ReadSparkPage(job_id=JobID("j"), target=target, base=BASE, reads_all=True)
    answer = await read_page(asked, backend.applications())
    assert isinstance(answer, SparkPage), answer
    return answer


def test_there_are_none_unless_asked_for(backend: SparkTaskBackend, do: Runner) -> None:
    asked = ReadSparkPage(job_id=JobID("j"), target="/jobs/", base=BASE)
    answer = do(read_page(asked, backend.applications()))
    assert isinstance(answer, InquiryRefused)
    assert answer.is_missing
    assert "taskmanager.spark.ui" in answer.reason
    answer = do(look(LookAtSparkWork(attempt=RegionAttemptID(JobID("j"), RegionIndex(0), 0)), backend.applications()))
    assert isinstance(answer, InquiryRefused)
    assert "taskmanager.spark.ui: true" in answer.reason


async def work(backend: SparkTaskBackend, job_id: JobID, attempt: int = 0) -> SparkWork:
    inquiry = LookAtSparkWork(attempt=RegionAttemptID(job_id, RegionIndex(0), attempt))
    answer = await look(inquiry, backend.applications())
    assert isinstance(answer, SparkWorkSeen), answer
    return answer.work


async def its_work_is_told(backend: SparkTaskBackend, first: JobID, second: JobID) -> None:
    """Of each job its own: the query with its plan and rows, and its stages."""
    told = [await work(backend, job_id) for job_id in (first, second)]
    assert [len(each.queries) for each in told] == [1, 1]
    assert told[0].queries[0].query != told[1].queries[0].query
    assert not (await work(backend, first, attempt=1)).stages
    for each in told:
        (query,) = each.queries
        assert query.status == "COMPLETED"
        assert query.duration > 0
        assert "== Physical Plan ==" in query.plan
        read = next(node for node in query.nodes if node.name == "Range")
        assert ("number of output rows", "8") in [(figure.name, figure.value) for figure in read.figures]
        assert {node.feeds for node in query.nodes} <= {-1, *(node.node for node in query.nodes)}
        done = [stage for stage in each.stages if stage.status == "COMPLETE"]
        assert {stage.query for stage in done} == {query.query}
        assert [(stage.done, stage.tasks, stage.rows_written) for stage in done] == [(8, 8, 8)]
        assert all(0 < stage.started <= stage.ended for stage in done)


def test_pages_are_read_here_and_events_by_sparks_history_server(
    tmp_path: Path, blobs: LocalBlobStore, jobs: JobMaker
) -> None:
    events = tmp_path / "kept" / "events"
    wanted = {"taskmanager.spark.ui": "true", "taskmanager.spark.event-log.dir": events.as_uri()}

    async def story() -> str:
        backend = SparkTaskBackend(Configuration({**CONFIGURATION, **wanted}), tmp_path / "work", blobs)
        await backend.start()
        try:
            one, other = (
                jobs.job(SOURCE, SHORT, parameters={"output": str(tmp_path / name)}) for name in ("one", "other")
            )
            await run(backend, one)
            await run(backend, other)

            async def is_found() -> bool:
                return bool(backend.applications())

            await until(is_found)
            await its_work_is_told(backend, one.graph.job_id, other.graph.job_id)
            first = await page(backend, "/")
            assert (first.status, first.location) == (302, f"{BASE}/jobs/")
            listed = await page(backend, "/jobs/?jobs.sort=Description")
            assert (listed.status, listed.content_type.partition(";")[0]) == (200, "text/html")
            assert f'href="{BASE}/stages/"'.encode() in listed.body
            assert b"/kill/" not in listed.body
            (application,) = json.loads((await page(backend, "/api/v1/applications")).body)
            return str(application["id"])
        finally:
            await backend.close()

    application = asyncio.run(story())
    assert application in history(events, tmp_path / "history.log")


def history(events: Path, log: Path) -> list[str]:
    """The applications that Spark's history server knows."""
    options = {"fs.logDirectory": events.as_uri(), "ui.port": "0", "fs.update.interval": "1s"}
    command = [
        *launch.archive_command(launch.find_installation()),
        *(f"-Dspark.history.{key}={value}" for key, value in options.items()),
        "org.apache.spark.deploy.history.HistoryServer",
    ]
    with open(log, "wb") as told:
        server = subprocess.Popen(command, stdout=told, stderr=told, env={**os.environ, "SPARK_LOCAL_IP": LOOPBACK})
    try:
        return asyncio.run(_listed(log))
    finally:
        server.kill()
        server.wait()


async def _listed(log: Path) -> list[str]:
    found: list[str] = []

    async def is_listed() -> bool:
        started = re.search(r"'HistoryServerUI' on port (\d+)", log.read_text())
        if started is None:
            return False
        async with httpx.AsyncClient(base_url=f"http://{LOOPBACK}:{started[1]}", timeout=LIMIT_S) as http:
            answer = await http.get("/api/v1/applications")
        found[:] = [each["id"] for each in msgspec.json.decode(answer.content)]
        return bool(found)

    await until(is_listed)
    return found
