"""Bodies about the checkpoints of a stream, as Flink's dashboard reads them."""

import msgspec


class StatsSummary(msgspec.Struct, frozen=True):
    """Of all there have been; the percentiles of those that are remembered."""

    min: int = 0
    max: int = 0
    avg: int = 0
    p50: float = 0.0
    p90: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    p999: float = 0.0


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    checkpointed_size: StatsSummary
    state_size: StatsSummary
    end_to_end_duration: StatsSummary
    alignment_buffered: StatsSummary = StatsSummary()
    processed_data: StatsSummary = StatsSummary()
    persisted_data: StatsSummary = StatsSummary()


class TaskCheckpointStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The queries of a vertex."""

    id: int
    status: str
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    num_subtasks: int
    num_acknowledged_subtasks: int
    alignment_buffered: int = 0
    processed_data: int = 0
    persisted_data: int = 0


class CheckpointStatistics(msgspec.Struct, frozen=True, kw_only=True, tag_field="className", tag="in_progress"):
    id: int
    status: str
    is_savepoint: bool
    savepoint_format: str | None = msgspec.field(default=None, name="savepointFormat")
    trigger_timestamp: int
    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    num_subtasks: int
    num_acknowledged_subtasks: int
    checkpoint_type: str
    tasks: dict[str, TaskCheckpointStatistics]
    alignment_buffered: int = 0
    processed_data: int = 0
    persisted_data: int = 0


class CompletedCheckpointStatistics(CheckpointStatistics, frozen=True, kw_only=True, tag="completed"):
    external_path: str
    discarded: bool


class FailedCheckpointStatistics(CheckpointStatistics, frozen=True, kw_only=True, tag="failed"):
    failure_timestamp: int
    failure_message: str


class RestoredCheckpointStatistics(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    restore_timestamp: int
    is_savepoint: bool
    external_path: str


class LatestCheckpoints(msgspec.Struct, frozen=True, kw_only=True):
    completed: CompletedCheckpointStatistics | None
    savepoint: CompletedCheckpointStatistics | None
    failed: FailedCheckpointStatistics | None
    restored: RestoredCheckpointStatistics | None


CheckpointDetails = CheckpointStatistics | CompletedCheckpointStatistics | FailedCheckpointStatistics


class CheckpointingStatistics(msgspec.Struct, frozen=True, kw_only=True):
    counts: Counts
    summary: Summary
    latest: LatestCheckpoints
    history: list[CheckpointDetails]
    """Those that were triggered last, newest first."""


class Externalization(msgspec.Struct, frozen=True):
    enabled: bool
    delete_on_cancellation: bool


class CheckpointConfigInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`mode`, `max_concurrent` and what follows `tolerable_failed_checkpoints` are always the same here."""

    mode: str = "exactly_once"
    interval: int
    timeout: int
    min_pause: int
    max_concurrent: int = 1
    externalization: Externalization
    state_backend: str
    checkpoint_storage: str
    unaligned_checkpoints: bool = False
    tolerable_failed_checkpoints: int
    aligned_checkpoint_timeout: int = 0
    checkpoints_after_tasks_finish: bool = True
    state_changelog_enabled: bool = False
    changelog_periodic_materialization_interval: int = 0
    changelog_storage: str = ""
