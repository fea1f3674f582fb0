"""Real storages and the jars that Spark needs for them, as users get them: `make test-stack`, apart from `make test`."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.warm import spark_endpoint
from firesteel.adapters.storage.schemes import SCHEMES
from firesteel.minicluster import MiniCluster
from firesteel.model.ids import JobID
from firesteel.model.options import Configuration
from tests.durable.s3 import s3_server

STACK = "FIRESTEEL_STACK"
"""Set by `make test-stack`: its tests download some hundred megabytes the first time."""

SAYS_LIMIT_S = 300.0

Do = Callable[[Coroutine[Any, Any, Any]], Any]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.spark)
            if not os.environ.get(STACK):
                item.add_marker(pytest.mark.skip(reason="needs jars from Maven: make test-stack"))


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a server with a bucket `firesteel`."""
    with s3_server(tmp_path_factory.mktemp("s3")) as url:
        yield url


def s3_settings(url: str) -> dict[str, str]:
    """Options by which Spark and our own processes reach it."""
    return {
        "spark.jars.packages": SCHEMES["s3a"].packages,
        "fs.s3a.multipart.size": "5M",
        "s3.endpoint": url,
        "s3.access-key": "the-key",
        "s3.secret-key": "the-secret-of-the-key",
        "taskmanager.spark.class-data-archive": "false",
    }


@pytest.fixture(scope="module")
def do() -> Iterator[Do]:
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture(scope="module")
def cluster(do: Do, s3: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    cluster = do(shared({**s3_settings(s3), "cluster.work-dir": str(tmp_path_factory.mktemp("cluster"))}))
    yield cluster
    do(cluster.close())


async def started(options: dict[str, str]) -> MiniCluster:
    cluster = MiniCluster(Configuration(options))
    await cluster.start()
    return cluster


async def shared(options: dict[str, str]) -> MiniCluster:
    """For several tests: its JVM is older than the first of them, which has to leave no child behind."""
    cluster = await started(options)
    await spark_endpoint(cluster)
    return cluster


async def until(holds: Callable[[], bool], limit_s: float = 60.0) -> None:
    """Wait for what the cluster, which is on the same event loop, does by and by. Who calls asserts it."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            while not await asyncio.to_thread(holds):
                await asyncio.sleep(0.1)


async def says(cluster: MiniCluster, job_id: JobID, *words: str) -> None:
    """Wait until the job waits, and names the reason."""
    async with asyncio.timeout(SAYS_LIMIT_S):
        reason = ""
        while not all(word in reason for word in words):
            await asyncio.sleep(0.2)
            reason = (await cluster.client.request_job(job_id)).reason
