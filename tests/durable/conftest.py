"""One ZooKeeper server for all tests here: each has a cluster id, or a root, of its own."""

from collections.abc import Iterator

import pytest

from tests.durable.zookeeper import ZooKeeper, zookeeper


@pytest.fixture(scope="module")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with zookeeper(tmp_path_factory.mktemp("zookeeper") / "server") as made:
        yield made
