"""The JobMaster's slots: one region a slot, in the order they came to wait."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from firesteel.core.slots.pool import SlotAssignment, SlotPool
from firesteel.model.ids import AllocationID, RegionIndex, ResourceID
from firesteel.model.reports import SlotOffer
from firesteel.model.resources import UNSPECIFIED, ResourceProfile

W1, W2 = ResourceID("w1"), ResourceID("w2")
SMALL, LARGE = ResourceProfile(1.0, 1_024), ResourceProfile(4.0, 4_096)


def offer(name: str, profile: ResourceProfile = SMALL) -> SlotOffer:
    return SlotOffer(AllocationID(name), 0, profile)


def regions(*indices: int) -> list[RegionIndex]:
    return [RegionIndex(index) for index in indices]


def pool(*waiting: int, profile: ResourceProfile = SMALL, offers: str = "") -> SlotPool:
    """A pool in which regions wait and these slots were offered by w1."""
    made = SlotPool()
    made.wait(regions(*waiting), profile)
    made.offer(W1, [offer(name) for name in offers], 0)
    return made


def nowhere(region: RegionIndex) -> list[ResourceID]:
    """No region prefers a worker."""
    return []


def test_a_region_sits_near_where_it_wants_to_when_a_slot_there_fits() -> None:
    made = pool(1, 2, 3, offers="a")
    made.offer(W2, [offer("b"), offer("c")], 0)
    wishes = {1: [ResourceID("gone"), W2], 2: [W1], 3: [W1]}
    seats = made.assign(lambda region: wishes[region])
    assert [(seat.region, seat.worker) for seat in seats] == [(1, W2), (2, W1), (3, W2)]


def test_a_near_slot_that_does_not_fit_is_passed_over() -> None:
    made = pool(1, profile=LARGE)
    made.adopt(W1, offer("a"), 0)
    made.adopt(W2, offer("b", LARGE), 0)
    assert [seat.worker for seat in made.assign(lambda region: [W1])] == [W2]


def test_regions_sit_down_in_the_order_they_came() -> None:
    made = pool(5, 3, 4, offers="ab")
    assert made.assign(nowhere) == [
        SlotAssignment(RegionIndex(5), AllocationID("a"), W1),
        SlotAssignment(RegionIndex(3), AllocationID("b"), W1),
    ]
    assert list(made.waiting) == [4]
    assert made.assign(nowhere) == []


def test_a_slot_that_nobody_waits_for_is_kept_until_it_has_been_idle_too_long() -> None:
    made = pool(1, 2, offers="abc")
    made.assign(nowhere)
    assert list(made.slots) == ["a", "b", "c"]
    assert [slot.allocation_id for slot in made.surplus(0)] == ["c"]
    assert made.surplus(-1) == []
    assert not pool(offers="a").slots


def test_slots_that_fit_nobody_are_left() -> None:
    assert not pool(1, profile=LARGE, offers="ab").slots


def test_a_slot_that_was_not_wanted_is_not_taken_when_its_worker_has_not_heard_of_it() -> None:
    """The worker lets go of it when it hears of it, and a region that was deployed there would fail."""
    made = pool(offers="a")
    made.wait([RegionIndex(1)], SMALL)
    made.offer(W1, [offer("a")], 0)
    assert not made.slots
    made.offer(W1, [offer("a"), offer("b")], 0)
    assert list(made.slots) == ["b"]
    made.offer(W1, [offer("b")], 0)
    made.offer(W1, [offer("a"), offer("b")], 0)  # the word did not reach it: it has let go, and was asked again
    assert list(made.slots) == ["b", "a"]


def test_a_slot_that_was_let_go_of_is_not_taken_back_unless_its_worker_was_lost() -> None:
    made = pool(1, offers="ab")
    made.drop(AllocationID("b"))
    made.offer(W1, [offer("a"), offer("b")], 0)
    assert list(made.slots) == ["a"]
    made.drop_worker(W1)
    made.offer(W1, [offer("b")], 0)
    assert list(made.slots) == ["b"]


def test_a_repeated_offer_changes_nothing() -> None:
    made = pool(1, 2, offers="aa")
    assert list(made.slots) == ["a"]


def test_a_region_waits_on_while_only_slots_that_do_not_fit_are_free() -> None:
    made = pool(1, profile=LARGE)
    made.adopt(W1, offer("a"), 0)
    made.wait(regions(2), UNSPECIFIED)
    assert [seat.region for seat in made.assign(nowhere)] == [2]
    assert list(made.waiting) == [1]


def test_need_is_counted_until_a_region_ends_or_withdraws() -> None:
    made = pool(1, 2, offers="a")
    made.wait(regions(3), LARGE)
    made.assign(nowhere)
    assert made.requirements() == ((SMALL, 2), (LARGE, 1))
    made.withdraw(RegionIndex(2))
    made.withdraw(RegionIndex(2))
    made.vacate(RegionIndex(1), 7)
    made.vacate(RegionIndex(1), 8)
    assert made.requirements() == ((LARGE, 1),)
    assert made.slots[AllocationID("a")].idle_since_ms == 7


def test_a_dropped_slot_names_the_region_that_sat_in_it() -> None:
    made = pool(1, 2, offers="ab")
    made.assign(nowhere)
    made.vacate(RegionIndex(2), 0)
    assert made.drop(AllocationID("a")) == 1
    assert made.drop(AllocationID("b")) is None
    assert not made.is_seated(RegionIndex(1))
    assert made.requirements() == ()


def test_an_adopted_slot_has_its_region_at_once() -> None:
    made = SlotPool()
    made.adopt(W2, offer("a"), 0)
    made.adopt(W2, offer("a"), 0)
    made.seat_adopted(RegionIndex(4), AllocationID("a"), SMALL)
    assert made.seat_of(RegionIndex(4)) == "a"
    assert made.requirements() == ((SMALL, 1),)
    assert [slot.allocation_id for slot in made.of_worker(W2)] == ["a"]
    assert made.of_worker(W1) == []


def test_idle_slots_beyond_those_waited_for_are_surplus() -> None:
    made = SlotPool()
    for name, since in (("a", 10), ("b", 20), ("c", 30)):
        made.adopt(W1, offer(name), since)
    made.wait(regions(1), SMALL)
    assert [slot.allocation_id for slot in made.surplus(20)] == ["a", "b"]
    assert [slot.allocation_id for slot in made.surplus(10)] == ["a"]
    made.wait(regions(2, 3), SMALL)
    assert made.surplus(30) == []


BIG = SMALL.labelled(("big",))
ON_BIG = UNSPECIFIED.labelled(("big",))


def test_who_asks_for_a_label_sits_first_and_others_where_there_is_room() -> None:
    made = pool(1, 2, profile=UNSPECIFIED)
    made.wait(regions(3), ON_BIG)
    made.offer(W1, [offer("a", BIG), offer("b")], 0)
    assert [(seat.region, seat.allocation_id) for seat in made.assign(nowhere)] == [(3, "a"), (1, "b")]
    assert list(made.waiting) == [2]


def test_who_sits_in_a_labelled_slot_without_need_has_another_one_asked_for() -> None:
    made = pool(1, profile=UNSPECIFIED)
    made.offer(W1, [offer("a", BIG)], 0)
    made.assign(nowhere)
    made.wait(regions(2), ON_BIG)
    assert made.requirements() == ((ON_BIG, 2),)
    made.vacate(RegionIndex(1), 0)
    assert made.requirements() == ((ON_BIG, 1),)
    made.validate()


def test_slots_of_no_use_to_who_waits_are_surplus() -> None:
    made = pool(1, profile=UNSPECIFIED)
    made.offer(W1, [offer("a"), offer("b")], 0)
    made.assign(nowhere)
    made.wait(regions(2), ON_BIG)
    assert [slot.allocation_id for slot in made.surplus(idle_before_ms=0)] == ["b"]
    made.wait(regions(3), UNSPECIFIED)
    assert made.surplus(idle_before_ms=0) == []


def test_a_region_waits_once_and_not_while_it_sits() -> None:
    made = pool(1, 2, offers="a")
    made.assign(nowhere)
    with pytest.raises(AssertionError, match="does not wait for one"):
        made.wait(regions(1), SMALL)
    with pytest.raises(AssertionError, match="waits for one slot"):
        made.wait(regions(2), SMALL)
    with pytest.raises(AssertionError, match="one region at a time"):
        made.seat(RegionIndex(2), AllocationID("a"), SMALL)


class AnySequence(RuleBasedStateMachine):
    """Whatever happens to a pool, a slot holds one region and a region has one slot that fits it."""

    def __init__(self) -> None:
        super().__init__()
        self.pool, self.count, self.now_ms = SlotPool(), 0, 0
        self.wanted: dict[RegionIndex, ResourceProfile] = {}

    @rule(profile=st.sampled_from((SMALL, LARGE)))
    def wait(self, profile: ResourceProfile) -> None:
        self.count += 1
        self.wanted[RegionIndex(self.count)] = profile
        self.pool.wait(regions(self.count), profile)

    @rule(worker=st.sampled_from((W1, W2)), profile=st.sampled_from((SMALL, LARGE)), again=st.integers(0, 5))
    def offer(self, worker: ResourceID, profile: ResourceProfile, again: int) -> None:
        self.count += 1
        self.pool.offer(worker, [offer(f"s{self.count}", profile), offer(f"s{again}", profile)], self.now_ms)

    @rule()
    def assign(self) -> None:
        before = list(self.pool.waiting)
        made = [seat.region for seat in self.pool.assign(nowhere)]
        assert made == [region for region in before if region in made], "out of turn"
        for seat in made:
            assert self.pool.slots[self.pool.seat_of(seat)].profile.fits(self.wanted[seat])

    @precondition(lambda self: self.wanted)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        region = data.draw(st.sampled_from(list(self.wanted)))
        self.pool.withdraw(region)
        self.pool.vacate(region, self.now_ms)
        del self.wanted[region]

    @precondition(lambda self: self.pool.slots)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        region = self.pool.drop(data.draw(st.sampled_from(list(self.pool.slots))))
        if region is not None:
            del self.wanted[region]

    @invariant()
    def holds(self) -> None:
        self.pool.validate()
        seated = [region for region in self.wanted if self.pool.is_seated(region)]
        assert sorted(seated + list(self.pool.waiting)) == sorted(self.wanted)
        assert sum(count for _, count in self.pool.requirements()) == len(self.wanted)


TestAnySequence = AnySequence.TestCase
