"""Which free slot goes to which job: a pure decision on a snapshot, returned as a plan.

Jobs stand in one line, by priority and age; a queue with a cap lets its jobs hold only so many slots.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from firesteel.core.slots.tracker import SlotState, SlotTracker
from firesteel.model.ids import JobID, ResourceID
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


def plan_allocations(tracker: SlotTracker, caps: Caps, *, spread: bool) -> tuple[PlannedAllocation, ...]:
    """Meet the jobs' open needs from free slots, in the order of their turns, within the caps.

    With `spread` the worker with most free slots is taken, else workers are filled in the order they
    registered. Costs a pass over the slots when some job needs any, and over the jobs only when a slot is free.
    """
    if not any(job.requirements for job in tracker.jobs.values()):
        return ()
    free = {
        worker.resource_id: indices
        for worker in tracker.workers.values()
        if (indices := [index for index, slot in sorted(worker.slots.items()) if slot.state is SlotState.FREE])
    }
    if not free:
        return ()
    room = rooms(tracker, caps)
    made: list[PlannedAllocation] = []
    for need in open_needs(tracker):
        for _ in range(min(need.count, room.get(need.queue, need.count))):
            found = _pick(tracker, free, need.profile, spread=spread)
            if found is None:
                break
            free[found[0]].remove(found[1])
            made.append(PlannedAllocation(need.job_id, *found))
            if need.queue in room:
                room[need.queue] -= 1
    return tuple(made)


def open_needs(tracker: SlotTracker) -> list[Need]:
    """What jobs lack, in the order of their turns, larger profiles first."""
    held = tracker.held()
    out: list[Need] = []
    for job_id, job in sorted(tracker.jobs.items(), key=lambda item: item[1].turn):
        mine = held.get(job_id, [])
        for profile, count in sorted(job.requirements, reverse=True):
            fitting = [offered for offered in mine if offered.fits(profile)][:count]
            for offered in fitting:
                mine.remove(offered)
            if len(fitting) < count:
                out.append(Need(job_id, job.queue, profile, count - len(fitting)))
    return out


def rooms(tracker: SlotTracker, caps: Caps) -> dict[str, int]:
    """How many more slots the jobs of each capped queue may hold."""
    room = dict(caps)
    for job_id, profiles in tracker.held().items():
        job = tracker.jobs.get(job_id)
        if job is not None and job.queue in room:
            room[job.queue] = max(0, room[job.queue] - len(profiles))
    return room


def _pick(
    tracker: SlotTracker, free: dict[ResourceID, list[int]], wanted: ResourceProfile, *, spread: bool
) -> tuple[ResourceID, int] | None:
    order = sorted(free, key=lambda worker: -len(free[worker])) if spread else free
    for worker in order:
        slots = tracker.workers[worker].slots
        for index in free[worker]:
            if slots[index].profile.fits(wanted):
                return worker, index
    return None
