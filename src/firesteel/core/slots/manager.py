"""SlotManager: facts, decision and commitment of the ResourceManager's slots."""

from dataclasses import dataclass

from firesteel.core.slots.allocation import Caps, PlannedAllocation, plan_allocations
from firesteel.core.slots.tracker import SlotTracker
from firesteel.model.ids import AllocationID, FencingToken, JobID, ResourceID, derived_id

SLOT_ANSWER_TIMEOUT_MS = 10_000
"""A worker that has not answered a slot request for this long is asked no more."""


@dataclass(frozen=True, slots=True)
class SlotRequest:
    """A slot to be requested from its worker."""

    job_id: JobID
    resource_id: ResourceID
    index: int
    allocation_id: AllocationID


class SlotManager:
    """Plans as soon as facts change. `token` makes its allocation ids unlike those of other leaders."""

    def __init__(self, token: FencingToken, caps: Caps, *, spread: bool) -> None:
        self.tracker = SlotTracker()
        self.caps = caps
        self._token = token
        self._spread = spread
        self._allocations = 0
        self._planned = -1

    def requests(self, now_ms: int) -> list[SlotRequest]:
        """Slots to request now; each is PENDING from here on. Costs nothing while no fact has changed."""
        if self._planned == self.tracker.changes:
            return []
        plan = plan_allocations(self.tracker, self.caps, spread=self._spread)
        made = [self._commit(planned, now_ms) for planned in plan]
        self._planned = self.tracker.changes
        return made

    def expire(self, now_ms: int) -> None:
        """Give up requests that were not answered in time; the next slot report tells what became of them."""
        for worker, allocation_id in self.tracker.overdue(now_ms - SLOT_ANSWER_TIMEOUT_MS):
            self.tracker.release_pending(worker, (allocation_id,))

    def _commit(self, planned: PlannedAllocation, now_ms: int) -> SlotRequest:
        self._allocations += 1
        allocation_id = AllocationID(derived_id(self._token.epoch, self._token.leader, self._allocations))
        self.tracker.promise(planned.resource_id, planned.index, (planned.job_id, allocation_id), now_ms)
        return SlotRequest(planned.job_id, planned.resource_id, planned.index, allocation_id)
