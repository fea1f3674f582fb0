"""One mini cluster with a real Spark for all tests here that a process runs; `mini_cluster` makes those of one's own."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.warm import spark_endpoint
from firesteel.minicluster import MiniCluster
from firesteel.model.options import Configuration
from tests.integration.cluster.files import Files
from tests.sparkjvms import quick_start

Do = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(scope="session")
def do() -> Iterator[Do]:
    """Runs a coroutine on the event loop of the tests here."""
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture(scope="session")
def work_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@contextlib.contextmanager
def mini_cluster(do: Do, work_dir: Path, settings: Mapping[str, str] | None = None) -> Iterator[MiniCluster]:
    """A cluster that runs for a while, with a JVM that is older than the first test; `settings` are more of its configuration."""
    made = MiniCluster(Configuration({**quick_start(), "cluster.work-dir": str(work_dir), **(settings or {})}))
    do(made.start())
    try:
        do(spark_endpoint(made))
        yield made
    finally:
        do(made.close())


@pytest.fixture(scope="session")
def cluster(do: Do, work_dir: Path) -> Iterator[MiniCluster]:
    # Code of jobs that failed would stay, to be tried once more; here tests look at what is left.
    settings = {"jobstore.retryable.max-capacity": "0", "taskmanager.spark.warm-up": "true"}
    with mini_cluster(do, work_dir, settings) as made:
        yield made


@pytest.fixture
def files(cluster: MiniCluster, do: Do, tmp_path: Path) -> Files:
    return Files(cluster, do, tmp_path)
