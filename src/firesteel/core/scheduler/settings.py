"""How a job is scheduled: what its configuration and its cluster's were read into."""

from dataclasses import dataclass, field

from firesteel.core.checkpoint.savepoints import SavepointSettings
from firesteel.core.scheduler.backoff import RestartStrategy
from firesteel.model.checkpoints import CheckpointSettings


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    strategy: RestartStrategy
    exception_history_size: int
    timeout_ms: int = 0
    """Limit on the time from the job's creation to its end; 0 is none."""
    retry_delay_ms: int = 1_000
    """Time before a region runs again that has retries of its own."""
    patience_ms: int = 600_000
    """Time that a commit or a region is tried again which fails of what may pass."""
    restarts_all: bool = False
    """Failover strategy `full`."""
    subtask_bytes: int = 0
    """What a subtask is to read, where nobody has said how many there are to be; 0: there are as many as may be."""
    savepoints: SavepointSettings = field(default_factory=SavepointSettings)
    checkpoints: CheckpointSettings = field(default_factory=CheckpointSettings)
