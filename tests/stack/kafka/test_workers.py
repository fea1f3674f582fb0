"""A worker that dies while it reads a topic: the one that follows it reads the same offsets."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.minicluster import MiniCluster
from tests.integration.cluster.files import Files
from tests.integration.cluster.test_jobs import rows_of
from tests.stack.conftest import Do, started
from tests.stack.kafka.broker import Kafka
from tests.stack.kafka.test_source import drawn, waiting_job


@pytest.fixture
def cluster(do: Do, settings: dict[str, str], tmp_path: Path) -> Iterator[MiniCluster]:
    """Of one test: its worker dies."""
    own = {"taskmanager.spark.class-data-archive": "false", "cluster.work-dir": str(tmp_path / "work")}
    cluster = do(started({**own, **settings}))
    yield cluster
    do(cluster.close())


def test_another_worker_reads_the_same_offsets(
    files: Files, cluster: MiniCluster, broker: Kafka, tmp_path: Path, do: Do
) -> None:
    broker.create("moved", 2)
    for number in range(2):
        broker.send("moved", number, [("k", str(n)) for n in range(20)])
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / "go").touch()
    job = waiting_job(files, broker, "moved", scratch, do)
    broker.send("moved", 1, [("late", "late")])
    (first,) = cluster.workers
    do(cluster.start_task_executor())
    do(cluster.terminate_task_executor(first))
    (scratch / "go").touch()
    result = do(cluster.client.request_job_result(job))
    assert result.failure is None, result.failure
    assert result.restarts > 0
    draws = drawn(scratch)
    assert len(draws) > 1
    assert all(each == [["moved", 0, 0, 20], ["moved", 1, 0, 20]] for each in draws)
    assert len(rows_of(tmp_path / "out")) == 40
