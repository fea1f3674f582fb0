"""To a TaskExecutor: of the ResourceManager, who registers it and asks it for slots, and of JobMasters, whose work it does."""

from firesteel.model.checkpoints import CheckpointOrder
from firesteel.model.ids import AllocationID, InstanceID, JobID, RegionAttemptID
from firesteel.model.inquiries import AskWorker
from firesteel.model.message import Message
from firesteel.model.messages.leadership import Leader
from firesteel.model.messages.shared import HeartbeatRequest
from firesteel.model.splits import DrawnSplits
from firesteel.model.streams import SavepointOrder
from firesteel.model.tasks import JobInformation, ResultGroup, SinkCommit, TaskDeployment


class TaskExecutorRegistered(Message, frozen=True):
    instance_id: InstanceID


class TaskExecutorRefused(Message, frozen=True):
    """Answers RegisterTaskExecutor: the worker is of no use to this cluster, and is to end."""

    reason: str


class RequestSlots(Message, frozen=True):
    """Slots by index are to be a job's, each under the name of its allocation."""

    instance_id: InstanceID
    job_id: JobID
    job_master: Leader
    slots: tuple[tuple[int, AllocationID], ...]


class AllocatedSlots(Message, frozen=True):
    """The slots the JobMaster holds at this worker, whole: answers an offer, or is a heartbeat.

    A slot the worker offered and does not find here is not wanted. `offer_sequence` is the newest report the JobMaster
    has seen, so that slots offered later are left alone; `sequence` numbers these messages, so that a late one does not
    take back what a newer one gave.
    """

    job_id: JobID
    sequence: int
    offer_sequence: int
    held: tuple[AllocationID, ...]
    wants_report: bool = False


class SubmitTasks(Message, frozen=True, omit_defaults=True):
    """`groups` has those that the deployments name, unless they were sent before: a worker that lacks one leaves its
    deployments alone and reports, and is sent both."""

    job: JobInformation
    deployments: tuple[TaskDeployment, ...]
    groups: tuple[ResultGroup, ...] = ()


class CancelTasks(Message, frozen=True):
    job_id: JobID
    attempts: tuple[RegionAttemptID, ...]


class AcknowledgeTaskStates(Message, frozen=True):
    job_id: JobID
    attempts: tuple[RegionAttemptID, ...]


class NextInputSplits(Message, frozen=True):
    """Answers a SplitRequest, when the draw is durable."""

    job_id: JobID
    attempt: RegionAttemptID
    drawn: DrawnSplits


class DiscardResults(Message, frozen=True):
    """Stored results and staged outputs nobody will read."""

    job_id: JobID
    locations: tuple[str, ...]


class CommitSinks(Message, frozen=True):
    job_id: JobID
    commits: tuple[SinkCommit, ...]


class StopTasks(Message, frozen=True):
    """Have streaming attempts finish: their queries stop, with `drain` when they have read what is there. Repeated until
    they have."""

    job_id: JobID
    attempts: tuple[RegionAttemptID, ...]
    drain: bool = False


class TakeSavepoint(Message, frozen=True):
    """Answered by SavepointAnswer, also when it comes again."""

    job_id: JobID
    order: SavepointOrder


class TriggerCheckpoint(Message, frozen=True):
    """Answered by AcknowledgeCheckpoint, also when it comes again."""

    job_id: JobID
    order: CheckpointOrder


class ReleaseJobResources(Message, frozen=True):
    """The job is over: free everything it has here, delete `locations`, answer JobReleased.

    Before its checkpoints are deleted the last one is put to `retained`, unless that is empty. None: nobody knows any more how
    the job has ended, so it stays, unless it was said before that none is to.
    """

    job_id: JobID
    locations: tuple[str, ...]
    retained: str | None = ""


FromJobMaster = (
    SubmitTasks
    | AllocatedSlots
    | CancelTasks
    | AcknowledgeTaskStates
    | NextInputSplits
    | DiscardResults
    | CommitSinks
    | StopTasks
    | TakeSavepoint
    | TriggerCheckpoint
    | ReleaseJobResources
)
"""To a TaskExecutor."""

FromResourceManager = TaskExecutorRegistered | TaskExecutorRefused | RequestSlots | HeartbeatRequest | AskWorker
"""To a TaskExecutor."""

ToTaskExecutor = FromJobMaster | FromResourceManager
