"""Workers that a real standalone master does not let in, or that look for it at another port: told, and how soon."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.spark.clusters.reach import CONNECT_S
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.failures import FailureKind
from firesteel.model.options import Configuration
from firesteel.runtime.ports import TaskFailedError
from tests.clusters.conftest import ON_EXECUTORS
from tests.integration.spark.jobs import Runner
from tools.standalone import Standalone, free_port, standalone

SECRET_S = 60.0
"""The start of a JVM, on a machine that others use, and its first word with the master. Spark itself would try for longer."""


@pytest.fixture(scope="module")
def guarded(scratch: Path) -> Iterator[Standalone]:
    """A master with a secret."""
    settings = ("spark.authenticate=true", "spark.authenticate.secret=theirs")
    with standalone(scratch / "guarded", *settings, workers=0) as cluster:
        yield cluster


def refused(do: Runner, blobs: LocalBlobStore, folder: Path, options: dict[str, str]) -> tuple[str, float]:
    """What a worker says that does not start, and after how many seconds."""

    async def story() -> tuple[str, float]:
        backend = SparkTaskBackend(Configuration({**ON_EXECUTORS, **options}), folder / "work", blobs)
        begun = time.monotonic()
        try:
            with pytest.raises(TaskFailedError) as failed:
                await backend.start()
            assert failed.value.failure.kind is FailureKind.NON_RECOVERABLE
            return failed.value.failure.message, time.monotonic() - begun
        finally:
            await backend.close()

    told: tuple[str, float] = do(story())
    return told


def test_another_secret_is_told_when_the_driver_is_first_refused(
    guarded: Standalone, do: Runner, blobs: LocalBlobStore, tmp_path: Path
) -> None:
    secret = {"spark.authenticate": "true", "spark.authenticate.secret": "ours"}
    message, taken_s = refused(do, blobs, tmp_path, {**secret, "taskmanager.spark.master": guarded.url})
    assert f"{guarded.url} has refused the driver" in message
    assert "they do not have the same secret" in message
    assert taken_s < SECRET_S


def test_another_port_is_told_before_anything_is_started(do: Runner, blobs: LocalBlobStore, tmp_path: Path) -> None:
    url = f"spark://127.0.0.1:{free_port()}"
    message, taken_s = refused(do, blobs, tmp_path, {"taskmanager.spark.master": url})
    assert f"{url} can't be reached from" in message
    assert taken_s < CONNECT_S
    assert not list(tmp_path.rglob("spark-*.log"))
