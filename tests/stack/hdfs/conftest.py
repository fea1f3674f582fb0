"""An HDFS, and a cluster that writes there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.minicluster import MiniCluster
from tests.integration.cluster.files import Files
from tests.stack.conftest import Do, shared
from tests.stack.hadoop import Hdfs, hdfs


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with hdfs(tmp_path_factory.mktemp("hdfs") / "servers") as made:
        yield made


@pytest.fixture(scope="session")
def storage(servers: Hdfs) -> Hdfs:
    return servers


def hdfs_settings(storage: Hdfs) -> dict[str, str]:
    return {
        "fs.hdfs.webhdfs-address": storage.address,
        "spark.hadoop.dfs.replication": "1",
        "spark.hadoop.dfs.client.use.datanode.hostname": "true",
    }


@pytest.fixture(scope="module")
def cluster(do: Do, storage: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    cluster = do(shared({**hdfs_settings(storage), "cluster.work-dir": str(tmp_path_factory.mktemp("cluster"))}))
    yield cluster
    do(cluster.close())


@pytest.fixture
def files(cluster: MiniCluster, do: Do, tmp_path: Path) -> Files:
    return Files(cluster, do, tmp_path)
