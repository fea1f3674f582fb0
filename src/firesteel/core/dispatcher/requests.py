"""What clients ask of a Dispatcher, what it has done by its process, and what that answers."""

from dataclasses import dataclass
from typing import ClassVar

from firesteel.core.effects import Effect, Event, PeerLost, Received, Started, TimerFired
from firesteel.core.requests import Asked, Request
from firesteel.model.backoff import ExponentialBackoff
from firesteel.model.failures import FailureInfo
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.views import JobResult

STORE_RETRIES = ExponentialBackoff(100, 5_000)
"""Milliseconds between two tries of what the store could not do, and must."""


# ── requests ─────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True, slots=True)
class SubmitJob(Request[JobID]):
    """Answered with the job's id, when the job is durable."""

    graph: JobGraph


@dataclass(frozen=True, slots=True)
class CancelJobRequest(Request[None]):
    """Answered with None when the cancellation is durable with the JobMaster, or the job has ended; with CancelRefused when
    its outputs are being made visible."""

    job_id: JobID


@dataclass(frozen=True, slots=True)
class ReportClientHeartbeat(Request[None]):
    """The client of a job is there. Answered with None."""

    job_id: JobID


@dataclass(frozen=True, slots=True)
class AwaitJobResult(Request[JobResult]):
    """Answered with the JobResult, when the job has ended."""

    job_id: JobID


DispatcherRequest = SubmitJob | CancelJobRequest | ReportClientHeartbeat | AwaitJobResult


# ── stored jobs ──────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True, slots=True)
class LoadJobs(Effect):
    """Read all stored jobs and results; answered by JobsLoaded."""


@dataclass(frozen=True, slots=True)
class JobsLoaded(Event):
    """`results` are (result, whether its cleanup is not done)."""

    graphs: tuple[JobGraph, ...]
    results: tuple[tuple[JobResult, bool], ...]


@dataclass(frozen=True, slots=True)
class StoreJobGraph(Effect):
    """Answered by JobGraphStored."""

    graph: JobGraph


@dataclass(frozen=True, slots=True)
class JobGraphStored(Event):
    """`error` is empty when it is durable."""

    job_id: JobID
    error: str = ""


@dataclass(frozen=True, slots=True)
class StoreJobResult(Effect):
    """Record how a job ended, as dirty: its cleanup is still to be done. Answered by JobResultStored."""

    result: JobResult


@dataclass(frozen=True, slots=True)
class JobResultStored(Event):
    job_id: JobID


@dataclass(frozen=True, slots=True)
class CleanUpJob(Effect):
    """Delete blobs, then graph and journal, and mark the result clean; repeated until it is done."""

    job_id: JobID
    keeps_graph: bool = False
    """The graph and the artifacts it names stay, so that the job can be submitted once more."""


@dataclass(frozen=True, slots=True)
class JobCleanedUp(Event):
    job_id: JobID


@dataclass(frozen=True, slots=True)
class ForgetGraph(Effect):
    """A job that has ended can't be submitted once more from here on: its graph goes, and these artifacts of it. Answered by
    JobForgotten."""

    job_id: JobID
    blobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ForgetResult(Effect):
    """The result has had its retention, and with it the blobs of the rows it returned, and a graph that was kept. Answered
    by JobForgotten."""

    job_id: JobID
    blobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobForgotten(Event):
    """What was to be forgotten of an ended job, its graph or all of it, is gone."""

    job_id: JobID


# ── JobMasters ───────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True, slots=True)
class StartJobMaster(Effect):
    """Start a JobMaster from the job's journal; with `failure` it is to fail the job."""

    needs_journal: ClassVar = True
    graph: JobGraph
    failure: FailureInfo | None = None

    @property
    def job_id(self) -> JobID:
        return self.graph.job_id


@dataclass(frozen=True, slots=True)
class ReleaseJob(Effect):
    """Start what has workers let go of a job that is over, in place of its JobMaster."""

    needs_journal: ClassVar = False
    job_id: JobID


@dataclass(frozen=True, slots=True)
class StopJobMaster(Effect):
    """End the JobMaster's session; answered by nothing, its id may be started again after it."""

    job_id: JobID


@dataclass(frozen=True, slots=True)
class JobMasterBroke(Event):
    """Our bug, or a lost store, has ended the JobMaster of one job."""

    job_id: JobID
    failure: FailureInfo


DispatcherEvent = (
    Started
    | Received
    | TimerFired
    | PeerLost
    | Asked
    | JobsLoaded
    | JobGraphStored
    | JobResultStored
    | JobCleanedUp
    | JobForgotten
    | JobMasterBroke
)
DispatcherEffect = (
    LoadJobs
    | StoreJobGraph
    | StoreJobResult
    | CleanUpJob
    | ForgetGraph
    | ForgetResult
    | StartJobMaster
    | ReleaseJob
    | StopJobMaster
)
"""What only a Dispatcher has done."""
