"""RPC messages: one-way, frozen, each harmless when it is lost, repeated or late.

Two rules make that so. State is sent whole and absolute (requirements, slot reports, what runs), numbered by its sender,
and a receiver ignores a report older than one it has seen. What must not be lost is repeated until it is acknowledged.

A module has what one receiver takes, and the union of it, which its core matches: what is added to one does not
type-check until it is handled. All are imported from here.
"""

from firesteel.model.messages.dispatcher import JobClosed, JobStatusChanged, JobsUnheard, JobTerminated, ToDispatcher
from firesteel.model.messages.envelope import AnyMessage, Envelope
from firesteel.model.messages.jobmaster import (
    CancelJob,
    JobMasterRegistered,
    JobReleased,
    NotEnoughResources,
    ReportProgress,
    RequestNextInputSplits,
    SinkCommitAnswer,
    TaskManagerReport,
    ToJobMaster,
    UpdateTaskExecutionStates,
)
from firesteel.model.messages.leadership import AboutLeaders, FollowLeader, Leader, LeaderIs, UnfollowLeader
from firesteel.model.messages.resourcemanager import (
    DEFAULT_QUEUE,
    DeclareRequiredResources,
    DisconnectJobMaster,
    JobMasterHeartbeat,
    NotifySlotAvailable,
    RegisterJobMaster,
    RegisterTaskExecutor,
    SlotRequestAnswer,
    TaskExecutorHeartbeat,
    ToResourceManager,
)
from firesteel.model.messages.shared import DisconnectTaskExecutor, HeartbeatRequest
from firesteel.model.messages.taskexecutor import (
    AcknowledgeTaskStates,
    AllocatedSlots,
    CancelTasks,
    CommitSinks,
    DiscardResults,
    FromJobMaster,
    FromResourceManager,
    NextInputSplits,
    ReleaseJobResources,
    RequestSlots,
    SubmitTasks,
    TaskExecutorRefused,
    TaskExecutorRegistered,
    ToTaskExecutor,
)

__all__ = [
    "DEFAULT_QUEUE",
    "AboutLeaders",
    "AcknowledgeTaskStates",
    "AllocatedSlots",
    "AnyMessage",
    "CancelJob",
    "CancelTasks",
    "CommitSinks",
    "DeclareRequiredResources",
    "DiscardResults",
    "DisconnectJobMaster",
    "DisconnectTaskExecutor",
    "Envelope",
    "FollowLeader",
    "FromJobMaster",
    "FromResourceManager",
    "HeartbeatRequest",
    "JobClosed",
    "JobMasterHeartbeat",
    "JobMasterRegistered",
    "JobReleased",
    "JobStatusChanged",
    "JobTerminated",
    "JobsUnheard",
    "Leader",
    "LeaderIs",
    "NextInputSplits",
    "NotEnoughResources",
    "NotifySlotAvailable",
    "RegisterJobMaster",
    "RegisterTaskExecutor",
    "ReleaseJobResources",
    "ReportProgress",
    "RequestNextInputSplits",
    "RequestSlots",
    "SinkCommitAnswer",
    "SlotRequestAnswer",
    "SubmitTasks",
    "TaskExecutorHeartbeat",
    "TaskExecutorRefused",
    "TaskExecutorRegistered",
    "TaskManagerReport",
    "ToDispatcher",
    "ToJobMaster",
    "ToResourceManager",
    "ToTaskExecutor",
    "UnfollowLeader",
    "UpdateTaskExecutionStates",
]
