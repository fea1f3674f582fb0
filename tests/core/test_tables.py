"""What a worker keeps: its slot table and its attempts. Repeats, late words and unknown names are harmless."""

from firesteel.core.slots.table import TaskSlotState, TaskSlotTable
from firesteel.core.taskexecutor.tasktable import TaskTable
from firesteel.model.ids import AllocationID, JobVertexID, RegionAttemptID, RegionIndex
from firesteel.model.reports import TaskStateUpdate
from firesteel.model.resources import ResourceProfile
from firesteel.model.states import ExecutionState
from firesteel.model.tasks import TaskDeployment, TaskProgress
from tests.core.graphs import JOB

A, B = AllocationID("a"), AllocationID("b")


def table(*allocations: AllocationID) -> TaskSlotTable:
    """Two slots, of which the first ones are given to the job."""
    made = TaskSlotTable(2, ResourceProfile(1.0, 1_024))
    for index, allocation in enumerate(allocations):
        assert made.allocate(index, allocation, JOB)
    return made


def states(slots: TaskSlotTable) -> list[str]:
    slots.validate()
    return [slot.state.name for slot in slots.slots]


def test_a_slot_is_given_once() -> None:
    slots = table(A)
    assert slots.allocate(0, A, JOB), "a repeat"
    assert not slots.allocate(0, B, JOB), "it is another allocation's"
    assert not slots.allocate(1, A, JOB), "an allocation has one slot"
    assert not slots.allocate(2, B, JOB), "there is no such slot"
    assert states(slots) == ["ALLOCATED", "FREE"]


def test_an_allocation_is_taken_up_once_and_freed_once() -> None:
    slots = table(A)
    slots.activate(A)
    slots.activate(A)
    assert states(slots) == ["ACTIVE", "FREE"]
    slots.free(A)
    assert slots.find(A) is None
    assert states(slots) == ["FREE", "FREE"]


def test_slots_that_were_offered_and_are_not_held_are_unwanted() -> None:
    slots = table(A, B)
    assert slots.reconcile(JOB, (), 10) == [], "not offered yet"
    assert [offer.allocation_id for offer in slots.offers(JOB, 5)] == [A, B]
    slots.offers(JOB, 6)
    assert slots.reconcile(JOB, (), 4) == [], "the answer is to an older report"
    assert [slot.allocation_id for slot in slots.reconcile(JOB, (B,), 5)] == [A]
    assert slots.is_offering(JOB)
    assert slots.slots[1].state is TaskSlotState.ACTIVE


def attempt(number: int = 0, region: int = 0) -> RegionAttemptID:
    return RegionAttemptID(JOB, RegionIndex(region), number)


def deployment(number: int = 0) -> TaskDeployment:
    return TaskDeployment(attempt=attempt(number), allocation_id=A, vertices=(JobVertexID("v"),), subtask=0)


def update(state: ExecutionState, number: int = 0) -> TaskStateUpdate:
    return TaskStateUpdate(attempt=attempt(number), state=state)


def test_an_attempt_is_admitted_once_and_no_older_one_after_it() -> None:
    tasks = TaskTable()
    assert tasks.admit(deployment(1))
    assert not tasks.admit(deployment(1))
    assert not tasks.admit(deployment(0))
    assert tasks.admit(deployment(2))


def test_an_attempt_that_is_cancelled_before_it_comes_never_starts() -> None:
    tasks = TaskTable()
    assert not tasks.cancel(attempt(1))
    assert tasks.unacknowledged == {attempt(1): update(ExecutionState.CANCELED, 1)}
    assert not tasks.admit(deployment(1))
    assert not tasks.admit(deployment(0))
    assert tasks.knows(attempt(0))
    assert not tasks.knows(attempt(2))


def test_cancelling_twice_is_done_once() -> None:
    tasks = TaskTable()
    tasks.admit(deployment())
    assert tasks.cancel(attempt())
    assert not tasks.cancel(attempt())
    assert tasks.change(update(ExecutionState.RUNNING))
    assert tasks.executions()[0].state is ExecutionState.CANCELING, "running is no news of a cancelled attempt"


def test_an_end_is_kept_until_it_is_acknowledged() -> None:
    tasks = TaskTable()
    tasks.admit(deployment())
    tasks.progress[attempt()] = TaskProgress(attempt=attempt())
    assert tasks.change(update(ExecutionState.RUNNING))
    assert tasks.change(update(ExecutionState.FINISHED))
    assert not tasks.change(update(ExecutionState.FAILED)), "an attempt ends once"
    assert not tasks.progress
    assert not tasks.sits_in(A)
    assert not tasks.cancel(attempt()), "too late, and how it ended is told again"
    assert tasks.unacknowledged == {attempt(): update(ExecutionState.FINISHED)}
    tasks.acknowledge(attempt())
    tasks.acknowledge(attempt())
    assert not tasks.unacknowledged
