"""Allocation of free slots to jobs: a pure decision on a snapshot, returned as a plan.

Jobs stand in one line, by priority and age; a queue with a cap lets its jobs hold only so many slots.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from firesteel.core.slots.tracker import SlotTracker
from firesteel.model.ids import JobID, ResourceID
from firesteel.model.labels import Labels
from firesteel.model.resources import ResourceProfile

Caps = Mapping[str, int]
"""The most slots that the jobs of a queue may hold, by its name; a queue without one has no limit."""


@dataclass(frozen=True, slots=True)
class PlannedAllocation:
    job_id: JobID
    resource_id: ResourceID
    index: int


@dataclass(frozen=True, slots=True)
class Need:
    """What a job lacks of one profile, and what its queue leaves it."""

    job_id: JobID
    queue: str
    profile: ResourceProfile
    count: int


class FreeSlots:
    """The free slots of all workers, in the order in which they are given away.

    Workers with fewer labels come first: those with more are left to who asks for them. Of workers with the same labels,
    with `spread`, it is the one of whose slots the smallest part is taken, else they come in the order they registered.
    Taking a slot costs the logarithm of the workers, and a look at each set of labels that any has.
    """

    def __init__(self, tracker: SlotTracker, *, spread: bool) -> None:
        self._tracker, self._spread = tracker, spread
        self._free = {
            worker.resource_id: sorted(worker.to_give) for worker in tracker.workers.values() if worker.to_give
        }
        by_labels: dict[Labels, list[tuple[float, int, ResourceID]]] = {}
        for place, worker in enumerate(self._free):
            by_labels.setdefault(tracker.workers[worker].labels, []).append((self._rank(worker), place, worker))
        self._lines = sorted(by_labels.items(), key=lambda line: (len(line[0]), line[0]))
        for _, workers in self._lines:
            heapify(workers)

    def __bool__(self) -> bool:
        return any(workers for _, workers in self._lines)

    def take(self, wanted: ResourceProfile) -> tuple[ResourceID, int] | None:
        """The first slot that fits, which then is free no more; None when none does."""
        lines = (workers for labels, workers in self._lines if set(wanted.labels).issubset(labels))
        taken = (self._take_of(workers, wanted) for workers in lines)
        return next((found for found in taken if found is not None), None)

    def _take_of(
        self, order: list[tuple[float, int, ResourceID]], wanted: ResourceProfile
    ) -> tuple[ResourceID, int] | None:
        passed: list[tuple[float, int, ResourceID]] = []
        found: tuple[ResourceID, int] | None = None
        while order and found is None:
            rank, place, worker = heappop(order)
            slots, free = self._tracker.workers[worker].slots, self._free[worker]
            index = next((index for index in free if slots[index].profile.fits(wanted)), None)
            if index is not None:
                free.remove(index)
                found = worker, index
                rank = self._rank(worker)
            if free:
                passed.append((rank, place, worker))
        for entry in passed:
            heappush(order, entry)
        return found

    def _rank(self, worker: ResourceID) -> float:
        return -len(self._free[worker]) / len(self._tracker.workers[worker].slots) if self._spread else 0.0


def plan_allocations(tracker: SlotTracker, caps: Caps, *, spread: bool) -> tuple[PlannedAllocation, ...]:
    """Meet the jobs' open needs from free slots, in the order of their turns, within the caps.

    Costs a pass over the workers and, when a slot is free, one over the jobs.
    """
    free = FreeSlots(tracker, spread=spread)
    if not free:
        return ()
    room = rooms(tracker, caps)
    made: list[PlannedAllocation] = []
    for need in open_needs(tracker):
        for _ in range(min(need.count, room.get(need.queue, need.count))):
            found = free.take(need.profile)
            if found is None:
                break
            made.append(PlannedAllocation(need.job_id, *found))
            if need.queue in room:
                room[need.queue] -= 1
    return tuple(made)


def open_needs(tracker: SlotTracker) -> list[Need]:
    """What jobs lack, in the order of their turns, those with more labels first, then larger profiles."""
    out: list[Need] = []
    needy = [(job_id, job) for job_id, job in tracker.jobs.items() if job.requirements]
    for job_id, job in sorted(needy, key=lambda item: item[1].turn):
        mine = Counter(tracker.held.get(job_id))
        for profile, count in sorted(job.requirements, key=_pickiness, reverse=True):
            lacking = count - _use(mine, profile, count)
            if lacking:
                out.append(Need(job_id, job.queue, profile, lacking))
    return out


def _pickiness(requirement: tuple[ResourceProfile, int]) -> tuple[int, ResourceProfile]:
    """A slot that few may have goes to who can use no other."""
    return len(requirement[0].labels), requirement[0]


def _use(held: Counter[ResourceProfile], wanted: ResourceProfile, count: int) -> int:
    """Take up to `count` of the held slots that fit; returns how many there were."""
    used = 0
    for profile in held:
        if profile.fits(wanted):
            part = min(held[profile], count - used)
            held[profile] -= part
            used += part
    return used


def rooms(tracker: SlotTracker, caps: Caps) -> dict[str, int]:
    """How many more slots the jobs of each capped queue may hold."""
    room = dict(caps)
    for job_id, held in tracker.held.items() if caps else ():
        job = tracker.jobs.get(job_id)
        if job is not None and job.queue in room:
            room[job.queue] = max(0, room[job.queue] - held.total())
    return room
