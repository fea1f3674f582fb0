"""RPC messages: one-way, frozen, each harmless when it is lost, repeated or late.

Two rules make that so. State is sent whole and absolute (requirements, slot reports, what runs), numbered by its sender,
and a receiver ignores a report older than one it has seen. What must not be lost is repeated until it is acknowledged.
"""

import msgspec

from firesteel.model.failures import FailureInfo
from firesteel.model.ids import Address, AllocationID, FencingToken, InstanceID, JobID, RegionAttemptID, ResourceID
from firesteel.model.inquiries import AskWorker, WorkerAnswered
from firesteel.model.message import Message
from firesteel.model.reports import ExecutionReport, SlotOffer, SlotReport, SplitRequest, TaskStateUpdate
from firesteel.model.resources import UNKNOWN_HARDWARE, HardwareDescription, ResourceProfile
from firesteel.model.splits import DrawnSplits
from firesteel.model.states import JobStatus
from firesteel.model.tasks import JobInformation, ResultGroup, SinkCommit, TaskDeployment, TaskProgress
from firesteel.model.views import JobResult, JobView

DEFAULT_QUEUE = "default"
"""Queue of jobs that name none."""


class Leader(msgspec.Struct, frozen=True):
    """The leader of a component, and where to reach it."""

    address: Address
    token: FencingToken


class Envelope(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A message on its way.

    A fenced endpoint takes only envelopes whose `recipient_token` is its own; whoever is told
    something by a leader compares `sender_token` with the leader it knows.
    """

    sender: Address
    recipient: Address
    sender_token: FencingToken | None = None
    recipient_token: FencingToken | None = None
    body: "AnyMessage"


# ── TaskExecutor → ResourceManager ───────────────────────────────────────────────────────────
class RegisterTaskExecutor(Message, frozen=True, omit_defaults=True):
    resource_id: ResourceID
    report: SlotReport
    hardware: HardwareDescription = UNKNOWN_HARDWARE


class TaskExecutorHeartbeat(Message, frozen=True):
    """Answers a HeartbeatRequest of the ResourceManager."""

    resource_id: ResourceID
    instance_id: InstanceID
    report: SlotReport


class SlotRequestAnswer(Message, frozen=True):
    """Answers RequestSlots with the slots as they now are: the asker sees who has them."""

    resource_id: ResourceID
    instance_id: InstanceID
    allocations: tuple[AllocationID, ...]
    report: SlotReport


class NotifySlotAvailable(Message, frozen=True):
    """Slots have become free."""

    resource_id: ResourceID
    instance_id: InstanceID
    report: SlotReport


class DisconnectTaskExecutor(Message, frozen=True):
    """Goodbye of a TaskExecutor, to the ResourceManager and to JobMasters."""

    resource_id: ResourceID
    reason: str


# ── ResourceManager → TaskExecutor ───────────────────────────────────────────────────────────
class TaskExecutorRegistered(Message, frozen=True):
    instance_id: InstanceID


class RequestSlots(Message, frozen=True):
    """Slots by index are to be a job's, each under the name of its allocation."""

    instance_id: InstanceID
    job_id: JobID
    job_master: Leader
    slots: tuple[tuple[int, AllocationID], ...]


class HeartbeatRequest(Message, frozen=True):
    """Question for a sign of life, of the ResourceManager to whom it watches."""


# ── JobMaster ↔ ResourceManager ──────────────────────────────────────────────────────────────
class RegisterJobMaster(Message, frozen=True, omit_defaults=True):
    job_id: JobID
    sequence: int
    requirements: tuple[tuple[ResourceProfile, int], ...]
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    """Jobs of higher priority are given slots first."""
    since_ms: int = 0
    """Time at which the job was created; of two jobs of one priority the older is served first."""


class JobMasterRegistered(Message, frozen=True):
    job_id: JobID


class DeclareRequiredResources(Message, frozen=True, omit_defaults=True):
    """Needs of a job, all of them now: slots by profile. The newest `sequence` counts."""

    job_id: JobID
    sequence: int
    requirements: tuple[tuple[ResourceProfile, int], ...]
    lost: tuple[ResourceID, ...] = ()
    """Workers that the JobMaster has lost since it declared its needs last: what it held there is not met by them."""


class JobMasterHeartbeat(Message, frozen=True):
    job_id: JobID


class DisconnectJobMaster(Message, frozen=True):
    job_id: JobID


class NotEnoughResources(Message, frozen=True, omit_defaults=True):
    """No worker could ever hold a slot of this profile; or none could for a time, and `timed_out` is set."""

    job_id: JobID
    profile: ResourceProfile
    reason: str
    timed_out: bool = False


# ── TaskExecutor → JobMaster ─────────────────────────────────────────────────────────────────
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
    told: str = ""
    """Message for the job's owner, like of another job that writes there."""


class JobReleased(Message, frozen=True):
    """Nothing of the job is left on this worker."""

    resource_id: ResourceID
    job_id: JobID


# ── JobMaster → TaskExecutor ─────────────────────────────────────────────────────────────────
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


class ReleaseJobResources(Message, frozen=True):
    """The job is over: free everything it has here, delete `locations`, answer JobReleased."""

    job_id: JobID
    locations: tuple[str, ...]


# ── who leads: between processes, from where elections are known ─────────────────────────────
class FollowLeader(Message, frozen=True):
    """Answered by a LeaderIs now, and by one at each change while the connection holds."""

    component: str


class UnfollowLeader(Message, frozen=True):
    component: str


class LeaderIs(Message, frozen=True):
    component: str
    leader: Leader | None = None


# ── Dispatcher ↔ JobMaster, in one process ───────────────────────────────────────────────────
class CancelJob(Message, frozen=True):
    job_id: JobID
    reason: str = ""
    """Why, when nobody has asked for it."""


class JobStatusChanged(Message, frozen=True):
    job_id: JobID
    status: JobStatus


class JobTerminated(Message, frozen=True):
    """The job has ended for good and that is durable; cleaning up goes on."""

    result: JobResult
    view: JobView


class JobsUnheard(Message, frozen=True):
    """ResourceManager → Dispatcher: a worker has something of these jobs, and no JobMaster of theirs is registered."""

    job_ids: tuple[JobID, ...]


class JobClosed(Message, frozen=True):
    """Workers hold nothing of the job any more: its JobMaster can go."""

    job_id: JobID


# ── by receiver: each core matches all of its own, and refuses the others by name ────────────────
ToJobMaster = (
    TaskManagerReport
    | UpdateTaskExecutionStates
    | ReportProgress
    | RequestNextInputSplits
    | SinkCommitAnswer
    | JobReleased
    | DisconnectTaskExecutor
    | JobMasterRegistered
    | HeartbeatRequest
    | NotEnoughResources
    | CancelJob
)
FromJobMaster = (
    SubmitTasks
    | AllocatedSlots
    | CancelTasks
    | AcknowledgeTaskStates
    | NextInputSplits
    | DiscardResults
    | CommitSinks
    | ReleaseJobResources
)
"""To a TaskExecutor."""
FromResourceManager = TaskExecutorRegistered | RequestSlots | HeartbeatRequest | AskWorker
"""To a TaskExecutor."""
ToTaskExecutor = FromJobMaster | FromResourceManager
ToResourceManager = (
    RegisterTaskExecutor
    | TaskExecutorHeartbeat
    | SlotRequestAnswer
    | NotifySlotAvailable
    | DisconnectTaskExecutor
    | WorkerAnswered
    | RegisterJobMaster
    | DeclareRequiredResources
    | JobMasterHeartbeat
    | DisconnectJobMaster
)
ToDispatcher = JobStatusChanged | JobTerminated | JobClosed | JobsUnheard
AboutLeaders = FollowLeader | UnfollowLeader | LeaderIs
"""Between processes."""

AnyMessage = ToJobMaster | ToTaskExecutor | ToResourceManager | ToDispatcher | AboutLeaders
