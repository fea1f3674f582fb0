"""The TaskExecutor's slot table: which slot is whose."""

from dataclasses import dataclass
from enum import Enum

from firesteel.core.machine import TransitionTable
from firesteel.model.ids import AllocationID, JobID
from firesteel.model.reports import SlotAllocation, SlotOffer
from firesteel.model.resources import ResourceProfile


class TaskSlotState(Enum):
    """A slot as its worker sees it."""

    FREE = "FREE"
    ALLOCATED = "ALLOCATED"
    """Given to a job by the ResourceManager; the job has not taken it up."""
    ACTIVE = "ACTIVE"
    """The job's master says that it holds it."""


TASK_SLOT_TRANSITIONS = TransitionTable[TaskSlotState](
    {
        (TaskSlotState.FREE, TaskSlotState.ALLOCATED): "the ResourceManager requests it for a job",
        (TaskSlotState.ALLOCATED, TaskSlotState.ACTIVE): "the job's master has accepted the offer",
        (TaskSlotState.ALLOCATED, TaskSlotState.FREE): "the job does not want it, or did not answer in time",
        (TaskSlotState.ACTIVE, TaskSlotState.FREE): "the job's master gave it back, or the job is over",
    }
)


@dataclass(slots=True)
class TaskSlot:
    index: int
    profile: ResourceProfile
    state: TaskSlotState = TaskSlotState.FREE
    allocation_id: AllocationID | None = None
    job_id: JobID | None = None
    offered: int | None = None
    """Number of the first report to the job's master that had it."""

    def move(self, target: TaskSlotState) -> None:
        TASK_SLOT_TRANSITIONS.check(self.state, target, f"slot {self.index}")
        self.state = target


class TaskSlotTable:
    """A fixed number of slots of one profile."""

    def __init__(self, count: int, profile: ResourceProfile) -> None:
        self.sizes = ((profile, count),)
        """How many slots there are of a profile, as a SlotReport says it."""
        self.slots = [TaskSlot(index, profile) for index in range(count)]
        self._by_allocation: dict[AllocationID, TaskSlot] = {}

    def allocate(self, index: int, allocation_id: AllocationID, job_id: JobID) -> bool:
        """Give a slot to a job. True also when it has it already; False when it is another's, or unknown."""
        if not 0 <= index < len(self.slots):
            return False
        slot = self.slots[index]
        if slot.state is TaskSlotState.FREE and allocation_id not in self._by_allocation:
            slot.move(TaskSlotState.ALLOCATED)
            slot.allocation_id, slot.job_id, slot.offered = allocation_id, job_id, None
            self._by_allocation[allocation_id] = slot
        return slot.allocation_id == allocation_id

    def activate(self, allocation_id: AllocationID) -> None:
        """The job's master holds it."""
        slot = self._by_allocation[allocation_id]
        if slot.state is not TaskSlotState.ACTIVE:
            slot.move(TaskSlotState.ACTIVE)

    def reconcile(self, job_id: JobID, held: tuple[AllocationID, ...], offer_sequence: int) -> list[TaskSlot]:
        """Take the word of the job's master for what it holds; returns slots it was offered and does not want."""
        unwanted: list[TaskSlot] = []
        for slot in self.of_job(job_id):
            if slot.allocation_id in held:
                self.activate(slot.allocation_id)
            elif slot.offered is not None and slot.offered <= offer_sequence:
                unwanted.append(slot)
        return unwanted

    def free(self, allocation_id: AllocationID) -> None:
        """The slot is nobody's."""
        slot = self._by_allocation.pop(allocation_id)
        slot.move(TaskSlotState.FREE)
        slot.allocation_id, slot.job_id, slot.offered = None, None, None

    def find(self, allocation_id: AllocationID) -> TaskSlot | None:
        return self._by_allocation.get(allocation_id)

    def of_job(self, job_id: JobID) -> list[TaskSlot]:
        return [slot for slot in self._by_allocation.values() if slot.job_id == job_id]

    def is_offering(self, job_id: JobID) -> bool:
        """Whether a slot of the job is not taken up yet."""
        return any(slot.state is TaskSlotState.ALLOCATED for slot in self.of_job(job_id))

    def offers(self, job_id: JobID, sequence: int) -> tuple[SlotOffer, ...]:
        """All slots of a job, for report number `sequence` to its master."""
        out: list[SlotOffer] = []
        for slot in self.of_job(job_id):
            assert slot.allocation_id is not None, "a slot of a job is allocated"
            slot.offered = sequence if slot.offered is None else slot.offered
            out.append(SlotOffer(slot.allocation_id, slot.index, slot.profile))
        return tuple(out)

    def allocations(self) -> tuple[SlotAllocation, ...]:
        """The slots that are not free."""
        taken = self._by_allocation.items()
        return tuple(SlotAllocation(slot.index, name, slot.job_id) for name, slot in taken if slot.job_id is not None)

    def validate(self) -> None:
        """A slot is somebody's exactly when it is not free, and found by its allocation."""
        for slot in self.slots:
            assert (slot.state is TaskSlotState.FREE) == (slot.allocation_id is None), "a free slot is allocated"
            assert (slot.allocation_id is None) == (slot.job_id is None), "an allocation without a job"
        taken = {slot.allocation_id: slot for slot in self.slots if slot.allocation_id is not None}
        assert taken == self._by_allocation, "the index of allocations is off"
