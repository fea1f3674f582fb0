"""What workers report of themselves, as parts of their messages: slots, attempts and how they ended, splits that are wanted."""

import msgspec

from firesteel.model.failures import FailureInfo
from firesteel.model.ids import AllocationID, JobID, RegionAttemptID
from firesteel.model.resources import ResourceProfile
from firesteel.model.states import ExecutionState
from firesteel.model.tasks import TaskOutcome


class SlotAllocation(msgspec.Struct, frozen=True):
    """A slot that is a job's."""

    index: int
    allocation_id: AllocationID
    job_id: JobID


class SlotReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """All slots of a TaskExecutor. `sequence` grows with every report of that process."""

    sequence: int
    slots: tuple[tuple[ResourceProfile, int], ...]
    """Numbers of slots in a row by profile; slots are numbered through from 0."""
    allocations: tuple[SlotAllocation, ...] = ()
    """Slots that it does not name are free."""
    unheard: tuple[JobID, ...] = ()
    """Jobs of which something is there, and nothing was heard for long, or since the connection to their master broke."""


class SlotOffer(msgspec.Struct, frozen=True):
    allocation_id: AllocationID
    index: int
    profile: ResourceProfile


class TaskStateUpdate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of an attempt. A terminal one is repeated until it is acknowledged."""

    attempt: RegionAttemptID
    state: ExecutionState
    outcome: TaskOutcome | None = None
    failure: FailureInfo | None = None


class ExecutionReport(msgspec.Struct, frozen=True):
    """An attempt a worker has, in which of its slots."""

    attempt: RegionAttemptID
    state: ExecutionState
    allocation_id: AllocationID


class SplitRequest(msgspec.Struct, frozen=True):
    """An attempt wants its draw `number` of input splits; repeated until it has it, and answered the same each time."""

    attempt: RegionAttemptID
    number: int
    host: str
