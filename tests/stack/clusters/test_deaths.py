"""What dies of a standalone cluster while an attempt runs on it, and what is told."""

import asyncio
import re
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.options import Configuration
from firesteel.model.tasks import TaskOutcome
from firesteel.runtime.ports import TaskFailedError
from tests.clusters.conftest import ON_EXECUTORS
from tests.clusters.work import begun, counting_job, rows_staged
from tests.integration.spark.jobs import JobMaker, Observed, run
from tools.standalone import Standalone, end, standalone, wait_for

Work = Coroutine[Any, Any, TaskOutcome]


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Standalone]:
    with standalone(tmp_path / "cluster") as cluster:
        yield cluster


@asynccontextmanager
async def backend_on(spark: Standalone, folder: Path, **settings: str) -> AsyncIterator[SparkTaskBackend]:
    options = {**ON_EXECUTORS, "taskmanager.spark.master": spark.url, **settings}
    backend = SparkTaskBackend(Configuration(options), folder / "work", LocalBlobStore(folder / "blobs"))
    try:
        await backend.start()
        yield backend
    finally:
        await backend.close()


def told(
    spark: Standalone, folder: Path, meanwhile: Callable[[SparkTaskBackend, Observed], Coroutine[Any, Any, None]]
) -> tuple[TaskOutcome, Observed]:
    """An attempt during which something happens."""

    async def story() -> tuple[TaskOutcome, Observed]:
        observed = Observed()
        async with backend_on(spark, folder) as backend:
            job = counting_job(JobMaker(LocalBlobStore(folder / "blobs"), folder), folder, tasks=16, seconds=1.0)
            async with asyncio.TaskGroup() as group:
                running = group.create_task(run(backend, job, observed=observed))
                await begun(folder)
                await meanwhile(backend, observed)
            return running.result(), observed

    return asyncio.run(story())


def test_the_spark_master_is_killed_and_comes_back(spark: Standalone, tmp_path: Path) -> None:
    async def meanwhile(backend: SparkTaskBackend, observed: Observed) -> None:
        assert spark.master is not None
        end(spark.master)
        await asyncio.sleep(2)
        await asyncio.to_thread(spark.start_master)

    outcome, _ = told(spark, tmp_path, meanwhile)
    assert rows_staged(outcome) == 4


def test_the_only_spark_worker_is_killed_and_another_comes(spark: Standalone, tmp_path: Path) -> None:
    async def meanwhile(backend: SparkTaskBackend, observed: Observed) -> None:
        end(spark.workers[0])
        async with asyncio.timeout(120):
            while not any("waits" in each or "executors of" in each for each in waits(observed)):
                await asyncio.sleep(0.1)
        await asyncio.to_thread(spark.start_worker)

    outcome, observed = told(spark, tmp_path, meanwhile)
    assert rows_staged(outcome) == 4
    (first, *_) = waits(observed)
    assert first.startswith(f"executors of {spark.url}"), first
    assert re.search(r"for \d+ s now$", first), first
    assert not observed.progress[-1].waits_for


def waits(observed: Observed) -> list[str]:
    return [each.waits_for for each in observed.progress if each.waits_for]


def test_an_application_that_is_killed_is_told_as_that_and_another_begins(spark: Standalone, tmp_path: Path) -> None:
    jobs = JobMaker(LocalBlobStore(tmp_path / "blobs"), tmp_path)
    applications: list[str] = []

    async def killed(backend: SparkTaskBackend) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(run(backend, counting_job(jobs, tmp_path, tasks=60, seconds=1.0)))
            await begun(tmp_path)
            applications.extend(each.application for each in backend.applications())
            await asyncio.to_thread(kill_application, spark, applications[0])

    async def story() -> FailureInfo:
        async with backend_on(spark, tmp_path) as backend:
            with pytest.RaisesGroup(TaskFailedError) as failed:
                await killed(backend)
            assert rows_staged(await run(backend, counting_job(jobs, tmp_path))) == 4
            applications.extend(each.application for each in backend.applications())
            (error,) = failed.value.exceptions
            assert isinstance(error, TaskFailedError)
            return error.failure

    failure = asyncio.run(story())
    first, second = applications
    assert failure.kind is FailureKind.ENVIRONMENT
    assert f"the application {first} was ended by {spark.url}" in failure.message
    assert first != second


def kill_application(spark: Standalone, application: str) -> None:
    """As the button of its pages does: by the form, with what is hidden there against requests from elsewhere."""
    assert spark.master is not None
    log = max(spark.directory.glob("master-*.log"))
    port = wait_for(log, re.compile(r"Successfully started service 'MasterUI' on port (\d+)"), spark.master)
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opener.open(f"http://127.0.0.1:{port}/", timeout=30) as answer:
        page = answer.read().decode()
    forms = [form for form in re.findall(r"<form.*?</form>", page, re.DOTALL) if "app/kill" in form]
    (form,) = [form for form in forms if application in form]
    inputs = re.findall(r"<input[^>]*>", form)
    hidden = {_attribute("name", each): _attribute("value", each) for each in inputs if _attribute("name", each)}
    body = urllib.parse.urlencode(hidden).encode()
    opener.open(f"http://127.0.0.1:{port}/app/kill/", data=body, timeout=30).close()


def _attribute(name: str, tag: str) -> str:
    found = re.search(rf"""\b{name}=["']([^"']*)""", tag)
    return found[1] if found is not None else ""
