"""A worker and a standalone cluster in network namespaces of their own, so that loopback can't hide a mistake."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters.conftest import ON_EXECUTORS
from tools.standalone import Standalone

DRIVER, CLUSTER = "10.213.7.1", "10.213.7.2"
LIMIT_S = 600


def ip(*arguments: str) -> bool:
    return subprocess.run(("ip", *arguments), capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def namespaces() -> Iterator[tuple[str, str]]:
    """Two that reach each other, and nobody else."""
    here, there = (f"firesteel-{os.getpid()}-{side}" for side in "ab")
    try:
        if not (ip("netns", "add", here) and ip("netns", "add", there)):
            pytest.skip("network namespaces need root and iproute2")
        cable = (f"fs{os.getpid() % 10_000}a", f"fs{os.getpid() % 10_000}b")
        assert ip("link", "add", cable[0], "type", "veth", "peer", "name", cable[1])
        for name, end, address in ((here, cable[0], DRIVER), (there, cable[1], CLUSTER)):
            assert ip("link", "set", end, "netns", name)
            assert ip("-n", name, "address", "add", f"{address}/24", "dev", end)
            assert ip("-n", name, "link", "set", end, "up")
            assert ip("-n", name, "link", "set", "lo", "up")
        yield here, there
    finally:
        ip("netns", "delete", here)
        ip("netns", "delete", there)


@pytest.fixture(scope="module")
def spark(namespaces: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    prefix = ("ip", "netns", "exec", namespaces[1])
    cluster = Standalone(tmp_path_factory.mktemp("cluster"), host=CLUSTER, prefix=prefix)
    try:
        cluster.start_master()
        cluster.start_worker()
        yield cluster
    finally:
        cluster.close()


def said_by_worker(namespace: str, spark: Standalone, folder: Path, *definitions: str) -> str:
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
    command = ("ip", "netns", "exec", namespace, *program)
    return subprocess.run(command, capture_output=True, check=True, text=True, timeout=LIMIT_S).stdout


def test_executors_elsewhere_find_the_driver(namespaces: tuple[str, str], spark: Standalone, tmp_path: Path) -> None:
    said = said_by_worker(namespaces[0], spark, tmp_path)
    assert "rows: 4" in said, said
    assert f"tracking_url='http://{DRIVER}:" in said, said


def test_executors_that_can_not_reach_the_driver_are_told(
    namespaces: tuple[str, str], spark: Standalone, tmp_path: Path
) -> None:
    """A driver that is on loopback for them: the mistake that one host does not show."""
    said = said_by_worker(namespaces[0], spark, tmp_path, "spark.driver.host=127.0.0.1")
    assert "refused: executors of spark://10.213.7.2:7077 start and end before they reach the driver" in said, said
    assert "spark.driver.host" in said
