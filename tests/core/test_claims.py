"""The savepoint that a job has claimed: how long it needs it, and what becomes of it with the job's end."""

import msgspec
import pytest

from firesteel.core.checkpoint import history as h
from firesteel.core.checkpoint.claims import claimed_location, ended_claim, subsumed_claim, subsumes_claim
from firesteel.core.dispatcher import requests as r
from firesteel.core.execution.topology import Topology
from firesteel.core.journal.journal import JobState
from firesteel.core.scheduler.backoff import NoRestart
from firesteel.core.scheduler.executions import Executions
from firesteel.core.scheduler.settings import SchedulerSettings
from firesteel.model.checkpoints import CheckpointHistory, CheckpointSettings
from firesteel.model.ids import RegionIndex
from firesteel.model.jobgraph import JobGraph, JobType
from firesteel.model.options import CLAIM_MODE, RESTORE_PATH
from firesteel.model.states import JobStatus
from firesteel.model.streams import ClaimedSavepoint, QueryProgress, claimed_referred
from firesteel.model.tasks import TaskProgress
from tests.core.graphs import JOB, job
from tests.core.test_job_sessions import leads, state_of

SHARED, OWN = CheckpointSettings(shared_dir="/c"), CheckpointSettings()
BEGUN = CheckpointHistory()
UNHEARD = h.completed(h.triggered(BEGUN, 1, 0), 1, (), 1, 5)
CHECKPOINTED = h.claim_subsumed(UNHEARD)
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
        assert subsumed_claim(nobodys, state(CHECKPOINTED)) == ()
        assert ended_claim(nobodys, state(CHECKPOINTED, JobStatus.FINISHED)) == ()


@pytest.mark.parametrize(("known", "goes"), [(BEGUN, False), (UNHEARD, False), (CHECKPOINTED, True), (SAVED, False)])
def test_it_goes_with_the_first_checkpoint_that_subsumes_it(known: CheckpointHistory, goes: bool) -> None:
    expected = ClaimedSavepoint(job_id=JOB, location="/s/claimed")
    assert subsumed_claim(stream(), state(known)) == ((expected.reference(),) if goes else ())


def executions(graph: JobGraph) -> Executions:
    """Of a job nothing of which has been heard of."""
    return Executions(Topology(graph), JobState(job_id=JOB), SchedulerSettings(NoRestart(), 4), lambda record: None)


def tell(known: Executions, *uids: str) -> None:
    """Of queries that have begun."""
    attempt = known.graph.attempt_id(RegionIndex(0))
    known.note_progress([TaskProgress(attempt=attempt, queries=tuple(QueryProgress(uid=uid) for uid in uids))])


def test_a_checkpoint_subsumes_it_once_all_queries_have_begun_where_all_workers_find_it() -> None:
    """A point before is a copy of the savepoint, and a query that never begins leaves no other one."""
    known = executions(stream())
    assert not subsumes_claim(known, SHARED)
    tell(known)
    assert not subsumes_claim(known, SHARED)
    tell(known, "v")
    assert subsumes_claim(known, SHARED)
    assert not subsumes_claim(known, OWN)
    unclaimed = executions(stream("NO_CLAIM"))
    tell(unclaimed, "v")
    assert not subsumes_claim(unclaimed, SHARED)


@pytest.mark.parametrize(
    ("known", "status", "retained", "goes"),
    [
        (BEGUN, JobStatus.FINISHED, "", True),
        (BEGUN, JobStatus.CANCELED, "", False),
        (BEGUN, JobStatus.FAILED, "", False),
        (BEGUN, JobStatus.FAILED, "/c/job/chk-1-ff", True),
        (UNHEARD, JobStatus.CANCELED, "", False),
        (CHECKPOINTED, JobStatus.CANCELED, "", True),
        (SAVED, JobStatus.CANCELED, "", True),
    ],
)
def test_a_job_that_ends_with_nothing_newer_gives_it_back(
    known: CheckpointHistory, status: JobStatus, retained: str, goes: bool
) -> None:
    (reference,) = ended_claim(stream(), state(known, status, retained))
    assert claimed_referred(reference) == ClaimedSavepoint(
        job_id=JOB, location="/s/claimed", is_given_back=not goes, newer=retained, sinks=("v",) if retained else ()
    )


def test_other_locations_are_none() -> None:
    assert claimed_referred("/some/where") is None


def test_who_has_a_job_released_knows_it_from_its_graph() -> None:
    core = leads(r.ReleaseJob(JOB), state_of(JobStatus.FINISHED), graph=stream())
    assert ClaimedSavepoint(job_id=JOB, location="/s/claimed").reference() in core._undeleted  # type: ignore[union-attr]
