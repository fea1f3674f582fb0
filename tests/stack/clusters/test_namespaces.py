"""A worker and a standalone cluster in network namespaces of their own, so that loopback can't hide a mistake."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters.conftest import ON_EXECUTORS
from tests.stack.clusters.hosts import Host, hosts
from tools.standalone import Standalone

LIMIT_S = 600


@pytest.fixture(scope="module")
def namespaces() -> Iterator[list[Host]]:
    """The worker's, and the cluster's."""
    with hosts(2) as made:
        yield made


@pytest.fixture(scope="module")
def spark(namespaces: list[Host], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    _, there = namespaces
    cluster = Standalone(tmp_path_factory.mktemp("cluster"), host=there.address, prefix=there.prefix)
    try:
        cluster.start_master()
        cluster.start_worker()
        yield cluster
    finally:
        cluster.close()


def said_by_worker(host: Host, spark: Standalone, folder: Path, *definitions: str) -> str:
    options = [f"{key}={value}" for key, value in ON_EXECUTORS.items()]
    program = (
        sys.executable,
        "-m",
        "tests.clusters.workerprocess",
        spark.url,
        str(folder),
        "8",
        *options,
        *definitions,
    )
    command = (*host.prefix, *program)
    return subprocess.run(command, capture_output=True, check=True, text=True, timeout=LIMIT_S).stdout


def test_executors_elsewhere_find_the_driver(namespaces: list[Host], spark: Standalone, tmp_path: Path) -> None:
    said = said_by_worker(namespaces[0], spark, tmp_path)
    assert "rows: 4" in said, said
    assert f"tracking_url='http://{namespaces[0].address}:" in said, said


def test_executors_that_can_not_reach_the_driver_are_told(
    namespaces: list[Host], spark: Standalone, tmp_path: Path
) -> None:
    """A driver that is on loopback for them: the mistake that one host does not show."""
    said = said_by_worker(namespaces[0], spark, tmp_path, "spark.driver.host=127.0.0.1")
    where = f"start on {namespaces[1].address} and end before they reach the driver"
    assert f"refused: executors of {spark.url} {where}" in said, said
    assert "spark.driver.host" in said
