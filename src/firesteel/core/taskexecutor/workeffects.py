"""What a TaskExecutor has done by its own process, and what that process tells it."""

from dataclasses import dataclass

from firesteel.core.effects import Effect, Event, LeaderChanged, PeerLost, Received, Started, TimerFired
from firesteel.model.checkpoints import CheckpointOrder, QueryPoint
from firesteel.model.failures import FailureInfo
from firesteel.model.ids import JobID, RegionAttemptID
from firesteel.model.inquiries import AnyAnswer, AnyInquiry
from firesteel.model.messages import Leader
from firesteel.model.metric import MetricValue
from firesteel.model.reports import SplitRequest, TaskStateUpdate
from firesteel.model.splits import DrawnSplits
from firesteel.model.streams import SavepointOrder
from firesteel.model.tasks import Committed, JobInformation, SinkCommit, TaskDeployment, TaskProgress


# ── events from the worker itself ────────────────────────────────────────────────────────────
@dataclass(frozen=True, slots=True)
class TasksChanged(Event):
    """Attempts run, or have ended. Each started attempt ends in exactly one terminal update."""

    updates: tuple[TaskStateUpdate, ...]


@dataclass(frozen=True, slots=True)
class TaskProgressed(Event):
    progress: TaskProgress


@dataclass(frozen=True, slots=True)
class SplitsWanted(Event):
    """A running attempt waits for input splits; answered by GiveSplits, unless it ends before."""

    request: SplitRequest


@dataclass(frozen=True, slots=True)
class SinkCommitDone(Event):
    """Answers CommitSink."""

    job_id: JobID
    commit_id: str
    failure: FailureInfo | None
    done: Committed
    """How it ended, unless it has failed."""


@dataclass(frozen=True, slots=True)
class SavepointDone(Event):
    """Answers TakeSavepoint."""

    job_id: JobID
    savepoint_id: str
    failure: FailureInfo | None = None


@dataclass(frozen=True, slots=True)
class CheckpointDone(Event):
    """Answers TakeCheckpoint."""

    job_id: JobID
    checkpoint_id: int
    points: tuple[QueryPoint, ...] = ()
    failure: FailureInfo | None = None


@dataclass(frozen=True, slots=True)
class JobReleaseDone(Event):
    """Answers ReleaseJob."""

    job_id: JobID


@dataclass(frozen=True, slots=True)
class LeftoversFound(Event):
    """Workers that were killed have left something of these jobs, which this one is to clear. Repeated until it has."""

    job_ids: tuple[JobID, ...]


@dataclass(frozen=True, slots=True)
class InquiryAnswered(Event):
    """Answers AnswerInquiry."""

    asker: Leader
    number: int
    answer: AnyAnswer


@dataclass(frozen=True, slots=True)
class Stopping(Event):
    """The worker is being shut down: say goodbye."""

    reason: str


# ── effects on the worker itself ─────────────────────────────────────────────────────────────
@dataclass(frozen=True, slots=True)
class StartTasks(Effect):
    """Run attempts; answered by TasksChanged."""

    job: JobInformation
    deployments: tuple[TaskDeployment, ...]


@dataclass(frozen=True, slots=True)
class CancelTask(Effect):
    """End an attempt; answered by its terminal update."""

    attempt: RegionAttemptID


@dataclass(frozen=True, slots=True)
class GiveSplits(Effect):
    """Answers SplitsWanted."""

    attempt: RegionAttemptID
    drawn: DrawnSplits


@dataclass(frozen=True, slots=True)
class Discard(Effect):
    """Delete directories; not answered, what fails is found again when the job is released."""

    locations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommitSink(Effect):
    job_id: JobID
    commit: SinkCommit


@dataclass(frozen=True, slots=True)
class StopTask(Effect):
    """Have a streaming attempt finish; answered by its terminal update. May come again."""

    attempt: RegionAttemptID
    drain: bool


@dataclass(frozen=True, slots=True)
class TakeSavepoint(Effect):
    """Answered by SavepointDone."""

    job_id: JobID
    order: SavepointOrder


@dataclass(frozen=True, slots=True)
class TakeCheckpoint(Effect):
    """Look where queries have come to; answered by CheckpointDone."""

    job_id: JobID
    order: CheckpointOrder


@dataclass(frozen=True, slots=True)
class ReleaseJob(Effect):
    """Delete these directories and whatever is cached for the job."""

    job_id: JobID
    locations: tuple[str, ...]
    is_given_up: bool = False
    """No master has been heard of for too long. The job may well go on elsewhere: what others share stays."""
    retained: str | None = ""
    """Where the last checkpoint of a job that is over stays, empty where none does; None: nobody knows."""


@dataclass(frozen=True, slots=True)
class GiveUp(Effect):
    """End the worker, which is of no use to anybody."""

    reason: str
    is_refused: bool = False
    """The ResourceManager has said so."""


@dataclass(frozen=True, slots=True)
class WatchLeader(Effect):
    """Tell me of the leader of this component from now on, and who it is."""

    component: str


@dataclass(frozen=True, slots=True)
class UnwatchLeader(Effect):
    component: str


@dataclass(frozen=True, slots=True)
class AnswerInquiry(Effect):
    """Look it up on this worker; answered by InquiryAnswered."""

    asker: Leader
    number: int
    inquiry: AnyInquiry


@dataclass(frozen=True, slots=True)
class Measured(Event):
    """The worker's figures, all of them now; at most VALUES_MAX."""

    values: tuple[MetricValue, ...]


TaskExecutorEvent = (
    Started
    | Received
    | TimerFired
    | PeerLost
    | LeaderChanged
    | TasksChanged
    | TaskProgressed
    | SplitsWanted
    | SinkCommitDone
    | SavepointDone
    | CheckpointDone
    | JobReleaseDone
    | LeftoversFound
    | InquiryAnswered
    | Measured
    | Stopping
)
TaskExecutorEffect = (
    StartTasks
    | CancelTask
    | GiveSplits
    | Discard
    | CommitSink
    | StopTask
    | TakeSavepoint
    | TakeCheckpoint
    | ReleaseJob
    | GiveUp
    | WatchLeader
    | UnwatchLeader
    | AnswerInquiry
)
"""What only a TaskExecutor has done."""
