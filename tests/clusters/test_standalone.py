"""Attempts on the executors of a real standalone cluster: the few that are quick."""

import asyncio
from pathlib import Path
from typing import Any

import psutil

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.options import Configuration
from tests.clusters.conftest import ON_EXECUTORS
from tests.clusters.work import begun, counting_job, rows_staged
from tests.integration.spark.jobs import JobMaker, Observed, Runner, run
from tools.standalone import Standalone


def test_a_job_runs_on_executors_with_its_modules_and_says_where(
    backend: SparkTaskBackend, spark: Standalone, jobs: JobMaker, do: Runner, tmp_path: Path
) -> None:
    observed = Observed()
    outcome = do(run(backend, counting_job(jobs, tmp_path), observed=observed))
    assert rows_staged(outcome) == 4
    (application,) = backend.applications()
    assert application.master == spark.url
    assert application.application.startswith("app-")
    assert application.tracking_url.startswith("http://127.0.0.1:")
    assert observed.progress[-1].application is not None
    assert observed.progress[-1].application.application == application.application
    assert application.executors == len(spark.executors()) == 1


def test_an_executor_that_dies_is_sparks_to_replace(
    backend: SparkTaskBackend, spark: Standalone, jobs: JobMaker, do: Runner, tmp_path: Path
) -> None:
    observed = Observed()

    async def story() -> int:
        running = asyncio.get_running_loop().create_task(
            run(backend, counting_job(jobs, tmp_path, seconds=2.0), observed=observed)
        )
        await begun(tmp_path)
        for executor in spark.executors():
            executor.kill()
        return rows_staged(await running)

    assert do(story()) == 4
    assert all(each.tasks_done <= each.tasks_total for each in observed.progress)
    assert len((tmp_path / "mark").read_text().splitlines()) > 8, "tasks have run again"


def test_sparks_pages_are_served_on_loopback_alone_where_users_have_names(
    blobs: LocalBlobStore, spark: Standalone, do: Runner, tmp_path: Path
) -> None:
    """Its executors reach the driver at another address, as before."""
    own = {
        "rest.users-file": str(tmp_path / "users"),
        "spark.driver.host": "127.0.0.3",
        "spark.driver.bindAddress": "127.0.0.3",
    }
    configuration = Configuration({**ON_EXECUTORS, **own, "taskmanager.spark.master": spark.url})

    async def story() -> None:
        backend = SparkTaskBackend(configuration, tmp_path / "work", blobs)
        await backend.start()
        try:
            assert rows_staged(await run(backend, counting_job(JobMaker(blobs, tmp_path), tmp_path))) == 4
            (application,) = backend.applications()
            assert application.tracking_url.startswith("http://127.0.0.1:")
            port = int(application.tracking_url.rpartition(":")[2])
            listening = listening_now()
            assert [ip for ip, each in listening if each == port] == ["127.0.0.1"]
            assert "127.0.0.3" in {ip for ip, _ in listening}, "the driver's own address"
        finally:
            await backend.close()

    do(story())


def listening_now() -> list[tuple[str, int]]:
    """Address and port of all sockets of this machine that are listened at."""
    found = []
    for each in psutil.net_connections("tcp"):
        if each.status == psutil.CONN_LISTEN:
            address: Any = each.laddr
            found.append((address.ip.removeprefix("::ffff:"), address.port))
    return found
