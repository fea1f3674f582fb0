"""Bugs planted on purpose: the simulator must find each within the seeds that stand beside it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from firesteel.adapters.ha.joblog import JobLog
from firesteel.core.dispatcher.dispatcher import DispatcherCore
from firesteel.core.dispatcher.jobentry import JobEntry
from firesteel.core.dispatcher.requests import StoreJobResult
from firesteel.core.effects import Effect, Event
from firesteel.core.execution.graph import ExecutionGraph
from firesteel.core.execution.topology import Regions
from firesteel.core.jobmaster.jobmaster import JobMasterCore
from firesteel.core.jobmaster.knownworkers import KnownWorkers
from firesteel.core.journal.journal import JobState
from firesteel.core.journal.storedjobs import AnyEntry
from firesteel.core.machine import Core, JournaledCore
from firesteel.core.resourcemanager.resourcemanager import ResourceManagerCore
from firesteel.core.scheduler import failover, quarantine, scheduler, splits
from firesteel.core.scheduler.executions import Executions
from firesteel.core.slots.allocation import FreeSlots
from firesteel.core.slots.connection import WorkerRegistration
from firesteel.core.slots.tracker import TrackedWorker
from firesteel.core.taskexecutor.jobconnection import JobConnection
from firesteel.core.taskexecutor.taskexecutor import TaskExecutorCore
from firesteel.core.taskexecutor.tasktable import TaskTable
from firesteel.model import messages as m
from firesteel.model.ids import JobID, RegionAttemptID, RegionIndex
from firesteel.model.reports import SplitRequest
from firesteel.model.resources import ResourceProfile
from firesteel.model.splits import DrawnSplits
from firesteel.model.states import ExecutionState
from firesteel.model.tasks import SinkCommit
from firesteel.model.views import JobResult, JobView
from firesteel.testing.power import FakeSystem
from firesteel.testing.simulation import regressions
from firesteel.testing.simulation.cores.run import run_seed
from firesteel.testing.simulation.cores.spark import FakeSpark
from firesteel.testing.simulation.cores.world import SimulatedEndpoint
from firesteel.testing.simulation.summary import SimulationFailure
from tests.simulation.decisionplants import (
    acknowledged_before_the_group_is_through,
    ended_jobs_go_on,
    failed_once_and_not_again,
    failures_of_the_storage_count,
    first_failure_is_the_last,
    only_the_last_of_a_group_is_written,
    sessions_go_on,
    shown_as_archived_before_it_is_stored,
    the_shares_of_others_are_not_read,
)
from tests.simulation.leaderplants import (
    clients_not_watched_by_a_new_leader,
    resource_manager_believed,
    running_attempts_not_adopted,
    standing_still_counts,
    unread_beats_of_clients_forgotten,
    workers_get_no_time_to_report,
)


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug: what it breaks, and the seeds one of which finds it. A range begins with the first that has found it."""

    plant: Callable[[pytest.MonkeyPatch], None]
    seeds: range


def no_fence_at_masters(patch: pytest.MonkeyPatch) -> None:
    """Masters open letters that were meant for another session."""
    patch.setattr(Core, "_admits", lambda core, envelope: True)


def no_fence_at_workers(patch: pytest.MonkeyPatch) -> None:
    """Workers obey whoever speaks, also a master that was deposed."""

    def obey(core: TaskExecutorCore, envelope: m.Envelope, job_id: JobID, body: m.FromJobMaster) -> None:
        assert envelope.sender_token is not None
        sender = m.Leader(envelope.sender, envelope.sender_token)
        if job_id in core.jobs:
            core._obey(job_id, core._connect(job_id, sender), body)
        else:
            core._on_unknown_job(sender, job_id, body)

    patch.setattr(TaskExecutorCore, "_on_job_master", obey)
    patch.setattr(WorkerRegistration, "is_from_leader", lambda registration, envelope: True)


def no_fence(patch: pytest.MonkeyPatch) -> None:
    """Nobody compares tokens."""
    no_fence_at_masters(patch)
    no_fence_at_workers(patch)


def slot_freed_under_an_attempt(patch: pytest.MonkeyPatch) -> None:
    """A worker gives a slot back while an attempt sits in it."""
    allocated = TaskExecutorCore._on_allocated

    def free_all(core: TaskExecutorCore, job_id: JobID, job: JobConnection, body: m.AllocatedSlots) -> None:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(TaskTable, "sits_in", lambda table, allocation_id: False)
            allocated(core, job_id, job, body)

    patch.setattr(TaskExecutorCore, "_on_allocated", free_all)


def two_in_a_slot(patch: pytest.MonkeyPatch) -> None:
    """A worker starts an attempt in a slot in which a former one still is (a bug we had)."""
    patch.setattr(TaskTable, "seats", lambda table: {})


def old_news_counts(patch: pytest.MonkeyPatch) -> None:
    """A JobMaster takes reports and acknowledgements that come late for new ones."""
    known = KnownWorkers.is_newer
    patch.setattr(
        KnownWorkers, "is_newer", lambda workers, worker, seq, now: known(workers, worker, 1 << 60, now) or True
    )


def result_after_cleanup(patch: pytest.MonkeyPatch) -> None:
    """A Dispatcher records the end of a job whenever it is told, also when it has cleaned up."""
    terminated = DispatcherCore._on_terminated

    def record_again(core: DispatcherCore, job: JobEntry, result: JobResult, view: JobView | None) -> None:
        repeated = job.result is not None
        terminated(core, job, result, view)
        if repeated:
            core._effects.append(StoreJobResult(result))

    patch.setattr(DispatcherCore, "_on_terminated", record_again)


def end_shown_early(patch: pytest.MonkeyPatch) -> None:
    """A job is shown as ended before that is durable (a bug we had)."""
    patch.setattr(JobMasterCore, "_shown", lambda core, may_end: core.status)


def cancel_acknowledged_early(patch: pytest.MonkeyPatch) -> None:
    """A client hears that its job is cancelled before a JobMaster has that safe."""
    cancel = DispatcherCore._cancel

    def cancel_and_say_so(core: DispatcherCore, job: JobEntry, request_id: int) -> None:
        cancel(core, job, request_id)
        core._answer_cancels(job)

    patch.setattr(DispatcherCore, "_cancel", cancel_and_say_so)


def no_second_look(patch: pytest.MonkeyPatch) -> None:
    """Who has written to the log does not look for another claim before he says so: not of a submission either."""
    patch.setattr(JobLog, "_check", lambda log: None)


def not_synced(patch: pytest.MonkeyPatch) -> None:
    """What is written stays in the operating system's memory."""
    sync = FakeSystem.fsync

    def sync_directories(system: FakeSystem, descriptor: int) -> None:
        if system._open[descriptor][0] is None:
            sync(system, descriptor)

    patch.setattr(FakeSystem, "fsync", sync_directories)


def goes_on_after_a_failed_write(patch: pytest.MonkeyPatch) -> None:
    """A write that failed may be there or not, and the next one goes behind it."""
    append = JobLog.append

    def append_anyway(log: JobLog, entries: list[AnyEntry]) -> None:
        log._sound = log._claim is not None
        append(log, entries)

    patch.setattr(JobLog, "append", append_anyway)


def former_masters_followed(patch: pytest.MonkeyPatch) -> None:
    """A worker takes late news of a former ResourceManager for news."""

    def follow(registration: WorkerRegistration, leader: m.Leader | None, now_ms: int) -> None:
        registration.leader, registration.instance_id, registration.heard_ms = leader, None, now_ms

    patch.setattr(WorkerRegistration, "follow", follow)


def slot_freed_twice(patch: pytest.MonkeyPatch) -> None:
    """A slot counts as free when its attempt is asked to end, and once more when it has ended."""
    cancel = Executions.cancel

    def cancel_and_vacate(executions: Executions, regions: Regions, now_ms: int) -> None:
        cancel(executions, regions, now_ms)
        for region in regions.tolist():
            if executions.graph.state_of(region) is ExecutionState.CANCELING:
                executions.pool.vacate(RegionIndex(region), now_ms)

    patch.setattr(Executions, "cancel", cancel_and_vacate)


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

    def commit_again(spark: FakeSpark, endpoint: SimulatedEndpoint, job_id: JobID, it: SinkCommit) -> None:
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


def attempts_without_limit(patch: pytest.MonkeyPatch) -> None:
    """What a function says of its retries counts for nothing where there is a restart strategy (as it did without one)."""
    patch.setattr(failover, "attempt_limits", lambda graph, regions: {})


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

    def draw_anew(executions: Executions, request: SplitRequest, now_ms: int) -> DrawnSplits | None:
        made = executions.state.draws.get(request.attempt.region, ())
        again = draw(executions, SplitRequest(request.attempt, len(made), request.host), now_ms)
        return again and msgspec.structs.replace(again, number=request.number)

    patch.setattr(scheduler, "draw_splits", draw_anew)


def restarts_adopted(patch: pytest.MonkeyPatch) -> None:
    """A new JobMaster adopts attempts that the former one had decided to cancel (a bug we had)."""
    restore = ExecutionGraph.restore

    def restore_as_running(graph: ExecutionGraph, regions: Regions, state: ExecutionState) -> None:
        restore(graph, regions, ExecutionState.RECONCILING if state is ExecutionState.CANCELING else state)

    patch.setattr(ExecutionGraph, "restore", restore_as_running)


def suspects_have_company(patch: pytest.MonkeyPatch) -> None:
    """A region that has been in two backends which died runs among others again."""
    patch.setattr(quarantine, "runs_alone", lambda state, region: False)


def lost_workers_get_requests(patch: pytest.MonkeyPatch) -> None:
    """Slots of a worker that a job has lost are given away all the same (as they were once)."""
    patch.setattr(TrackedWorker, "to_give", property(lambda worker: worker.free))


def unheard_is_nobodys(patch: pytest.MonkeyPatch) -> None:
    """A worker that was cut off as jobs ended holds on to them until its patience is over (as it did once)."""
    patch.setattr(ResourceManagerCore, "_ask_for_jobs", lambda core, report: None)


def labels_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    """Whoever gives or takes a slot sees only how large it is."""
    fits = ResourceProfile.fits
    patch.setattr(ResourceProfile, "fits", lambda slot, request: fits(slot, request.size))
    free = FreeSlots.take
    patch.setattr(FreeSlots, "take", lambda slots, wanted: free(slots, wanted.size))


PLANTS = {
    plant.__name__: Plant(plant, range(first, last))
    for plant, first, last in (
        (no_fence, 0, 10),
        (no_fence_at_masters, 0, 20),
        (no_fence_at_workers, 8, 58),
        (former_masters_followed, 67, 117),
        (slot_freed_under_an_attempt, 85, 135),
        (slot_freed_twice, 22, 72),
        (two_in_a_slot, 380, 430),
        (old_news_counts, 0, 30),
        (acknowledged_before_durable, 0, 10),
        (acknowledged_before_the_group_is_through, 0, 50),
        (only_the_last_of_a_group_is_written, 0, 10),
        (end_shown_early, 0, 20),
        (shown_as_archived_before_it_is_stored, 0, 20),
        (sessions_go_on, 0, 10),
        (ended_jobs_go_on, 238, 288),
        (failures_of_the_storage_count, 7, 57),
        (first_failure_is_the_last, 0, 20),
        (failed_once_and_not_again, 7, 57),
        (cancel_acknowledged_early, 32, 92),
        (result_after_cleanup, 5, 55),
        (no_second_look, 9, 69),
        (not_synced, 0, 20),
        (goes_on_after_a_failed_write, 5, 55),
        (commit_not_idempotent, 0, 10),
        (zombies_count, 50, 100),
        (consumers_stay, 0, 10),
        (restarts_adopted, 0, 10),
        (attempts_without_limit, 67, 117),
        (splits_lost_with_their_attempt, 25, 75),
        (splits_drawn_again_after_a_change, 0, 50),
        (draws_not_idempotent, 0, 50),
        (suspects_have_company, 24, 74),
        (running_attempts_not_adopted, 6, 56),
        (workers_get_no_time_to_report, 5, 55),
        (standing_still_counts, 570, 620),
        (unread_beats_of_clients_forgotten, 280, 330),
        (clients_not_watched_by_a_new_leader, 215, 265),
        (labels_not_looked_at, 4, 54),
        (the_shares_of_others_are_not_read, 1, 51),
        (lost_workers_get_requests, 28, 78),
        (unheard_is_nobodys, 0, 30),
    )
}


def first_failing(seeds: range) -> int | None:
    """The first seed that does not hold."""
    for seed in seeds:
        try:
            run_seed(seed)
        except SimulationFailure:
            return seed
    return None


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTS[name].plant(monkeypatch)
    assert first_failing(PLANTS[name].seeds) is not None, f"not found by {PLANTS[name].seeds}"


def test_a_planted_bug_is_found_by_what_is_kept_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = regressions.read(Path(__file__).parent / "regressions" / "former_resource_manager_loses_a_worker.toml")
    resource_manager_believed(monkeypatch)
    with pytest.raises(SimulationFailure, match="given up for nothing"):
        run_seed(kept.seed, only=kept.mishaps)
