"""Bodies about checkpoints, savepoints and other operations that take their time; applications; rescaling."""

from enum import Enum

import msgspec

from firesteel.rest.schema.jobs import JobDetails, QueueStatus, SerializedThrowable


class SavepointFormat(Enum):
    CANONICAL = "CANONICAL"
    NATIVE = "NATIVE"


class CheckpointType(Enum):
    CONFIGURED = "CONFIGURED"
    FULL = "FULL"
    INCREMENTAL = "INCREMENTAL"


class SavepointTriggerRequestBody(
    msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True
):
    target_directory: str | None = None
    cancel_job: bool = False
    format_type: SavepointFormat = msgspec.field(default=SavepointFormat.CANONICAL, name="formatType")
    trigger_id: str | None = msgspec.field(default=None, name="triggerId")


class StopWithSavepointRequestBody(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    target_directory: str | None = None
    drain: bool = False
    format_type: SavepointFormat = SavepointFormat.CANONICAL
    trigger_id: str | None = None


class CheckpointTriggerRequestBody(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    checkpoint_type: CheckpointType = CheckpointType.CONFIGURED
    trigger_id: str | None = None


class SavepointDisposalRequest(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    savepoint_path: str


class TriggerResponse(msgspec.Struct, frozen=True, rename="kebab"):
    request_id: str


class SavepointInfo(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """Place of the savepoint, or why there is none; with neither, the operation has nothing to tell."""

    location: str | None = None
    failure_cause: SerializedThrowable | None = None


class CheckpointInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    checkpoint_id: int | None = None
    failure_cause: SerializedThrowable | None = None


class SavepointOperation(msgspec.Struct, frozen=True):
    status: QueueStatus
    operation: SavepointInfo | None


class CheckpointOperation(msgspec.Struct, frozen=True):
    status: QueueStatus
    operation: CheckpointInfo | None


# ── applications: every job is one ───────────────────────────────────────────────────────────
class ApplicationDetails(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    id: str
    name: str
    start_time: int
    end_time: int
    duration: int
    status: str
    jobs: dict[str, int]
    """Number of jobs by status."""


class MultipleApplicationsDetails(msgspec.Struct, frozen=True):
    applications: list[ApplicationDetails]


class ApplicationDetailsInfo(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    id: str
    name: str
    status: str
    start_time: int
    end_time: int
    duration: int
    timestamps: dict[str, int]
    jobs: list[JobDetails]


class ApplicationException(msgspec.Struct, frozen=True, rename="camel"):
    exception_name: str
    stacktrace: str
    timestamp: int
    job_id: str


class ApplicationExceptionHistory(msgspec.Struct, frozen=True):
    entries: list[ApplicationException]


class ApplicationExceptionsInfoWithHistory(msgspec.Struct, frozen=True, rename="camel"):
    exception_history: ApplicationExceptionHistory


# ── rescaling, which there is none of ────────────────────────────────────────────────────────
class RescalesCounts(msgspec.Struct, frozen=True, rename="camel"):
    ignored: int = 0
    in_progress: int = 0
    completed: int = 0
    failed: int = 0


class LatestRescales(msgspec.Struct, frozen=True):
    completed: None = None
    failed: None = None
    ignored: None = None


class JobRescalesOverview(msgspec.Struct, frozen=True, rename="camel"):
    rescales_counts: RescalesCounts = RescalesCounts()
    latest: LatestRescales = LatestRescales()


class DurationStatistics(msgspec.Struct, frozen=True):
    min: int = 0
    max: int = 0
    avg: int = 0
    p50: float = 0.0
    p90: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    p999: float = 0.0


class JobRescalesSummary(msgspec.Struct, frozen=True, rename="camel"):
    rescales_counts: RescalesCounts = RescalesCounts()
    rescales_duration_stats_in_millis: DurationStatistics = DurationStatistics()
    completed_rescales_duration_stats_in_millis: DurationStatistics = DurationStatistics()
    failed_rescales_duration_stats_in_millis: DurationStatistics = DurationStatistics()
    ignored_rescales_duration_stats_in_millis: DurationStatistics = DurationStatistics()


class JobRescaleConfigInfo(msgspec.Struct, frozen=True, rename="camel"):
    rescale_history_max: int = 0
    scheduler_execution_mode: None = None
    submission_resource_wait_timeout_in_millis: int = 0
    submission_resource_stabilization_timeout_in_millis: int = 0
    slot_idle_timeout_in_millis: int = 0
    executing_cooldown_timeout_in_millis: int = 0
    executing_resource_stabilization_timeout_in_millis: int = 0
    maximum_delay_for_triggering_rescale_in_millis: int = 0
    rescale_on_failed_checkpoint_count: int = 0
