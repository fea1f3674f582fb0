"""A real standalone cluster and a worker's backend on it: one of each for the tests of a file."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.options import Configuration
from tests.integration.spark.jobs import JobMaker, Runner
from tools.standalone import Standalone, standalone

SMALL = {"taskmanager.spark.heap": "700m", "taskmanager.spark.class-data-archive": "false"}
ON_EXECUTORS = {**SMALL, "spark.executor.memory": "512m", "spark.executor.cores": "2"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.clusters)


@pytest.fixture(scope="module")
def do() -> Iterator[Runner]:
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clusters")


@pytest.fixture(scope="module")
def blobs(scratch: Path) -> LocalBlobStore:
    return LocalBlobStore(scratch / "blobs")


@pytest.fixture(scope="module")
def spark(scratch: Path) -> Iterator[Standalone]:
    with standalone(scratch / "cluster") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def backend(do: Runner, scratch: Path, blobs: LocalBlobStore, spark: Standalone) -> Iterator[SparkTaskBackend]:
    configuration = Configuration({**ON_EXECUTORS, "taskmanager.spark.master": spark.url})
    backend = SparkTaskBackend(configuration, scratch / "work", blobs)
    do(backend.start())
    do(backend.endpoint())  # its JVM is older than the first test
    yield backend
    do(backend.close())


@pytest.fixture
def jobs(blobs: LocalBlobStore, tmp_path: Path) -> JobMaker:
    return JobMaker(blobs, tmp_path)
