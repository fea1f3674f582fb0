"""The sessions of jobs: one leads at a time, and what leads fits what is stored."""

import pytest

from firesteel.core.dispatcher import requests as r
from firesteel.core.dispatcher.jobentry import JobEntry, JobStage
from firesteel.core.dispatcher.sessions import JobSessions, broken, job_core
from firesteel.core.effects import Started
from firesteel.core.jobmaster.jobmaster import JobMasterCore
from firesteel.core.jobmaster.jobrelease import JobReleaseCore
from firesteel.core.journal.journal import JobState, fold
from firesteel.core.journal.records import JobStatusRecord
from firesteel.core.leadership.events import SessionFailure
from firesteel.core.settings import JobReleaseSettings
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import Address, FencingToken
from firesteel.model.jobgraph import JobGraph
from firesteel.model.messages import Leader
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult
from tests.core.graphs import JOB, job
from tests.core.stories.jobmaster import DISPATCHER, SETTINGS

GRAPH = job("v")
ME = Leader(Address("jm"), FencingToken(2, "jm"))
DOOM = FailureInfo(kind=FailureKind.ENVIRONMENT, message="it broke")
RESULT = JobResult(job_id=JOB, name="a job", status=JobStatus.FAILED, start_time_ms=1, end_time_ms=2, failure=DOOM)


def test_the_next_session_starts_when_all_before_it_have_stopped() -> None:
    sessions: JobSessions[str] = JobSessions()
    assert sessions.begin(JOB, "first")
    assert (sessions.of(JOB), sessions.all()) == ("first", ("first",))
    assert sessions.end(JOB) == "first"
    assert sessions.of(JOB) is None, "it leads no more, though it has not stopped"
    assert not sessions.begin(JOB, "second")
    assert sessions.end(JOB) == "second"
    assert not sessions.begin(JOB, "third")
    assert sessions.leaving(JOB) == ("first", "second")
    assert sessions.all() == ("third", "first", "second")
    assert sessions.gone(JOB, "second") is None
    assert sessions.gone(JOB, "first") == "third"
    assert sessions.all() == ("third",)


def test_nothing_follows_the_last_session() -> None:
    sessions: JobSessions[str] = JobSessions()
    assert sessions.end(JOB) is None
    sessions.begin(JOB, "only")
    sessions.end(JOB)
    assert sessions.gone(JOB, "only") is None
    assert (sessions.all(), sessions.leaving(JOB)) == ((), ())
    assert sessions.begin(JOB, "another")


def leads(
    start: r.StartJobMaster | r.ReleaseJob,
    state: JobState | None,
    result: JobResult | None = None,
    graph: JobGraph | None = GRAPH,
) -> JobMasterCore | JobReleaseCore:
    entry = JobEntry(JOB, "a job", graph, JobStage.RUNNING, result=result)
    core = job_core(
        start,
        entry,
        state,
        settings=lambda graph: SETTINGS,
        release=JobReleaseSettings(1, 2, 3),
        me=ME,
        dispatcher=DISPATCHER,
    )
    assert (core.address, core.token, core.dispatcher) == (ME.address, ME.token, DISPATCHER)
    return core


def state_of(status: JobStatus) -> JobState:
    state = JobState(job_id=JOB)
    fold(state, JobStatusRecord(status=status, at_ms=1), 4)
    return state


def test_a_job_that_goes_on_has_a_job_master() -> None:
    start = r.StartJobMaster(GRAPH, DOOM)
    assert start.needs_journal
    core = leads(start, state_of(JobStatus.RUNNING))
    assert isinstance(core, JobMasterCore)
    core.handle(Started(), 1)
    assert core.view().status is JobStatus.FAILED, "it does not know its doom"


def test_a_job_master_takes_up_the_clean_up_of_its_job() -> None:
    assert isinstance(leads(r.StartJobMaster(GRAPH), state_of(JobStatus.FAILED), RESULT), JobMasterCore)


@pytest.mark.parametrize("start", [r.StartJobMaster(GRAPH), r.ReleaseJob(JOB)], ids=lambda start: type(start).__name__)
def test_a_job_whose_journal_does_not_know_of_its_end_is_released(start: r.StartJobMaster | r.ReleaseJob) -> None:
    core = leads(start, state_of(JobStatus.RUNNING), RESULT)
    assert isinstance(core, JobReleaseCore)
    assert core.job_id == JOB


def test_a_job_is_released_without_a_journal() -> None:
    start = r.ReleaseJob(JOB)
    assert not start.needs_journal
    assert isinstance(leads(start, None), JobReleaseCore)


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (SessionFailure.STORAGE, "the job's journal could not be read or written (OSError: full)"),
        (SessionFailure.STALE, "the job's journal could not be read or written (OSError: full)"),
        (SessionFailure.BUG, "firesteel's own JobMaster failed (OSError: full); please report it with the log"),
    ],
)
def test_why_a_job_is_lost_is_said(failure: SessionFailure, text: str) -> None:
    told = broken(JOB, failure, OSError("full"))
    assert told.job_id == JOB
    assert (told.failure.message, told.failure.exception) == (text, "OSError")
    assert told.failure.kind is FailureKind.NON_RECOVERABLE
