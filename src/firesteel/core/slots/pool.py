"""The JobMaster's slots: what it holds, which region sits where, who waits, what it needs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain

from firesteel.model.ids import AllocationID, RegionIndex, ResourceID
from firesteel.model.reports import SlotOffer
from firesteel.model.resources import ResourceProfile


@dataclass(slots=True)
class PooledSlot:
    """A slot the job holds. `region` sits in it, or it is free since `idle_since_ms`."""

    allocation_id: AllocationID
    worker: ResourceID
    index: int
    profile: ResourceProfile
    region: RegionIndex | None
    idle_since_ms: int


@dataclass(frozen=True, slots=True)
class SlotAssignment:
    """A waiting region is to be deployed into a slot."""

    region: RegionIndex
    allocation_id: AllocationID
    worker: ResourceID


class SlotPool:
    """Slots by allocation, regions in the order they came to wait. Nothing here costs more than it touches."""

    def __init__(self) -> None:
        self.slots: dict[AllocationID, PooledSlot] = {}
        self.waiting: dict[RegionIndex, ResourceProfile] = {}
        self._labelled_count = 0
        """Waiting regions that ask for labels."""
        self._of_worker: dict[ResourceID, dict[AllocationID, PooledSlot]] = {}
        self._free: dict[ResourceID, dict[AllocationID, None]] = {}
        """Free slots of the workers that have any."""
        self._free_count = 0
        self._unwanted: dict[ResourceID, dict[AllocationID, None]] = {}
        """Slots in a worker's newest report that it has been, or will be, told are not wanted."""
        self._seat: dict[RegionIndex, tuple[AllocationID, ResourceProfile]] = {}
        self._need: dict[ResourceProfile, int] = {}

    def wait(self, regions: Iterable[RegionIndex], profile: ResourceProfile) -> None:
        """These regions want a slot that fits `profile` each."""
        for region in regions:
            assert region not in self._seat, "a region that has a slot does not wait for one"
            assert region not in self.waiting, "a region waits for one slot"
            self.waiting[region] = profile
            self._labelled_count += bool(profile.labels)
            self._count(profile, 1)

    def withdraw(self, region: RegionIndex) -> None:
        """The region wants no slot any more. One that does not wait: nothing."""
        if region in self.waiting:
            self._count(self._waits_no_more(region), -1)

    def _waits_no_more(self, region: RegionIndex) -> ResourceProfile:
        profile = self.waiting.pop(region)
        self._labelled_count -= bool(profile.labels)
        return profile

    def waiting_for(self, profile: ResourceProfile) -> list[RegionIndex]:
        """The regions that want a slot of this profile and have none."""
        return [region for region, wanted in self.waiting.items() if wanted == profile]

    def offer(self, worker: ResourceID, offers: Iterable[SlotOffer], now_ms: int, *, keep: bool = False) -> None:
        """Take the offered slots that fit what the job needs, also when it has enough; leave the others. With `keep` take
        all, for they will be needed.

        One too many that was given back at once would come again, as fast as messages travel, while the ResourceManager
        has not heard of what the job holds at some other worker. See `surplus`. What was not wanted once is not taken when
        it is offered again: the worker lets go of it as soon as it hears so.
        """
        known = self._unwanted.pop(worker, {})
        unwanted: dict[AllocationID, None] = {}
        for offer in offers:
            if offer.allocation_id in self.slots:
                continue
            fits = keep or any(offer.profile.fits(profile) for profile in self._need)
            if fits and offer.allocation_id not in known:
                self.adopt(worker, offer, now_ms)
            else:
                unwanted[offer.allocation_id] = None
        if unwanted:
            self._unwanted[worker] = unwanted

    def adopt(self, worker: ResourceID, offer: SlotOffer, now_ms: int) -> None:
        """Take an offered slot, unless it is known."""
        if offer.allocation_id not in self.slots:
            slot = PooledSlot(offer.allocation_id, worker, offer.index, offer.profile, None, now_ms)
            self.slots[offer.allocation_id] = slot
            self._of_worker.setdefault(worker, {})[offer.allocation_id] = slot
            self._set_free(slot)

    def assign(
        self, near: Callable[[RegionIndex], Iterable[ResourceID]], *, only_near: bool = False
    ) -> list[SlotAssignment]:
        """Seat waiting regions in free slots that fit, in their order, each `near` workers it prefers if it can be; with
        `only_near` those that can't go on waiting."""
        made: list[SlotAssignment] = []
        if not self._free:
            return made
        hopeless: dict[ResourceProfile, None] = {}
        for region, profile in self._by_labels():
            if not self._free:
                break
            if profile in hopeless:
                continue
            found = self._fitting(near(region) if only_near else chain(near(region), self._free), profile)
            if found is None:
                if not only_near:
                    hopeless[profile] = None
                continue
            self.seat(region, found.allocation_id, profile)
            made.append(SlotAssignment(region, found.allocation_id, found.worker))
        for seat in made:
            self._waits_no_more(seat.region)
        return made

    def _by_labels(self) -> Iterable[tuple[RegionIndex, ResourceProfile]]:
        """Who waits, in order; those with more labels first, who can't sit just anywhere."""
        if self._labelled_count:
            return sorted(self.waiting.items(), key=lambda item: -len(item[1].labels))
        return self.waiting.items()

    def _fitting(self, workers: Iterable[ResourceID], profile: ResourceProfile) -> PooledSlot | None:
        """The first free slot of these workers that holds so much."""
        slots = (self.slots[key] for worker in workers for key in self._free.get(worker, ()))
        return next((slot for slot in slots if slot.profile.fits(profile)), None)

    def seat(self, region: RegionIndex, allocation_id: AllocationID, profile: ResourceProfile) -> None:
        """Put a region, which is counted as needing `profile`, into a free slot.

        While it sits there, a slot with all these labels is needed: who asks for one is to be given another.
        """
        slot = self.slots[allocation_id]
        assert slot.region is None, "a slot holds one region at a time"
        slot.region = region
        self._unset_free(slot)
        taken = profile.labelled(slot.profile.labels) if profile.labels != slot.profile.labels else profile
        self._count(taken, 1)
        self._count(profile, -1)
        self._seat[region] = (allocation_id, taken)

    def seat_adopted(self, region: RegionIndex, allocation_id: AllocationID, profile: ResourceProfile) -> None:
        """Put a region that already runs there into an adopted slot."""
        self._count(profile, 1)
        self.seat(region, allocation_id, profile)

    def is_seated(self, region: RegionIndex) -> bool:
        return region in self._seat

    def seat_of(self, region: RegionIndex) -> AllocationID:
        """The slot a seated region sits in."""
        return self._seat[region][0]

    def vacate(self, region: RegionIndex, now_ms: int) -> None:
        """The region has ended: its slot is free. Without a slot: nothing."""
        seat = self._seat.pop(region, None)
        if seat is not None:
            slot = self.slots[seat[0]]
            slot.region, slot.idle_since_ms = None, now_ms
            self._set_free(slot)
            self._count(seat[1], -1)

    def drop(self, allocation_id: AllocationID) -> RegionIndex | None:
        """The slot is gone, or not wanted any more; returns the region that sat in it."""
        slot = self.slots.pop(allocation_id)
        del self._of_worker[slot.worker][allocation_id]
        self._unwanted.setdefault(slot.worker, {})[allocation_id] = None
        if slot.region is None:
            self._unset_free(slot)
        else:
            self._count(self._seat.pop(slot.region)[1], -1)
        return slot.region

    def drop_worker(self, worker: ResourceID) -> None:
        """All slots of a worker are gone; nobody sits in them."""
        for slot in self.of_worker(worker):
            self.drop(slot.allocation_id)
        self._unwanted.pop(worker, None)

    def of_worker(self, worker: ResourceID) -> list[PooledSlot]:
        return list(self._of_worker.get(worker, {}).values())

    def surplus(self, idle_before_ms: int) -> list[PooledSlot]:
        """Free slots nobody waits for, or nobody who could sit there, that have been idle since `idle_before_ms` or longer."""
        free = [self.slots[key] for keys in self._free.values() for key in keys]
        wanted = dict.fromkeys(self.waiting.values()) if free else {}
        usable = [slot for slot in free if any(slot.profile.fits(profile) for profile in wanted)]
        spare = max(0, len(usable) - len(self.waiting))
        kept = {
            slot.allocation_id for slot in [each for each in usable if each.idle_since_ms <= idle_before_ms][spare:]
        }
        return [slot for slot in free if slot.idle_since_ms <= idle_before_ms and slot.allocation_id not in kept]

    def requirements(self) -> tuple[tuple[ResourceProfile, int], ...]:
        """What the job needs in all, by profile: seats taken, and regions that wait."""
        return tuple(sorted(self._need.items()))

    def validate(self) -> None:
        """Seats and slots say the same; nobody waits and sits; the count is right."""
        seated = {slot.region: key for key, slot in self.slots.items() if slot.region is not None}
        assert seated == {region: seat[0] for region, seat in self._seat.items()}, "seats and slots differ"
        free = {key: slot.worker for key, slot in self.slots.items() if slot.region is None}
        assert free == {key: worker for worker, keys in self._free.items() for key in keys}, "free slots are off"
        assert all(self._free.values()), "a worker without free slots is kept among those with"
        assert len(free) == self._free_count, "free slots are miscounted"
        assert self.slots == {key: slot for slots in self._of_worker.values() for key, slot in slots.items()}, (
            "the slots of workers are off"
        )
        assert not any(region in self._seat for region in self.waiting), "a seated region waits"
        labelled = sum(bool(profile.labels) for profile in self.waiting.values())
        assert labelled == self._labelled_count, "regions that ask for labels are miscounted"
        assert sum(self._need.values()) == len(self.waiting) + len(self._seat), "the need is miscounted"

    def _set_free(self, slot: PooledSlot) -> None:
        self._free.setdefault(slot.worker, {})[slot.allocation_id] = None
        self._free_count += 1

    def _unset_free(self, slot: PooledSlot) -> None:
        free = self._free[slot.worker]
        del free[slot.allocation_id]
        if not free:
            del self._free[slot.worker]
        self._free_count -= 1

    def _count(self, profile: ResourceProfile, change: int) -> None:
        left = self._need.get(profile, 0) + change
        if left:
            self._need[profile] = left
        else:
            del self._need[profile]
