"""What cores are set up with: values that the configuration was read into, times in milliseconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from firesteel.core.registration import FLINKS_DEFAULTS, RegistrationTimeouts
from firesteel.core.scheduler.settings import SchedulerSettings
from firesteel.model import messages as m
from firesteel.model.resources import (
    UNKNOWN_HARDWARE,
    UNTOLD_STORAGE,
    HardwareDescription,
    ResourceProfile,
    ResultsStorage,
)


@dataclass(frozen=True, slots=True)
class JobMasterSettings:
    scheduler: SchedulerSettings
    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int
    slot_idle_timeout_ms: int
    reconciliation_timeout_ms: int
    queue: str = m.DEFAULT_QUEUE
    priority: int = 0
    registration: RegistrationTimeouts = FLINKS_DEFAULTS


@dataclass(frozen=True, slots=True)
class JobReleaseSettings:
    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int
    reconciliation_timeout_ms: int
    """How long workers have to report what they have of the job."""


@dataclass(frozen=True, slots=True)
class ResourceManagerSettings:
    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int
    spread_slots: bool
    queue_slots: Mapping[str, int] = field(default_factory=dict)
    """The most slots the jobs of a queue may hold."""
    start_up_ms: int = 0
    """So long after its start nothing is refused: a worker that could hold it may be on its way."""
    slot_request_timeout_ms: int = 300_000
    """A need that no registered worker could meet for so long fails its job."""


@dataclass(frozen=True, slots=True)
class TaskExecutorSettings:
    slots: int
    profile: ResourceProfile
    """Size of each slot."""
    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int
    slot_timeout_ms: int
    master_grace_ms: int
    hardware: HardwareDescription = UNKNOWN_HARDWARE
    results: ResultsStorage = UNTOLD_STORAGE
    registration: RegistrationTimeouts = FLINKS_DEFAULTS
