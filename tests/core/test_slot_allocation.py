"""Which free slot goes to which job, and what the ResourceManager knows of slots."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.core.slots.allocation import Caps, plan_allocations
from firesteel.core.slots.manager import SLOT_ANSWER_TIMEOUT_MS, SlotManager
from firesteel.core.slots.queue import can_ever_hold, queue_places
from firesteel.core.slots.tracker import SlotState, SlotTracker, TrackedWorker
from firesteel.model.ids import Address, AllocationID, FencingToken, InstanceID, JobID, ResourceID
from firesteel.model.messages import Leader
from firesteel.model.reports import SlotAllocation, SlotReport
from firesteel.model.resources import UNSPECIFIED, ResourceProfile

SMALL, MIDDLE, LARGE = ResourceProfile(1.0, 1_024), ResourceProfile(2.0, 2_048), ResourceProfile(4.0, 4_096)
TOKEN = FencingToken(7, "master")
SIZES = ((SMALL, 1), (SMALL, 1))
Needs = dict[str, list[tuple[ResourceProfile, int]]]


def worker(tracker: SlotTracker, name: str, *profiles: ResourceProfile, taken: str = "") -> TrackedWorker:
    """A registered worker; the slots at the positions that `taken` does not mark with `.` are that job's."""
    made = TrackedWorker(ResourceID(name), InstanceID(name), Address(name), 0)
    tracker.add_worker(made)
    owners = ((index, job) for index, job in enumerate(taken) if job != ".")
    allocations = (SlotAllocation(index, AllocationID(f"{name}{index}"), JobID(job)) for index, job in owners)
    tracker.apply_report(made, SlotReport(1, tuple((profile, 1) for profile in profiles), tuple(allocations)))
    return made


def tracker(needs: Needs, **workers: list[ResourceProfile]) -> SlotTracker:
    made = SlotTracker()
    for name, profiles in workers.items():
        worker(made, name, *profiles)
    for job, requirements in needs.items():
        made.add_job(JobID(job), Leader(Address(job), TOKEN))
        made.jobs[JobID(job)].requirements = tuple(requirements)
    return made


NO_CAPS: Caps = {}


def planned(facts: SlotTracker, caps: Caps = NO_CAPS, *, spread: bool = False) -> list[str]:
    return [f"{a.job_id}:{a.resource_id}/{a.index}" for a in plan_allocations(facts, caps, spread=spread)]


def test_jobs_that_came_first_are_served_first() -> None:
    facts = tracker({"late": [(SMALL, 2)], "later": [(SMALL, 2)]}, w1=[SMALL] * 3)
    assert planned(facts) == ["late:w1/0", "late:w1/1", "later:w1/2"]
    facts.add_job(JobID("late"), Leader(Address("late"), FencingToken(8, "other")))
    facts.jobs[JobID("late")].requirements = ((SMALL, 2),)
    assert planned(facts)[0] == "late:w1/0", "a new leader keeps the job's place"


def test_larger_profiles_choose_first() -> None:
    assert planned(tracker({"j": [(SMALL, 1), (LARGE, 1)]}, w1=[LARGE, SMALL])) == ["j:w1/0", "j:w1/1"]
    assert planned(tracker({"j": [(SMALL, 1), (LARGE, 1)]}, w1=[LARGE])) == ["j:w1/0"]


def test_spread_takes_the_emptiest_worker_else_workers_are_filled() -> None:
    facts = tracker({"j": [(SMALL, 3)]}, w1=[SMALL] * 2, w2=[SMALL] * 2)
    assert planned(facts) == ["j:w1/0", "j:w1/1", "j:w2/0"]
    assert planned(facts, spread=True) == ["j:w1/0", "j:w2/0", "j:w1/1"]


def test_the_emptiest_worker_is_the_one_of_whose_slots_the_smallest_part_is_taken() -> None:
    facts = tracker({"j": [(SMALL, 2)], "k": [(SMALL, 5)]})
    worker(facts, "large", *[SMALL] * 8, taken="kkkkk...")
    worker(facts, "small", *[SMALL] * 2, taken="..")
    assert planned(facts, spread=True) == ["j:small/0", "j:small/1"]


def test_slots_a_job_has_count_towards_its_need() -> None:
    facts = tracker({"j": [(SMALL, 2)], "k": [(SMALL, 1)]})
    worker(facts, "w1", SMALL, SMALL, SMALL, taken="j.k")
    assert planned(facts) == ["j:w1/1"]


def test_higher_priority_then_age_then_registration_decide_who_is_served() -> None:
    facts = tracker({name: [(SMALL, 1)] for name in ("young", "old", "urgent", "first", "second")}, w1=[SMALL] * 5)
    for name, priority, since_ms in (
        ("young", 0, 9),
        ("old", 0, 1),
        ("urgent", 5, 99),
        ("first", 0, 5),
        ("second", 0, 5),
    ):
        facts.jobs[JobID(name)].priority, facts.jobs[JobID(name)].since_ms = priority, since_ms
    order = ["urgent", "old", "first", "second", "young"]
    assert planned(facts) == [f"{name}:w1/{index}" for index, name in enumerate(order)]
    assert list(queue_places(facts, {})) == order


def test_jobs_of_a_capped_queue_hold_no_more_slots_than_it_has() -> None:
    facts = tracker({"a": [(SMALL, 3)], "b": [(SMALL, 2)], "c": [(SMALL, 1)]})
    facts.jobs[JobID("a")].queue = facts.jobs[JobID("b")].queue = "etl"
    worker(facts, "w1", SMALL, SMALL, SMALL, SMALL, taken="a...")
    assert planned(facts, {"etl": 3, "other": 1}) == ["a:w1/1", "a:w1/2", "c:w1/3"]
    assert planned(facts, {"etl": 1}) == ["c:w1/1"]


def test_who_waits_is_told_the_place_and_the_reason() -> None:
    facts = tracker(
        {"a": [(SMALL, 2), (LARGE, 1)], "b": [(SMALL, 1)], "c": [(SMALL, 1)], "d": [(MIDDLE, 1)], "none": []}
    )
    facts.jobs[JobID("b")].queue = "etl"

    def places() -> list[str]:
        return [
            f"{p.place} {job} lacks {p.slots_missing}: {p.reason}" for job, p in queue_places(facts, {"etl": 1}).items()
        ]

    waiting = "no worker is registered"
    assert places() == [
        f"1 a lacks 3: {waiting}",
        f"2 b lacks 1: {waiting}",
        f"3 c lacks 1: {waiting}",
        f"4 d lacks 1: {waiting}",
    ]
    facts.add_job(JobID("e"), Leader(Address("e"), TOKEN)).queue = "etl"
    worker(facts, "w1", SMALL, LARGE, taken="ea")
    assert places() == [
        "1 a lacks 2: all 2 slots are taken",
        "2 b lacks 1: the jobs of queue etl hold its only slot",
        "3 c lacks 1: all 2 slots are taken",
        "4 d lacks 1: all 2 slots are taken",
    ]
    worker(facts, "w2", SMALL)
    assert places()[-2:] == [
        "3 c lacks 1: a slot is free: it is being requested",
        "4 d lacks 1: every slot of 2 cores and 2048 MiB is taken",
    ]
    facts.remove_worker(ResourceID("w1"))
    assert places()[-1] == "4 d lacks 1: no registered worker has a slot of 2 cores and 2048 MiB"
    assert can_ever_hold(facts, MIDDLE), "a worker that had one may come back"
    assert not can_ever_hold(facts, ResourceProfile(64.0, 1))


BIG, GPU, BOTH = (SMALL.labelled(labels) for labels in (("big",), ("gpu",), ("gpu", "big")))


def on(*labels: str) -> ResourceProfile:
    """Any size, on a worker with these labels."""
    return UNSPECIFIED.labelled(labels)


@pytest.mark.parametrize("spread", [False, True])
def test_slots_go_to_who_asks_for_their_labels_and_others_take_those_with_fewest(spread: bool) -> None:
    facts = tracker({"j": [(on("big"), 3), (UNSPECIFIED, 2)]}, w1=[BOTH] * 2, w2=[BIG], w3=[SMALL], w4=[GPU] * 2)
    assert planned(facts, spread=spread) == ["j:w2/0", "j:w1/0", "j:w1/1", "j:w3/0", "j:w4/0"]


def test_a_held_slot_meets_the_need_that_no_other_one_can() -> None:
    facts = tracker({"j": [(LARGE, 1), (on("big"), 1)]})
    worker(facts, "w1", LARGE.labelled(("big",)), LARGE, taken="jj")
    worker(facts, "w2", LARGE.labelled(("big",)))
    assert planned(facts) == []


def test_who_waits_for_a_label_is_told_so() -> None:
    facts = tracker({"j": [(on("gpu", "big"), 1)]}, w1=[BIG], w2=[GPU])
    worker(facts, "w3", SMALL)

    def reason() -> str:
        return queue_places(facts, {})[JobID("j")].reason

    assert planned(facts) == []
    assert reason() == "no registered worker has the labels big, gpu"
    assert can_ever_hold(facts, on("gpu", "big")), "a worker with these labels may come"
    assert not can_ever_hold(facts, ResourceProfile(64.0, 1, ("gpu",)))
    worker(facts, "w4", BOTH, taken="k")
    assert reason() == "every slot of labels big, gpu is taken"
    facts.jobs[JobID("j")].requirements = ((LARGE.labelled(("gpu",)), 1),)
    assert reason() == "no registered worker has a slot of 4 cores and 4096 MiB, label gpu"


@st.composite
def facts(draw: st.DrawFn, sizes: tuple[ResourceProfile, ...] = (SMALL, MIDDLE, LARGE)) -> SlotTracker:
    """Workers with slots of which some are taken, and jobs with needs."""
    made = SlotTracker()
    labels = st.sampled_from(((), ("a",), ("a", "b")) if len(sizes) > 1 else ((),))
    profiles = st.builds(ResourceProfile.labelled, st.sampled_from(sizes), labels)
    for number in range(draw(st.integers(0, 3))):
        mine = draw(labels)
        slots = [size.labelled(mine) for size in draw(st.lists(st.sampled_from(sizes), max_size=4))]
        taken = "".join(draw(st.sampled_from(".ab")) for _ in slots)
        worker(made, f"w{number}", *slots, taken=taken)
    for name in draw(st.permutations(("a", "b", "c"))):
        made.add_job(JobID(name), Leader(Address(name), TOKEN))
        needs = draw(st.dictionaries(profiles, st.integers(1, 3)))
        made.jobs[JobID(name)].requirements = tuple(needs.items())
    return made


@given(facts(), st.booleans())
def test_a_slot_is_given_once_and_only_when_free(known: SlotTracker, spread: bool) -> None:
    given_ = [(a.resource_id, a.index) for a in plan_allocations(known, {}, spread=spread)]
    assert len(set(given_)) == len(given_)
    assert all(known.workers[name].slots[index].state is SlotState.FREE for name, index in given_)


@given(facts((SMALL,)), st.booleans())
def test_no_job_gets_more_than_it_needs(known: SlotTracker, spread: bool) -> None:
    plan = plan_allocations(known, {}, spread=spread)
    held = [slot.job_id for w in known.workers.values() for slot in w.slots.values() if slot.job_id]
    for job_id, job in known.jobs.items():
        need = sum(count for _, count in job.requirements)
        got = sum(planned.job_id == job_id for planned in plan)
        assert got + held.count(job_id) <= max(need, held.count(job_id))


@given(facts(), st.booleans())
def test_no_slot_stays_free_that_an_open_need_fits(known: SlotTracker, spread: bool) -> None:
    """Nothing is held back: planning again with the plan carried out finds nothing to do."""
    manager = SlotManager(TOKEN, {}, spread=spread)
    manager.tracker = known
    first = manager.requests(0)
    assert len({request.allocation_id for request in first}) == len(first)
    known.validate()
    assert manager.requests(0) == []


@given(facts(), st.booleans())
def test_a_plan_is_a_function_of_the_facts(known: SlotTracker, spread: bool) -> None:
    assert plan_allocations(known, {}, spread=spread) == plan_allocations(known, {}, spread=spread)


def manager(needs: Needs, **workers: list[ResourceProfile]) -> SlotManager:
    made = SlotManager(TOKEN, {}, spread=False)
    made.tracker = tracker(needs, **workers)
    return made


def test_a_request_that_is_not_answered_in_time_is_made_again_under_a_new_name() -> None:
    slots = manager({"j": [(SMALL, 1)]}, w1=[SMALL])
    [first] = slots.requests(100)
    slots.expire(100 + SLOT_ANSWER_TIMEOUT_MS - 1)
    assert slots.requests(200) == []
    slots.expire(100 + SLOT_ANSWER_TIMEOUT_MS)
    [second] = slots.requests(200)
    assert (second.resource_id, second.index) == (first.resource_id, first.index)
    assert second.allocation_id != first.allocation_id


def test_what_a_worker_reports_overrules_unless_it_is_old() -> None:
    facts_ = tracker({}, w1=[SMALL, SMALL])
    known = facts_.workers[ResourceID("w1")]
    facts_.apply_report(known, SlotReport(2, SIZES, (SlotAllocation(0, AllocationID("x"), JobID("j")),)))
    assert facts_.counts() == (2, 1)
    facts_.apply_report(known, SlotReport(2, SIZES))
    assert facts_.counts() == (2, 1), "old news"
    facts_.apply_report(known, SlotReport(3, SIZES))
    assert facts_.counts() == (2, 2)


def test_an_allocation_has_one_slot_also_when_its_worker_says_otherwise() -> None:
    facts_ = tracker({}, w1=[SMALL, SMALL])
    known = facts_.workers[ResourceID("w1")]
    first, second, nowhere = (SlotAllocation(index, AllocationID("x"), JobID("j")) for index in (0, 1, 2))
    for sequence, told in enumerate((first, second), start=2):
        facts_.apply_report(known, SlotReport(sequence, SIZES, (told,)))
        facts_.validate()
        assert list(known.taken.values()) == [known.slots[told.index]]
    facts_.apply_report(known, SlotReport(4, SIZES, (nowhere,)))
    facts_.validate()
    assert facts_.counts() == (2, 2), "a slot that it has never told of"


def test_a_report_does_not_undo_a_request_on_its_way() -> None:
    slots = manager({"j": [(SMALL, 1)]}, w1=[SMALL])
    [request] = slots.requests(0)
    known = slots.tracker.workers[ResourceID("w1")]
    slots.tracker.apply_report(known, SlotReport(2, SIZES[:1]))
    slots.tracker.release_pending(known, (AllocationID("another"),))
    assert slots.tracker.counts() == (1, 0)
    slots.tracker.release_pending(known, (request.allocation_id,))
    assert slots.tracker.counts() == (1, 1)
