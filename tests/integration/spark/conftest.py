"""One Spark backend per test module: a JVM takes seconds to start."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.options import Configuration
from tests.archive import class_data_archive
from tests.integration.spark.jobs import JobMaker, Runner
from tests.integration.spark.storages import Storage

CONFIGURATION = {
    "taskmanager.spark.class-data-archive": class_data_archive(),
    "taskmanager.spark.warm-up": "false",
    "taskmanager.memory.task-process.limit": "700m",
}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def blobs(scratch: Path) -> LocalBlobStore:
    return LocalBlobStore(scratch / "blobs")


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def backend(runner: asyncio.Runner, scratch: Path, blobs: LocalBlobStore) -> Iterator[SparkTaskBackend]:
    backend = SparkTaskBackend(Configuration(CONFIGURATION), scratch / "work", blobs)
    runner.run(backend.start())
    yield backend
    runner.run(backend.close())
    shutil.rmtree(scratch / "work")


@pytest.fixture(scope="module")
def do(runner: asyncio.Runner) -> Runner:
    """Runs a coroutine on the module's event loop."""
    return runner.run


@pytest.fixture
def jobs(blobs: LocalBlobStore, tmp_path: Path) -> JobMaker:
    return JobMaker(blobs, tmp_path)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path / "stored"))
