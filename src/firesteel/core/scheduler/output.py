"""What a scheduler wants done: collected during one event, handed out once, sent as one batch per worker."""

from dataclasses import dataclass, field

from firesteel.model.checkpoints import CheckpointOrder
from firesteel.model.ids import RegionAttemptID, ResourceID
from firesteel.model.streams import SavepointOrder
from firesteel.model.tasks import ResultGroup, SinkCommit, TaskDeployment


@dataclass(slots=True)
class SchedulerOutput:
    """Each by worker, in the order decided. `wake_at_ms` asks to be called again by then."""

    deploy: dict[ResourceID, list[TaskDeployment]] = field(default_factory=dict)
    groups: dict[str, ResultGroup] = field(default_factory=dict)
    """What these deployments name, by id."""
    missed: dict[ResourceID, None] = field(default_factory=dict)
    """Workers that something sent to them has not reached: they may lack groups, too."""
    cancel: dict[ResourceID, list[RegionAttemptID]] = field(default_factory=dict)
    acknowledge: dict[ResourceID, list[RegionAttemptID]] = field(default_factory=dict)
    commit: dict[ResourceID, list[SinkCommit]] = field(default_factory=dict)
    stop: dict[ResourceID, list[RegionAttemptID]] = field(default_factory=dict)
    """Streaming attempts that are to finish."""
    drains: bool = False
    """They are to read what is there first."""
    save: dict[ResourceID, list[SavepointOrder]] = field(default_factory=dict)
    checkpoint: dict[ResourceID, list[CheckpointOrder]] = field(default_factory=dict)
    replies: list[tuple[int, object]] = field(default_factory=list)
    """Answers to requests, by their ids: exceptions among them."""
    discard: list[str] = field(default_factory=list)
    """Directories nobody will read, for any worker to delete."""
    wake_at_ms: int | None = None

    def wake(self, at_ms: int) -> None:
        """Ask to be called again at `at_ms` or before."""
        self.wake_at_ms = at_ms if self.wake_at_ms is None else min(self.wake_at_ms, at_ms)
