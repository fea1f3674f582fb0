"""One Spark backend for all tests here that a process runs: a JVM takes seconds to start, and many more to be warm."""

import asyncio
import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.options import Configuration
from tests.integration.spark.jobs import JobMaker, Runner
from tests.integration.spark.storages import Storage
from tests.sparkjvms import quick_start

if TYPE_CHECKING:
    from tests.integration.spark.inprocess import InProcess

CONFIGURATION = {
    **quick_start(),
    "taskmanager.memory.task-process.limit": "700m",
}


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="session")
def blobs(scratch: Path) -> LocalBlobStore:
    return LocalBlobStore(scratch / "blobs")


@pytest.fixture(scope="session")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="session")
def backend(runner: asyncio.Runner, scratch: Path, blobs: LocalBlobStore) -> Iterator[SparkTaskBackend]:
    backend = SparkTaskBackend(Configuration(CONFIGURATION), scratch / "work", blobs)
    runner.run(backend.start())
    runner.run(backend.endpoint())  # its JVM is older than the first test, which may need none
    yield backend
    runner.run(backend.close())
    shutil.rmtree(scratch / "work")


@pytest.fixture(scope="session")
def do(runner: asyncio.Runner) -> Runner:
    """Runs a coroutine on the event loop of the tests here."""
    return runner.run


@pytest.fixture(scope="module")
def local(backend: SparkTaskBackend, tmp_path_factory: pytest.TempPathFactory, do: Runner) -> Iterator["InProcess"]:
    """A session in the process of the tests, with a directory of its own."""
    from tests.connectmode import connect_mode
    from tests.integration.spark.inprocess import InProcess  # imports pyspark, which many files do without

    with connect_mode(), contextlib.closing(InProcess(backend, tmp_path_factory.mktemp("local"), do)) as made:
        yield made


@pytest.fixture
def jobs(blobs: LocalBlobStore, tmp_path: Path) -> JobMaker:
    return JobMaker(blobs, tmp_path)


@pytest.fixture(params=["rows", "parquet"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return Storage(str(tmp_path / "stored"), has_classes=request.param == "rows")
