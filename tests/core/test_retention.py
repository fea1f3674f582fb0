"""Whether the last checkpoint of a job stays, and where: as Flink's options say, and for nobody who has none."""

import msgspec
import pytest

from firesteel.core.checkpoint import history as h
from firesteel.core.checkpoint.retention import retained_location
from firesteel.core.dispatcher import requests as r
from firesteel.core.journal.endedattempts import EndedAttempt, Reached
from firesteel.core.journal.journal import JobState, fold
from firesteel.core.journal.records import JobStatusRecord
from firesteel.core.scheduler.commit import undeleted
from firesteel.model.checkpoints import CheckpointHistory, CheckpointRetention, CheckpointSettings
from firesteel.model.ids import RegionIndex, ResourceID
from firesteel.model.jobgraph import JobType
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.streams import RETAINED_NAME
from tests.core.graphs import JOB, job
from tests.core.test_job_sessions import GRAPH, RESULT, leads, state_of

STREAM = msgspec.structs.replace(job("v"), job_type=JobType.STREAMING)
SHARED = CheckpointSettings(shared_dir="/c")
PLACE = f"/c/{JOB}/chk-1-ff"


def ran(reached: Reached = Reached.RAN) -> JobState:
    """The state of a job whose only attempt has come so far."""
    ended = EndedAttempt(0, ExecutionState.FAILED, ResourceID("w1"), 1, 2, reached)
    return JobState(job_id=JOB, history={RegionIndex(0): (ended,)})


@pytest.mark.parametrize(
    ("retention", "retained"),
    [
        (CheckpointRetention.DELETE_ON_CANCELLATION, [JobStatus.FAILED]),
        (CheckpointRetention.RETAIN_ON_CANCELLATION, [JobStatus.FAILED, JobStatus.CANCELED]),
        (CheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS, []),
    ],
)
def test_retention_is_flinks(retention: CheckpointRetention, retained: list[JobStatus]) -> None:
    settings = msgspec.structs.replace(SHARED, retention=retention)
    found = [each for each in JobStatus if retained_location(ran(), STREAM, settings, each, 255)]
    assert sorted(found, key=str) == sorted(retained, key=str)


def test_a_retained_checkpoint_has_the_next_number_and_tells_when_its_job_has_ended() -> None:
    assert retained_location(ran(), STREAM, SHARED, JobStatus.FAILED, 255) == PLACE
    name = RETAINED_NAME.fullmatch(PLACE.rpartition("/")[2])
    assert name is not None
    assert int(name.group(1), 16) == 255


def test_nothing_stays_of_a_job_that_has_nothing_that_all_workers_see() -> None:
    assert not retained_location(ran(), STREAM, CheckpointSettings(), JobStatus.FAILED, 255)
    assert not retained_location(ran(), job("v"), SHARED, JobStatus.FAILED, 255), "it is a batch job"
    for reached in (Reached.NOTHING, Reached.UNHEARD):
        assert not retained_location(ran(reached), STREAM, SHARED, JobStatus.FAILED, 255)
    assert not retained_location(JobState(job_id=JOB), STREAM, SHARED, JobStatus.FAILED, 255)


def test_what_stays_is_one_more_checkpoint() -> None:
    before = h.completed(h.triggered(CheckpointHistory(), 1, 0), 1, (), 1, 5)
    after = h.ended(before, PLACE, 9)
    assert (after.last_id, after.completed, len(after.newest)) == (2, 2, 2)
    last = after.latest_completed
    assert last is not None
    assert (last.checkpoint_id, last.retained, after.retained) == (2, PLACE, (last,))
    assert h.ended(before, "", 9) == msgspec.structs.replace(before, retained=())


def test_nobody_is_asked_to_delete_what_stays() -> None:
    state = ran()
    fold(state, JobStatusRecord(status=JobStatus.FAILED, at_ms=1), 4)
    assert undeleted(state, STREAM) == (f"checkpoints:{JOB}:",)
    fold(state, JobStatusRecord(status=JobStatus.FAILED, at_ms=1, retained=PLACE), 4)
    assert (state.retained, undeleted(state, STREAM)) == (PLACE, ())


def test_who_has_a_job_released_knows_what_stays_from_its_journal_or_its_result() -> None:
    ended = state_of(JobStatus.FAILED)
    ended.retained = PLACE
    stays = msgspec.structs.replace(RESULT, retained=PLACE)
    assert leads(r.ReleaseJob(JOB), ended)._retained == PLACE  # type: ignore[union-attr]
    assert leads(r.ReleaseJob(JOB), None, stays)._retained == PLACE  # type: ignore[union-attr]
    assert leads(r.ReleaseJob(JOB), state_of(JobStatus.FAILED))._retained == ""  # type: ignore[union-attr]


def test_nobody_knows_what_stays_of_a_job_without_journal_and_result_or_whose_job_master_broke() -> None:
    assert leads(r.ReleaseJob(JOB), None)._retained is None  # type: ignore[union-attr]
    broke = state_of(JobStatus.RUNNING)
    broke.history = ran().history
    core = leads(r.ReleaseJob(JOB), broke, RESULT)
    assert core._retained is None  # type: ignore[union-attr]
    assert not core._undeleted, f"nor what of {GRAPH.job_id} is to be deleted"  # type: ignore[union-attr]
