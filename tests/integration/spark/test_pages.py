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
from firesteel.adapters.spark.clusters.masters import LOOPBACK
from firesteel.adapters.spark.jvm import launch
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.ids import JobID
from firesteel.model.inquiries import InquiryRefused, ReadSparkPage, SparkPage
from firesteel.model.options import Configuration
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


def test_pages_are_read_here_and_events_by_sparks_history_server(
    tmp_path: Path, blobs: LocalBlobStore, jobs: JobMaker
) -> None:
    events = tmp_path / "kept" / "events"
    wanted = {"taskmanager.spark.ui": "true", "taskmanager.spark.event-log.dir": events.as_uri()}

    async def story() -> str:
        backend = SparkTaskBackend(Configuration({**CONFIGURATION, **wanted}), tmp_path / "work", blobs)
        await backend.start()
        try:
            await run(backend, jobs.job(SOURCE, SHORT, parameters={"output": str(tmp_path / "short")}))

            async def is_found() -> bool:
                return bool(backend.applications())

            await until(is_found)
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
