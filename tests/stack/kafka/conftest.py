"""A broker, and a cluster whose Spark has the connector by its Maven coordinates."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.adapters.spark.brokers import CONNECTOR
from firesteel.minicluster import MiniCluster
from tests.integration.cluster.files import Files
from tests.stack.conftest import Do, shared
from tests.stack.kafka.broker import USERS, Kafka, kafka, log_in


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with kafka(tmp_path_factory.mktemp("kafka") / "broker") as made:
        yield made


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {"spark.jars.packages": CONNECTOR}


@pytest.fixture(scope="module")
def work_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def cluster(do: Do, settings: dict[str, str], work_dir: Path) -> Iterator[MiniCluster]:
    """Users' log-ins are in its environment, as secrets are on workers."""
    with pytest.MonkeyPatch.context() as patched:
        for name in USERS:
            patched.setenv(f"KAFKA_{name.upper()}", log_in(name)["sasl.jaas.config"])
        own = {"taskmanager.spark.class-data-archive": "false", "cluster.work-dir": str(work_dir)}
        cluster = do(shared({**own, **settings}))
        yield cluster
        do(cluster.close())


@pytest.fixture
def files(cluster: MiniCluster, do: Do, tmp_path: Path) -> Files:
    return Files(cluster, do, tmp_path)
