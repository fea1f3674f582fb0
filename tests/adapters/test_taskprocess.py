"""The task process: what it reports of an attempt that can't even begin."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from firesteel.adapters.spark import wire
from firesteel.adapters.spark.task import process
from firesteel.model.failures import FailureKind
from firesteel.model.ids import AllocationID, RegionAttemptID, RegionIndex
from firesteel.model.tasks import JobInformation, TaskDeployment
from tests.core.graphs import job


def test_a_value_that_can_not_be_read_is_a_failure_that_no_retry_mends(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = msgspec.structs.replace(
        job("a -> b"), parameters={"topics": "a,b"}, parameter_types={"topics": "list[str]"}
    )
    deployment = TaskDeployment(
        attempt=RegionAttemptID(graph.job_id, RegionIndex(0), 0),
        allocation_id=AllocationID(""),
        vertices=tuple(vertex.id for vertex in graph.vertices),
        subtask=0,
    )
    task = wire.RunTask(
        job=JobInformation(graph=graph, user="tester"),
        deployment=deployment,
        session=wire.SessionName("tester", "1"),
        operation_tag="",
        endpoint=None,
        directory="",
        log="",
        pipes="/pipes",
        partitions="",
        lists="",
        results="",
        scheduler_pool="",
        settings={},
        staged_note="",
        client_directory="/client",
        progress_interval_ms=500,
        result_max_bytes=1,
    )
    for name in ("_use_directory_and_log", "_run_exit_handlers"):  # they are for a process of its own
        monkeypatch.setattr(process, name, lambda *_: None)
    sent: list[wire.Failed] = []
    channel: Any = SimpleNamespace(send=sent.append)
    process.main(channel, task)
    assert [each.failure.kind for each in sent] == [FailureKind.NON_RECOVERABLE]
    assert sent[0].failure.message.startswith("JSONDecodeError: ")
