"""The line of jobs that wait for slots: each one's place, and what it waits for. Read on demand, never stored."""

from collections.abc import Collection

from firesteel.core.slots.allocation import Caps, Need, open_needs, rooms
from firesteel.core.slots.tracker import SlotTracker
from firesteel.model.ids import JobID
from firesteel.model.resources import ResourceProfile
from firesteel.model.views import QueuePlace


def queue_places(tracker: SlotTracker, caps: Caps) -> dict[JobID, QueuePlace]:
    """Jobs that lack slots, in the order in which they are served; a job that lacks none has no place."""
    room = rooms(tracker, caps)
    free = dict.fromkeys(w.slots[index].profile for w in tracker.workers.values() for index in w.to_give)
    offered = offered_profiles(tracker)
    places: dict[JobID, QueuePlace] = {}
    for need in open_needs(tracker):
        known = places.get(need.job_id)
        reason = (
            known.reason if known is not None else _reason(tracker, caps, need, room=room, free=free, offered=offered)
        )
        places[need.job_id] = QueuePlace(
            place=len(places) + 1 if known is None else known.place,
            queue=need.queue,
            priority=tracker.jobs[need.job_id].priority,
            slots_missing=need.count + (0 if known is None else known.slots_missing),
            reason=reason,
        )
    return places


def can_ever_hold(tracker: SlotTracker, profile: ResourceProfile) -> bool:
    """Whether some worker has, or had, a slot of that size. One that has the labels may yet come."""
    return any(offered.fits(profile.size) for offered in tracker.profiles)


def offered_profiles(tracker: SlotTracker) -> Collection[ResourceProfile]:
    """Those that slots of registered workers have, taken or free: few, where many slots are alike."""
    return dict.fromkeys(slot.profile for worker in tracker.workers.values() for slot in worker.slots.values())


def lacking(offered: Collection[ResourceProfile], profile: ResourceProfile) -> str:
    """What none of these slots has that such a one takes; empty when one has all of it."""
    if any(each.fits(profile) for each in offered):
        return ""
    is_named = any(set(profile.labels).issubset(each.labels) for each in offered)
    return f"a slot of {profile}" if is_named else f"the {profile.named}"


def _reason(
    tracker: SlotTracker,
    caps: Caps,
    need: Need,
    *,
    room: dict[str, int],
    free: Collection[ResourceProfile],
    offered: Collection[ResourceProfile],
) -> str:
    if not tracker.workers:
        return "no worker is registered"
    if lack := lacking(offered, need.profile):
        return f"no registered worker has {lack}"
    if room.get(need.queue) == 0:
        cap = caps[need.queue]
        return f"the jobs of queue {need.queue} hold {f'all of its {cap} slots' if cap != 1 else 'its only slot'}"
    if any(profile.fits(need.profile) for profile in free):
        return "a slot is free: it is being requested"
    if not free and any(worker.free for worker in tracker.workers.values()):
        return "slots are free only at workers that a job has lost: these are to report first"
    if free:
        return f"every slot of {need.profile} is taken"
    total = sum(len(worker.slots) for worker in tracker.workers.values())
    return f"all {total} slots are taken" if total != 1 else "the only slot is taken"
