"""The sessions of a Dispatcher's jobs: which of them lead, with what core, and what is said of one that broke."""

from collections.abc import Callable
from typing import Generic, TypeVar

from firesteel.core.checkpoint.claims import ended_claim
from firesteel.core.dispatcher import requests as r
from firesteel.core.dispatcher.jobentry import JobEntry
from firesteel.core.jobmaster.jobmaster import JobMasterCore
from firesteel.core.jobmaster.jobrelease import JobReleaseCore
from firesteel.core.journal.journal import JobState
from firesteel.core.leadership.events import SessionFailure
from firesteel.core.scheduler.commit import undeleted
from firesteel.core.settings import JobMasterSettings, JobReleaseSettings
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.messages import Leader

S = TypeVar("S")


class JobSessions(Generic[S]):
    """Sessions of each job: the one that leads it, or is to, and those before it that have not stopped yet.

    The next one starts when none of those is left: what they have under way may be writes.
    """

    def __init__(self) -> None:
        self._newest: dict[JobID, S] = {}
        self._leaving: dict[JobID, list[S]] = {}

    def begin(self, job_id: JobID, session: S) -> bool:
        """Whether it may start now; else `gone` says when."""
        assert job_id not in self._newest, f"job {job_id} has a session"
        self._newest[job_id] = session
        return job_id not in self._leaving

    def end(self, job_id: JobID) -> S | None:
        """The session that is to stop, if there is one. It leads no more."""
        session = self._newest.pop(job_id, None)
        if session is not None:
            self._leaving.setdefault(job_id, []).append(session)
        return session

    def gone(self, job_id: JobID, session: S) -> S | None:
        """A session has stopped. The one that may start now, if one has waited for that."""
        leaving = self._leaving[job_id]
        leaving.remove(session)
        if leaving:
            return None
        del self._leaving[job_id]
        return self._newest.get(job_id)

    def of(self, job_id: JobID) -> S | None:
        """The session that leads a job, or is to."""
        return self._newest.get(job_id)

    def leaving(self, job_id: JobID) -> tuple[S, ...]:
        """Those that have not stopped yet."""
        return tuple(self._leaving.get(job_id, ()))

    def all(self) -> tuple[S, ...]:
        return (*self._newest.values(), *(session for known in self._leaving.values() for session in known))


def job_core(
    start: r.StartJobMaster | r.ReleaseJob,
    job: JobEntry | None,
    state: JobState | None,
    *,
    settings: Callable[[JobGraph], JobMasterSettings],
    release: JobReleaseSettings,
    me: Leader,
    dispatcher: Leader,
) -> JobMasterCore | JobReleaseCore:
    """What leads a job, as its Dispatcher knows it, and from the `state` that its journal was read to; None where there
    is no journal any more.

    A journal that does not know of the end that is stored is of a JobMaster that broke for good, under a former
    Dispatcher: the job must not go on. Without a journal workers still let go of what they know themselves.
    """
    if isinstance(start, r.StartJobMaster):
        assert job is not None, "who has a JobMaster is known"
        assert state is not None, "a JobMaster has a journal"
        if job.result is None or state.status.is_globally_terminal:
            return JobMasterCore(start.graph, state, settings(start.graph), me, dispatcher, doom=start.failure)
    retained = _retained(job, state)
    graph = job.graph if job is not None and retained is not None else None
    left = undeleted(state, graph) if state is not None else None
    if left is not None and state is not None and job is not None and job.graph is not None:
        left += ended_claim(job.graph, state)
    return JobReleaseCore(start.job_id, release, me, dispatcher, undeleted=left, retained=retained)


def _retained(job: JobEntry | None, state: JobState | None) -> str | None:
    """Where the last checkpoint of a job that is over stays; None where nobody knows, as of one whose JobMaster broke."""
    if state is not None:
        return state.retained if state.status.is_globally_terminal else None
    return job.result.retained if job is not None and job.result is not None else None


def broken(job_id: JobID, failure: SessionFailure, error: Exception) -> r.JobMasterBroke:
    """What broke one JobMaster for good ends its job, not the process."""
    name = type(error).__name__
    if failure is SessionFailure.BUG:
        text = f"firesteel's own JobMaster failed ({name}: {error}); please report it with the log"
    else:
        text = f"the job's journal could not be read or written ({name}: {error})"
    return r.JobMasterBroke(job_id, FailureInfo(kind=FailureKind.NON_RECOVERABLE, message=text, exception=name))
