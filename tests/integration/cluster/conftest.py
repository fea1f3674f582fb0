"""One mini cluster with a real Spark per test module."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from firesteel.minicluster import MiniCluster
from firesteel.model.options import Configuration
from tests.archive import class_data_archive
from tests.integration.cluster.files import Files

Do = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(scope="module")
def do() -> Iterator[Do]:
    """Runs a coroutine on the module's event loop."""
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture(scope="module")
def work_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    """More configuration of the cluster, for a module that needs it."""
    return {}


@pytest.fixture(scope="module")
def cluster(do: Do, work_dir: Path, settings: dict[str, str]) -> Iterator[MiniCluster]:
    own = {"cluster.work-dir": str(work_dir), "taskmanager.spark.class-data-archive": class_data_archive()}
    configuration = Configuration({**own, **settings})

    async def start() -> MiniCluster:
        cluster = MiniCluster(configuration)
        await cluster.start()
        return cluster

    cluster = do(start())
    yield cluster
    do(cluster.close())


@pytest.fixture
def files(cluster: MiniCluster, do: Do, tmp_path: Path) -> Files:
    return Files(cluster, do, tmp_path)
