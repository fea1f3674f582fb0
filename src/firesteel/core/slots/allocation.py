"""Which free slot goes to which job: a pure decision on a snapshot, returned as a plan."""

from dataclasses import dataclass

from firesteel.core.slots.tracker import SlotState, SlotTracker
from firesteel.model.ids import JobID, ResourceID
from firesteel.model.resources import ResourceProfile


@dataclass(frozen=True, slots=True)
class PlannedAllocation:
    job_id: JobID
    resource_id: ResourceID
    index: int


@dataclass(frozen=True, slots=True)
class AllocationPlan:
    """What to request, in this order, and needs that no registered worker could ever meet."""

    allocations: tuple[PlannedAllocation, ...] = ()
    unfulfillable: tuple[tuple[JobID, ResourceProfile], ...] = ()


def plan_allocations(tracker: SlotTracker, *, spread: bool) -> AllocationPlan:
    """Meet the jobs' open needs from free slots; jobs that came first are served first.

    With `spread` the worker with most free slots is taken, else workers are filled in the order
    they registered. Costs a pass over the slots when any need is open.
    """
    missing = _missing(tracker)
    if not missing or not tracker.workers:
        return AllocationPlan()
    free = {
        worker.resource_id: [index for index, slot in sorted(worker.slots.items()) if slot.state is SlotState.FREE]
        for worker in tracker.workers.values()
    }
    profiles = {(w.resource_id, i): slot.profile for w in tracker.workers.values() for i, slot in w.slots.items()}
    made: list[PlannedAllocation] = []
    never: list[tuple[JobID, ResourceProfile]] = []
    for job_id, profile, count in missing:
        if not any(offered.fits(profile) for offered in profiles.values()):
            never.append((job_id, profile))
            continue
        for _ in range(count):
            found = _pick(free, profiles, profile, spread=spread)
            if found is None:
                break
            free[found[0]].remove(found[1])
            made.append(PlannedAllocation(job_id, *found))
    return AllocationPlan(tuple(made), tuple(never))


def _missing(tracker: SlotTracker) -> list[tuple[JobID, ResourceProfile, int]]:
    """Open needs: (job, profile, count), in the order jobs came, larger profiles first."""
    held: dict[JobID, list[ResourceProfile]] = {}
    for worker in tracker.workers.values():
        for slot in worker.slots.values():
            if slot.job_id is not None:
                held.setdefault(slot.job_id, []).append(slot.profile)
    out: list[tuple[JobID, ResourceProfile, int]] = []
    for job_id, job in sorted(tracker.jobs.items(), key=lambda item: item[1].order):
        mine = held.get(job_id, [])
        for profile, count in sorted(job.requirements, reverse=True):
            fitting = [offered for offered in mine if offered.fits(profile)][:count]
            for offered in fitting:
                mine.remove(offered)
            if len(fitting) < count:
                out.append((job_id, profile, count - len(fitting)))
    return out


def _pick(
    free: dict[ResourceID, list[int]],
    profiles: dict[tuple[ResourceID, int], ResourceProfile],
    wanted: ResourceProfile,
    *,
    spread: bool,
) -> tuple[ResourceID, int] | None:
    order = sorted(free, key=lambda worker: -len(free[worker])) if spread else free
    for worker in order:
        for index in free[worker]:
            if profiles[worker, index].fits(wanted):
                return worker, index
    return None
