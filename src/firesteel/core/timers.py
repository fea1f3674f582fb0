"""Timers of the cores. Each is named by what it belongs to; a late one finds nothing to do."""

from dataclasses import dataclass

from firesteel.core.effects import Timer
from firesteel.model.ids import AllocationID, JobID

REPORT_RETRY_MS = 1_000
"""Time between two reports of a worker to a JobMaster that owes it an answer."""

RELEASE_RETRY_MS = 2_000
"""Time between two requests to a worker to release an ended job."""


@dataclass(frozen=True, slots=True)
class HeartbeatDue(Timer):
    """Time to ask those who are watched, and to see who is silent."""


@dataclass(frozen=True, slots=True)
class RegistrationDue(Timer):
    """Time to register again, unless the ResourceManager has answered."""


@dataclass(frozen=True, slots=True)
class StartUpOver(Timer):
    """Workers had their time to register at a new ResourceManager."""


@dataclass(frozen=True, slots=True)
class WakeUp(Timer):
    """Something is due at a JobMaster's scheduler."""


@dataclass(frozen=True, slots=True)
class ReconciliationOver(Timer):
    """Workers had their time to report to a new JobMaster."""


@dataclass(frozen=True, slots=True)
class ReleaseDue(Timer):
    """Time for a JobMaster to ask again for the release of its ended job."""


@dataclass(frozen=True, slots=True)
class ReportDue(Timer):
    """Time for a worker to report to a JobMaster again, when that owes an answer."""

    job_id: JobID


@dataclass(frozen=True, slots=True)
class SlotTimeout(Timer):
    """A slot had its time to be taken up by its job."""

    allocation_id: AllocationID


TaskExecutorTimer = HeartbeatDue | RegistrationDue | ReportDue | SlotTimeout
JobMasterTimer = HeartbeatDue | RegistrationDue | ReconciliationOver | ReleaseDue | WakeUp
JobReleaseTimer = HeartbeatDue | ReconciliationOver | ReleaseDue
