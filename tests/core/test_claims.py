"""The savepoint that a job has claimed: how long it needs it, and what becomes of it with the job's end."""

import msgspec
import pytest

from firesteel.core.checkpoint import history as h
from firesteel.core.checkpoint.claims import claimed_location, ended_claim, subsumed_claim
from firesteel.core.dispatcher import requests as r
from firesteel.core.journal.journal import JobState
from firesteel.model.checkpoints import CheckpointHistory, CheckpointSettings
from firesteel.model.jobgraph import JobGraph, JobType
from firesteel.model.options import CLAIM_MODE, RESTORE_PATH
from firesteel.model.states import JobStatus
from firesteel.model.streams import ClaimedSavepoint, claimed_referred
from tests.core.graphs import JOB, job
from tests.core.test_job_sessions import leads, state_of

SHARED, OWN = CheckpointSettings(shared_dir="/c"), CheckpointSettings()
BEGUN = CheckpointHistory()
CHECKPOINTED = h.completed(h.triggered(BEGUN, 1, 0), 1, (), 1, 5)
SAVED = h.saved(BEGUN, "/s/own", 1, 2)


def stream(mode: str = "CLAIM", path: str = "/s/claimed") -> JobGraph:
    configuration = {CLAIM_MODE.key: mode} | ({RESTORE_PATH.key: path} if path else {})
    return msgspec.structs.replace(job("v"), job_type=JobType.STREAMING, configuration=configuration)


def state(known: CheckpointHistory, status: JobStatus = JobStatus.RUNNING, retained: str = "") -> JobState:
    return JobState(job_id=JOB, status=status, checkpoints=known, retained=retained)


def test_who_owns_a_savepoint() -> None:
    assert claimed_location(stream()) == "/s/claimed"
    assert not claimed_location(stream("NO_CLAIM"))
    assert not claimed_location(stream(path=""))
    assert not claimed_location(msgspec.structs.replace(stream(), job_type=JobType.BATCH))
    for nobodys in (stream("NO_CLAIM"), stream(path="")):
        assert subsumed_claim(nobodys, state(CHECKPOINTED), SHARED) == ()
        assert ended_claim(nobodys, state(CHECKPOINTED, JobStatus.FINISHED), SHARED) == ()


@pytest.mark.parametrize(
    ("known", "settings", "goes"),
    [(BEGUN, SHARED, False), (CHECKPOINTED, SHARED, True), (CHECKPOINTED, OWN, False), (SAVED, SHARED, False)],
)
def test_it_goes_with_the_first_checkpoint_that_all_workers_find(
    known: CheckpointHistory, settings: CheckpointSettings, goes: bool
) -> None:
    expected = ClaimedSavepoint(job_id=JOB, location="/s/claimed")
    assert subsumed_claim(stream(), state(known), settings) == ((expected.reference(),) if goes else ())


@pytest.mark.parametrize(
    ("known", "settings", "status", "retained", "goes"),
    [
        (BEGUN, SHARED, JobStatus.FINISHED, "", True),
        (BEGUN, SHARED, JobStatus.CANCELED, "", False),
        (BEGUN, SHARED, JobStatus.FAILED, "", False),
        (BEGUN, SHARED, JobStatus.FAILED, "/c/job/chk-1-ff", True),
        (CHECKPOINTED, SHARED, JobStatus.CANCELED, "", True),
        (CHECKPOINTED, OWN, JobStatus.FAILED, "", False),
        (SAVED, OWN, JobStatus.CANCELED, "", True),
    ],
)
def test_a_job_that_ends_with_nothing_newer_gives_it_back(
    known: CheckpointHistory, settings: CheckpointSettings, status: JobStatus, retained: str, goes: bool
) -> None:
    (reference,) = ended_claim(stream(), state(known, status, retained), settings)
    assert claimed_referred(reference) == ClaimedSavepoint(
        job_id=JOB, location="/s/claimed", is_given_back=not goes, newer=retained, sinks=("v",) if retained else ()
    )


def test_other_locations_are_none() -> None:
    assert claimed_referred("/some/where") is None


def test_who_has_a_job_released_knows_it_from_its_graph() -> None:
    core = leads(r.ReleaseJob(JOB), state_of(JobStatus.FINISHED), graph=stream())
    assert ClaimedSavepoint(job_id=JOB, location="/s/claimed").reference() in core._undeleted  # type: ignore[union-attr]
