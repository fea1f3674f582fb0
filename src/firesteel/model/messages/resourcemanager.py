"""To the ResourceManager: of TaskExecutors, about their slots, and of JobMasters, about their needs."""

from firesteel.model.ids import AllocationID, InstanceID, JobID, ResourceID
from firesteel.model.inquiries import WorkerAnswered
from firesteel.model.message import Message
from firesteel.model.messages.shared import DisconnectTaskExecutor
from firesteel.model.metric import MetricValue
from firesteel.model.reports import SlotReport
from firesteel.model.resources import (
    UNKNOWN_HARDWARE,
    UNTOLD_STORAGE,
    HardwareDescription,
    ResourceProfile,
    ResultsStorage,
)

DEFAULT_QUEUE = "default"
"""Queue of jobs that name none."""


class RegisterTaskExecutor(Message, frozen=True, omit_defaults=True):
    resource_id: ResourceID
    report: SlotReport
    hardware: HardwareDescription = UNKNOWN_HARDWARE
    results: ResultsStorage = UNTOLD_STORAGE


class TaskExecutorHeartbeat(Message, frozen=True, omit_defaults=True):
    """Answers a HeartbeatRequest of the ResourceManager."""

    resource_id: ResourceID
    instance_id: InstanceID
    report: SlotReport
    metrics: tuple[MetricValue, ...] = ()
    """Figures that the worker has measured last, all of them; at most VALUES_MAX."""


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


class RegisterJobMaster(Message, frozen=True, omit_defaults=True):
    job_id: JobID
    sequence: int
    requirements: tuple[tuple[ResourceProfile, int], ...]
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    """Jobs of higher priority are given slots first."""
    since_ms: int = 0
    """Time at which the job was created; of two jobs of one priority the older is served first."""


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
