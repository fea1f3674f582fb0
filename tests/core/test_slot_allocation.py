"""Which free slot goes to which job, and what the ResourceManager knows of slots."""

from hypothesis import given
from hypothesis import strategies as st

from firesteel.core.slots.allocation import AllocationPlan, plan_allocations
from firesteel.core.slots.manager import SLOT_REQUEST_TIMEOUT_MS, SlotManager
from firesteel.core.slots.tracker import SlotState, SlotTracker, TrackedWorker
from firesteel.model.ids import Address, AllocationID, FencingToken, InstanceID, JobID, ResourceID
from firesteel.model.messages import Leader, SlotReport, SlotStatus
from firesteel.model.resources import ResourceProfile

SMALL, MIDDLE, LARGE = ResourceProfile(1.0, 1_024), ResourceProfile(2.0, 2_048), ResourceProfile(4.0, 4_096)
TOKEN = FencingToken(7, "master")
Needs = dict[str, list[tuple[ResourceProfile, int]]]


def worker(tracker: SlotTracker, name: str, *profiles: ResourceProfile, taken: str = "") -> TrackedWorker:
    """A registered worker; the slots at the positions that `taken` does not mark with `.` are that job's."""
    made = TrackedWorker(ResourceID(name), InstanceID(name), Address(name), 0)
    tracker.add_worker(made)
    tracker.apply_report(
        made, SlotReport(1, tuple(status(name, i, p, taken[i : i + 1]) for i, p in enumerate(profiles)))
    )
    return made


def status(name: str, index: int, profile: ResourceProfile, job: str) -> SlotStatus:
    if job in ("", "."):
        return SlotStatus(index, profile)
    return SlotStatus(index, profile, AllocationID(f"{name}{index}"), JobID(job))


def tracker(needs: Needs, **workers: list[ResourceProfile]) -> SlotTracker:
    made = SlotTracker()
    for name, profiles in workers.items():
        worker(made, name, *profiles)
    for job, requirements in needs.items():
        made.add_job(JobID(job), Leader(Address(job), TOKEN))
        made.jobs[JobID(job)].requirements = tuple(requirements)
    return made


def planned(facts: SlotTracker, *, spread: bool = False) -> list[str]:
    return [f"{a.job_id}:{a.resource_id}/{a.index}" for a in plan_allocations(facts, spread=spread).allocations]


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


def test_slots_a_job_has_count_towards_its_need() -> None:
    facts = tracker({"j": [(SMALL, 2)], "k": [(SMALL, 1)]})
    worker(facts, "w1", SMALL, SMALL, SMALL, taken="j.k")
    assert planned(facts) == ["j:w1/1"]


def test_needs_that_no_worker_could_ever_meet_are_named() -> None:
    facts = tracker({"j": [(LARGE, 1), (SMALL, 1)]}, w1=[SMALL])
    plan = plan_allocations(facts, spread=False)
    assert plan.unfulfillable == ((JobID("j"), LARGE),)
    assert len(plan.allocations) == 1
    assert plan_allocations(tracker({"j": [(LARGE, 1)]}), spread=False) == AllocationPlan(), "no worker yet: wait"


@st.composite
def facts(draw: st.DrawFn, sizes: tuple[ResourceProfile, ...] = (SMALL, MIDDLE, LARGE)) -> SlotTracker:
    """Workers with slots of which some are taken, and jobs with needs."""
    made = SlotTracker()
    profiles = st.sampled_from(sizes)
    for number in range(draw(st.integers(0, 3))):
        slots = draw(st.lists(profiles, max_size=4))
        taken = "".join(draw(st.sampled_from(".ab")) for _ in slots)
        worker(made, f"w{number}", *slots, taken=taken)
    for name in draw(st.permutations(("a", "b", "c"))):
        made.add_job(JobID(name), Leader(Address(name), TOKEN))
        needs = draw(st.dictionaries(profiles, st.integers(1, 3)))
        made.jobs[JobID(name)].requirements = tuple(needs.items())
    return made


@given(facts(), st.booleans())
def test_a_slot_is_given_once_and_only_when_free(known: SlotTracker, spread: bool) -> None:
    given_ = [(a.resource_id, a.index) for a in plan_allocations(known, spread=spread).allocations]
    assert len(set(given_)) == len(given_)
    assert all(known.workers[name].slots[index].state is SlotState.FREE for name, index in given_)


@given(facts((SMALL,)), st.booleans())
def test_no_job_gets_more_than_it_needs(known: SlotTracker, spread: bool) -> None:
    plan = plan_allocations(known, spread=spread)
    held = [slot.job_id for w in known.workers.values() for slot in w.slots.values() if slot.job_id]
    for job_id, job in known.jobs.items():
        need = sum(count for _, count in job.requirements)
        got = sum(planned.job_id == job_id for planned in plan.allocations)
        assert got + held.count(job_id) <= max(need, held.count(job_id))


@given(facts(), st.booleans())
def test_no_slot_stays_free_that_an_open_need_fits(known: SlotTracker, spread: bool) -> None:
    """Nothing is held back: planning again with the plan carried out finds nothing to do."""
    manager = SlotManager(TOKEN, spread=spread)
    manager.tracker = known
    first = manager.requests(0)
    assert len({request.allocation_id for request in first}) == len(first)
    known.validate()
    assert manager.requests(0) == []


@given(facts(), st.booleans())
def test_a_plan_is_a_function_of_the_facts(known: SlotTracker, spread: bool) -> None:
    assert plan_allocations(known, spread=spread) == plan_allocations(known, spread=spread)


def manager(needs: Needs, **workers: list[ResourceProfile]) -> SlotManager:
    made = SlotManager(TOKEN, spread=False)
    made.tracker = tracker(needs, **workers)
    return made


def test_a_request_that_is_not_answered_in_time_is_made_again_under_a_new_name() -> None:
    slots = manager({"j": [(SMALL, 1)]}, w1=[SMALL])
    [first] = slots.requests(100)
    slots.expire(100 + SLOT_REQUEST_TIMEOUT_MS - 1)
    assert slots.requests(200) == []
    slots.expire(100 + SLOT_REQUEST_TIMEOUT_MS)
    [second] = slots.requests(200)
    assert (second.resource_id, second.index) == (first.resource_id, first.index)
    assert second.allocation_id != first.allocation_id


def test_what_a_worker_reports_overrules_unless_it_is_old() -> None:
    facts_ = tracker({}, w1=[SMALL, SMALL])
    known = facts_.workers[ResourceID("w1")]
    mine = SlotStatus(0, SMALL, AllocationID("x"), JobID("j"))
    facts_.apply_report(known, SlotReport(2, (mine,)))
    assert facts_.counts() == (2, 1)
    facts_.apply_report(known, SlotReport(2, (SlotStatus(0, SMALL),)))
    assert facts_.counts() == (2, 1), "old news"
    facts_.apply_report(known, SlotReport(3, (SlotStatus(0, SMALL),)))
    assert facts_.counts() == (2, 2)


def test_a_report_does_not_undo_a_request_on_its_way() -> None:
    slots = manager({"j": [(SMALL, 1)]}, w1=[SMALL])
    [request] = slots.requests(0)
    known = slots.tracker.workers[ResourceID("w1")]
    slots.tracker.apply_report(known, SlotReport(2, (SlotStatus(0, SMALL),)))
    slots.tracker.release_pending(known, AllocationID("another"))
    assert slots.tracker.counts() == (1, 0)
    slots.tracker.release_pending(known, request.allocation_id)
    assert slots.tracker.counts() == (1, 1)
