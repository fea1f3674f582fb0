"""What is told and kept of Spark's tasks: it does not grow with them."""

import threading
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from firesteel.adapters.spark import wire
from firesteel.adapters.spark.session.counted import SparkCounts
from firesteel.adapters.spark.task import process
from firesteel.model.ids import JobID, RegionAttemptID, RegionIndex
from firesteel.model.tasks import TaskProgress

INTERVAL_MS = 500
SPLIT_BYTES = 128 << 20
STAGES = 4


class Job:
    """An attempt with one query of some stages on a cluster, where each core takes a task a second; on its own clock."""

    def __init__(self, tasks: int, executors: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: list[TaskProgress] = []
        self.updates = 0
        self.counts = SparkCounts()
        self._tasks, self._executors, self._now = tasks, executors, 0.0
        monkeypatch.setattr("firesteel.adapters.spark.task.process.time.monotonic", lambda: self._now)
        attempt: Any = SimpleNamespace(
            _task=SimpleNamespace(
                progress_interval_ms=INTERVAL_MS,
                follow=False,
                deployment=SimpleNamespace(attempt=RegionAttemptID(JobID("a" * 32), RegionIndex(0), 0)),
            ),
            _plan=SimpleNamespace(streams=[], active=SimpleNamespace(name="result")),
            _counts=self.counts,
            _channel=SimpleNamespace(send=self._note),
        )
        attempt._progress = partial(process.TaskProcess._progress, attempt)
        client = SimpleNamespace(_session=SimpleNamespace(), _server_session_id="")
        self._report = process.TaskProcess._progress_handler(attempt, client)

    def run(self) -> float:
        """Spark tells of each wave of tasks that has ended. Gives the seconds that it took."""
        done = [0] * STAGES
        for stage in range(STAGES):
            while done[stage] < self._tasks:
                self._now += 1 / max(1, self._executors // 100)  # tasks of a wave end one after another
                done[stage] = min(self._tasks, done[stage] + max(1, self._executors // 100))
                self._tell(done, is_last=False)
        self._tell(done, is_last=True)
        return self._now

    def _tell(self, done: list[int], *, is_last: bool) -> None:
        self.updates += 1
        stages = [
            SimpleNamespace(
                stage_id=number,
                num_tasks=self._tasks,
                num_completed_tasks=each,
                num_bytes_read=each * SPLIT_BYTES,
                done=each == self._tasks,
            )
            for number, each in enumerate(done)
        ]
        self._report(stages, min(self._executors, self._tasks), "one", is_last)

    def _note(self, message: msgspec.Struct) -> None:
        assert threading.current_thread() is threading.main_thread()
        if isinstance(message, wire.Progressed):
            self.told.append(message.progress)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Job:
    """100 GB in splits of 128 MiB and 1,000 tasks a stage, on 1,000 executors."""
    return Job(tasks=1_000, executors=1_000, monkeypatch=monkeypatch)


def test_messages_come_at_a_bounded_rate(large: Job) -> None:
    seconds = large.run()
    assert large.updates > 2 * seconds * 1_000 / INTERVAL_MS, "Spark tells of more"
    assert len(large.told) <= seconds * 1_000 / INTERVAL_MS + 2
    last = large.told[-1]
    assert (last.tasks_done, last.tasks_total) == (4_000, 4_000)
    assert last.bytes_read == 4_000 * SPLIT_BYTES


def test_a_message_is_no_larger_for_more_tasks(large: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    large.run()
    small = Job(tasks=10, executors=2, monkeypatch=monkeypatch)
    small.run()
    sizes = [max(len(msgspec.msgpack.encode(each)) for each in job.told) for job in (small, large)]
    assert sizes[1] - sizes[0] <= 32, "numbers have more digits"


def test_what_is_kept_is_a_number_for_each_operation(large: Job) -> None:
    large.run()
    assert large.counts._tasks == {"one": 4_000}
