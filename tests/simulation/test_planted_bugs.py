"""Bugs planted on purpose: the simulator must find each within the number of seeds that stands beside it."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import pytest

from firesteel.core import jobmaster
from firesteel.core.effects import Effect, Event
from firesteel.core.execution.graph import ExecutionGraph
from firesteel.core.execution.tasktable import TaskTable
from firesteel.core.execution.topology import Regions
from firesteel.core.journal import JobState
from firesteel.core.machine import Core, JournaledCore
from firesteel.core.scheduler import failover, quarantine, splits
from firesteel.core.scheduler.scheduler import DefaultScheduler
from firesteel.core.slots.connection import WorkerRegistration
from firesteel.core.taskexecutor import TaskExecutorCore
from firesteel.model import messages as m
from firesteel.model.ids import JobID, RegionAttemptID, RegionIndex
from firesteel.model.splits import DrawnSplits
from firesteel.model.states import ExecutionState
from firesteel.model.tasks import SinkCommit
from firesteel.testing.simulation.run import SimulationFailure, run_seed
from firesteel.testing.simulation.spark import FakeSpark
from firesteel.testing.simulation.world import Endpoint


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug: what it breaks, and within how many seeds it is found."""

    plant: Callable[[pytest.MonkeyPatch], None]
    seeds: int


def no_fence_at_masters(patch: pytest.MonkeyPatch) -> None:
    """Masters open letters that were meant for another session."""
    patch.setattr(Core, "_admits", lambda core, envelope: True)


def no_fence_at_workers(patch: pytest.MonkeyPatch) -> None:
    """Workers obey whoever speaks, also a master that was deposed."""

    def obey(core: TaskExecutorCore, envelope: m.Envelope, job_id: JobID) -> None:
        assert envelope.sender_token is not None
        sender = m.Leader(envelope.sender, envelope.sender_token)
        if job_id in core.jobs:
            core._obey(job_id, core._connect(job_id, sender), envelope.body)
        else:
            core._on_unknown_job(sender, job_id, envelope.body)

    patch.setattr(TaskExecutorCore, "_on_job_master", obey)
    patch.setattr(WorkerRegistration, "is_from_leader", lambda registration, envelope: True)


def no_fence(patch: pytest.MonkeyPatch) -> None:
    """Nobody compares tokens."""
    no_fence_at_masters(patch)
    no_fence_at_workers(patch)


def slot_freed_under_an_attempt(patch: pytest.MonkeyPatch) -> None:
    """A worker gives a slot back while an attempt sits in it."""
    patch.setattr(TaskTable, "sits_in", lambda table, allocation_id: False)


def slot_freed_twice(patch: pytest.MonkeyPatch) -> None:
    """A slot counts as free when its attempt is asked to end, and once more when it has ended."""
    cancel = DefaultScheduler.cancel_regions

    def cancel_and_vacate(scheduler: DefaultScheduler, regions: Regions, now_ms: int) -> None:
        cancel(scheduler, regions, now_ms)
        for region in regions.tolist():
            if scheduler.graph.state_of(region) is ExecutionState.CANCELING:
                scheduler.pool.vacate(RegionIndex(region), now_ms)

    patch.setattr(DefaultScheduler, "cancel_regions", cancel_and_vacate)


def acknowledged_before_durable(patch: pytest.MonkeyPatch) -> None:
    """What depends on the journal is said before the journal has it."""
    handle = JournaledCore.handle

    def handle_at_once(core: JournaledCore, event: Event, now_ms: int) -> list[Effect]:
        effects = handle(core, event, now_ms)
        core._durable = core._sequence
        return effects + core._release()

    patch.setattr(JournaledCore, "handle", handle_at_once)


def commit_not_idempotent(patch: pytest.MonkeyPatch) -> None:
    """A commit that is performed again becomes visible again."""
    commit = FakeSpark._commit
    performed = [0]

    def commit_again(spark: FakeSpark, endpoint: Endpoint, job_id: JobID, it: SinkCommit) -> None:
        done = spark.storage.visible.get(it.target, {})
        if it.commit_id in done:
            performed[0] += 1
            done[f"{it.commit_id} again {performed[0]}"] = done[it.commit_id]
        commit(spark, endpoint, job_id, it)

    patch.setattr(FakeSpark, "_commit", commit_again)


def zombies_count(patch: pytest.MonkeyPatch) -> None:
    """The results of an attempt that is not the current one are accepted."""

    def is_any(graph: ExecutionGraph, attempt: RegionAttemptID) -> bool:
        return attempt.job_id == graph.job_id and 0 <= attempt.region < len(graph.state)

    patch.setattr(ExecutionGraph, "is_current", is_any)


def consumers_stay(patch: pytest.MonkeyPatch) -> None:
    """What has read from a producer that runs again goes on with what it has read."""
    reached = failover._reached

    def producers_only(logical, graph, partitions, marked):
        return reached(logical, graph, partitions, marked)[: len(logical.inputs)]

    patch.setattr(failover, "_reached", producers_only)


def splits_lost_with_their_attempt(patch: pytest.MonkeyPatch) -> None:
    """What a failed attempt had drawn does not go back."""
    draw = splits.SplitAssigners._drawn
    given: dict[int, dict[int, None]] = {}

    def drawn_ever(assigners: splits.SplitAssigners, finder: RegionIndex, state: JobState) -> list[int]:
        known = given.setdefault(id(assigners), {})
        known.update(dict.fromkeys(draw(assigners, finder, state)))
        return list(known)

    patch.setattr(splits.SplitAssigners, "_drawn", drawn_ever)
    patch.setattr(splits.SplitAssigners, "validate", lambda assigners, state: None)


def splits_drawn_again_after_a_change(patch: pytest.MonkeyPatch) -> None:
    """A new JobMaster does not know what the former one has handed out."""
    make = splits.SplitAssigner.__init__
    patch.setattr(
        splits.SplitAssigner, "__init__", lambda it, enumeration, drawn, subtasks: make(it, enumeration, (), subtasks)
    )
    patch.setattr(splits.SplitAssigners, "validate", lambda assigners, state: None)


def draws_not_idempotent(patch: pytest.MonkeyPatch) -> None:
    """A request that comes again is given more."""
    draw = splits.draw_splits

    def draw_anew(scheduler: DefaultScheduler, request: m.SplitRequest, now_ms: int) -> DrawnSplits | None:
        made = scheduler.state.draws.get(request.attempt.region, ())
        again = draw(scheduler, m.SplitRequest(request.attempt, len(made), request.host), now_ms)
        return again and msgspec.structs.replace(again, number=request.number)

    patch.setattr(jobmaster, "draw_splits", draw_anew)


def restarts_adopted(patch: pytest.MonkeyPatch) -> None:
    """A new JobMaster adopts attempts that the former one had decided to cancel (a bug we had)."""
    restore = ExecutionGraph.restore

    def restore_as_running(graph: ExecutionGraph, regions: Regions, state: ExecutionState) -> None:
        restore(graph, regions, ExecutionState.RECONCILING if state is ExecutionState.CANCELING else state)

    patch.setattr(ExecutionGraph, "restore", restore_as_running)


def suspects_have_company(patch: pytest.MonkeyPatch) -> None:
    """A region that has been in two backends which died runs among others again."""
    patch.setattr(quarantine, "runs_alone", lambda state, region: False)


PLANTS = {
    plant.__name__: Plant(plant, seeds)
    for plant, seeds in (
        (no_fence, 10),
        (no_fence_at_masters, 50),
        (no_fence_at_workers, 10),
        (slot_freed_under_an_attempt, 600),  # rare: about one seed in 300 finds it
        (slot_freed_twice, 30),
        (acknowledged_before_durable, 50),
        (commit_not_idempotent, 10),
        (zombies_count, 50),
        (consumers_stay, 30),
        (restarts_adopted, 30),
        (splits_lost_with_their_attempt, 50),
        (splits_drawn_again_after_a_change, 50),
        (draws_not_idempotent, 50),
        (suspects_have_company, 30),
    )
}


def seeds_needed(limit: int) -> int | None:
    """How many seeds it takes until one fails, if that many are enough."""
    for seed in range(limit):
        try:
            run_seed(seed)
        except SimulationFailure:
            return seed + 1
    return None


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTS[name].plant(monkeypatch)
    assert seeds_needed(PLANTS[name].seeds) is not None, f"not found within {PLANTS[name].seeds} seeds"
