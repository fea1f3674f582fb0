"""How a job is scheduled: what its configuration and its cluster's were read into."""

from dataclasses import dataclass

from firesteel.core.scheduler.backoff import RestartStrategy


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    strategy: RestartStrategy
    exception_history_size: int
    timeout_ms: int = 0
    """Limit on the time from the job's creation to its end; 0 is none."""
    retry_delay_ms: int = 1_000
    """Time before a region runs again that has retries of its own."""
    restarts_all: bool = False
    """Failover strategy `full`."""
