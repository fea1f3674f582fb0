"""What a JobMaster keeps of what attempts tell of their Spark tasks."""

import msgspec

from firesteel.core.execution.topology import Topology
from firesteel.core.journal.journal import JobState
from firesteel.core.scheduler.backoff import NoRestart
from firesteel.core.scheduler.executions import Executions
from firesteel.core.scheduler.settings import SchedulerSettings
from firesteel.model.ids import RegionIndex
from firesteel.model.tasks import TaskProgress
from tests.core.graphs import JOB, job

TASKS = 1_000_000


def test_it_is_the_last_word_of_each_attempt_however_many_tasks_it_has() -> None:
    records: list[object] = []
    known = Executions(Topology(job("v")), JobState(job_id=JOB), SchedulerSettings(NoRestart(), 4), records.append)
    attempt = known.graph.attempt_id(RegionIndex(0))
    for done in range(0, TASKS, 100):
        known.note_progress([TaskProgress(attempt=attempt, tasks_done=done, tasks_total=TASKS, tasks_running=1_000)])
    assert list(known.progress) == [RegionIndex(0)]
    assert known.progress[RegionIndex(0)].tasks_done == TASKS - 100
    assert len(msgspec.msgpack.encode(known.progress[RegionIndex(0)])) < 500
    assert records == [], "nothing of it is journaled"
