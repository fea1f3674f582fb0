"""What is wrong with a cluster is told in one sentence, with its address, before a worker offers slots."""

import asyncio
import socket
import time
from pathlib import Path

import pytest

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.options import Configuration
from firesteel.runtime.ports import TaskFailedError
from tests.clusters.conftest import ON_EXECUTORS
from tools.standalone import free_port

UNREACHABLE_S = 6.0


def refusal(folder: Path, url: str) -> str:
    """What a worker's backend says instead of starting."""

    async def story() -> str:
        options = {**ON_EXECUTORS, "taskmanager.spark.master": url}
        backend = SparkTaskBackend(Configuration(options), folder / "work", LocalBlobStore(folder / "blobs"))
        try:
            with pytest.raises(TaskFailedError) as refused:
                await backend.start()
            return refused.value.failure.message
        finally:
            await backend.close()

    return asyncio.run(story())


@pytest.mark.parametrize("scheme", ["spark", "sc"])
def test_nobody_listens(tmp_path: Path, scheme: str) -> None:
    url = f"{scheme}://127.0.0.1:{free_port()}"
    begun = time.monotonic()
    said = refusal(tmp_path, url)
    assert time.monotonic() - begun < UNREACHABLE_S
    assert said.startswith(f"{url} can't be reached from {socket.gethostname()}")
    assert "taskmanager.spark.master" in said
