"""Checkpoints of streaming jobs: what is recorded of one, and what is shown of all."""

from enum import Enum
from typing import assert_never

import msgspec

from firesteel.model.ids import JobVertexID
from firesteel.model.secrets import redacted_text
from firesteel.model.states import JobStatus
from firesteel.model.streams import SavepointQueries


class CheckpointStatus(Enum):
    """Spelled as Flink's."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class QueryPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a query has come to: its last committed batch. Nothing of it is copied."""

    uid: str
    """The sink's."""
    batch: int
    """-1: none yet."""
    query_id: str = ""
    commit_sha256: str = ""
    """SHA-256 of the file of the commit."""
    oldest_batch: int = -1
    """The oldest one that the query's own retention has left."""
    size_bytes: int = 0
    """Size of the files that the point is made of."""
    vertex_id: JobVertexID = JobVertexID("")
    """The sink's vertex, where the master knows it."""


class CheckpointOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Queries of a worker whose points belong to a checkpoint."""

    checkpoint_id: int
    queries: tuple[SavepointQueries, ...]
    checkpoints_dir: str = ""
    """The job's own `execution.checkpointing.dir`."""
    patience_ms: int = 0
    """So long a worker looks again, at newer batches, at queries whose retention overtakes it."""


class CheckpointRetention(Enum):
    """Which jobs leave their last checkpoint when they have ended. Spelled as Flink's."""

    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"
    """Those that have failed."""
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"
    """Those that were cancelled, too."""
    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"

    def retains(self, status: JobStatus) -> bool:
        """Whether a job that has ended so leaves it. One that has finished has read all, or has a savepoint."""
        match self:
            case CheckpointRetention.DELETE_ON_CANCELLATION:
                return status is JobStatus.FAILED
            case CheckpointRetention.RETAIN_ON_CANCELLATION:
                return status in (JobStatus.FAILED, JobStatus.CANCELED)
            case CheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS:
                return False
            case _:
                assert_never(self)


class CheckpointSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A job's `execution.checkpointing.*`."""

    interval_ms: int = 0
    """Time from one trigger to the next; 0: none is taken unasked."""
    timeout_ms: int = 600_000
    min_pause_ms: int = 0
    """Time between the end of one and the next that nobody has asked for."""
    tolerable_failures: int = 0
    """Failures in a row that do not restart the job's queries."""
    retained_max: int = 1
    checkpoints_dir: str = ""
    """The job's own directory for them, if it has said one."""
    retention: CheckpointRetention = CheckpointRetention.DELETE_ON_CANCELLATION
    shared_dir: str = ""
    """Where all workers find them. Empty where each has its own: there nothing is retained."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A checkpoint or savepoint that was triggered, and what has become of it."""

    checkpoint_id: int
    """They are numbered through, over all masters that the job has had."""
    status: CheckpointStatus
    triggered_ms: int
    ended_ms: int = -1
    savepoint: str = ""
    """Location of a savepoint; empty for a checkpoint."""
    points: tuple[QueryPoint, ...] = ()
    failure: str = ""
    retained: str = ""
    """Where it stays though its job has ended."""

    @property
    def duration_ms(self) -> int:
        """-1 while it is not complete."""
        return self.ended_ms - self.triggered_ms if self.ended_ms >= 0 else -1

    @property
    def size_bytes(self) -> int:
        return sum(point.size_bytes for point in self.points)

    def redacted(self) -> "Checkpoint":
        """The same, without what looks like a secret in why it failed."""
        return msgspec.structs.replace(self, failure=redacted_text(self.failure)) if self.failure else self


class Tally(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Smallest, largest and sum of so many figures."""

    count: int = 0
    min: int = 0
    max: int = 0
    sum: int = 0

    def with_value(self, value: int) -> "Tally":
        least = value if self.count == 0 else min(value, self.min)
        return Tally(count=self.count + 1, min=least, max=max(value, self.max), sum=self.sum + value)


class CheckpointHistory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that is remembered of a job's checkpoints; a part of its durable state."""

    last_id: int = 0
    """The highest number that was given."""
    completed: int = 0
    failed: int = 0
    restored: int = 0
    """How often queries have begun again where they had come to."""
    failed_in_a_row: int = 0
    newest: tuple[Checkpoint, ...] = ()
    """Those that were triggered last, newest first."""
    retained: tuple[Checkpoint, ...] = ()
    """Completed ones that queries can go on from, newest first."""
    latest_completed: Checkpoint | None = None
    latest_failed: Checkpoint | None = None
    latest_savepoint: Checkpoint | None = None
    restored_id: int = -1
    """The newest checkpoint when queries last began again; -1: there was none, or they never did."""
    restored_ms: int = -1
    claim_subsumed: bool = False
    """A completed one is newer than the savepoint that the job has claimed."""
    durations_ms: Tally = Tally()
    """Durations of the completed ones."""
    sizes_bytes: Tally = Tally()

    def redacted(self) -> "CheckpointHistory":
        """The same, without what looks like a secret in why some failed."""
        return msgspec.structs.replace(
            self,
            newest=tuple(each.redacted() for each in self.newest),
            latest_failed=self.latest_failed.redacted() if self.latest_failed is not None else None,
        )

    @property
    def in_progress(self) -> Checkpoint | None:
        return next((each for each in self.newest if each.status is CheckpointStatus.IN_PROGRESS), None)


class CheckpointsView(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown of a streaming job's checkpoints."""

    settings: CheckpointSettings
    history: CheckpointHistory

    def redacted(self) -> "CheckpointsView":
        """The same, without secrets."""
        return msgspec.structs.replace(self, history=self.history.redacted())
