"""To a JobMaster: of TaskExecutors, about what they run, of the ResourceManager, and of the Dispatcher."""

import msgspec

from firesteel.model.checkpoints import QueryPoint
from firesteel.model.failures import FailureInfo
from firesteel.model.ids import JobID, ResourceID
from firesteel.model.message import Message
from firesteel.model.messages.shared import DisconnectTaskExecutor, HeartbeatRequest
from firesteel.model.reports import ExecutionReport, SlotOffer, SplitRequest, TaskStateUpdate
from firesteel.model.resources import ResourceProfile
from firesteel.model.tasks import TaskProgress


class JobMasterRegistered(Message, frozen=True, omit_defaults=True):
    job_id: JobID
    backends: int = 0
    """Spark backends that the registered workers can have; 0: not told."""


class NotEnoughResources(Message, frozen=True, omit_defaults=True):
    """No worker could ever hold a slot of this profile; or none could for a time, and `timed_out` is set."""

    job_id: JobID
    profile: ResourceProfile
    reason: str
    timed_out: bool = False


class TaskManagerReport(Message, frozen=True):
    """All that a worker has of a job: registers it, offers its slots, answers heartbeats. `executions` are the
    attempts it runs, `updates` the terminal states not acknowledged yet."""

    resource_id: ResourceID
    job_id: JobID
    sequence: int
    slots: tuple[SlotOffer, ...]
    executions: tuple[ExecutionReport, ...]
    updates: tuple[TaskStateUpdate, ...] = ()
    progress: tuple[TaskProgress, ...] = ()
    wants: tuple[SplitRequest, ...] = ()


class UpdateTaskExecutionStates(Message, frozen=True):
    resource_id: ResourceID
    job_id: JobID
    sequence: int
    updates: tuple[TaskStateUpdate, ...]


class ReportProgress(Message, frozen=True):
    resource_id: ResourceID
    job_id: JobID
    progress: tuple[TaskProgress, ...]


class RequestNextInputSplits(Message, frozen=True):
    """Also part of each report, for when this one is lost."""

    resource_id: ResourceID
    job_id: JobID
    wants: tuple[SplitRequest, ...]


class SinkCommitAnswer(Message, frozen=True):
    """A CommitSinks was done, or could not be."""

    resource_id: ResourceID
    job_id: JobID
    commit_id: str
    failure: FailureInfo | None = None
    note: str = msgspec.field(default="", name="told")
    """Message for the job's owner, like of another job that writes there."""
    ignored: bool = False
    """None of its rows are there, as its mode says where there is data."""


class SavepointAnswer(Message, frozen=True):
    """A savepoint was written, or could not be."""

    resource_id: ResourceID
    job_id: JobID
    savepoint_id: str
    failure: FailureInfo | None = None


class AcknowledgeCheckpoint(Message, frozen=True):
    """Where the queries of this worker have come to, or why that can't be told. Answers TriggerCheckpoint."""

    resource_id: ResourceID
    job_id: JobID
    checkpoint_id: int
    points: tuple[QueryPoint, ...] = ()
    failure: FailureInfo | None = None


class JobReleased(Message, frozen=True):
    """Nothing of the job is left on this worker."""

    resource_id: ResourceID
    job_id: JobID


class CancelJob(Message, frozen=True):
    job_id: JobID
    reason: str = ""
    """Why, when nobody has asked for it."""


ToJobMaster = (
    TaskManagerReport
    | UpdateTaskExecutionStates
    | ReportProgress
    | RequestNextInputSplits
    | SinkCommitAnswer
    | SavepointAnswer
    | AcknowledgeCheckpoint
    | JobReleased
    | DisconnectTaskExecutor
    | JobMasterRegistered
    | HeartbeatRequest
    | NotEnoughResources
    | CancelJob
)
