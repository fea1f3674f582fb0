"""What workers report, turned into what happens to regions.

The rules that keep zombies out: an attempt that is not the current one is cancelled
and its results are thrown away; a repeated report changes nothing; a terminal one is
acknowledged once it is durable, so that the worker may forget it.
"""

from collections.abc import Iterable

import numpy as np

from firesteel.core.execution.partitions import locations_of
from firesteel.core.scheduler.recovery import adopt_slots
from firesteel.core.scheduler.scheduler import SEATED, DefaultScheduler
from firesteel.model.failures import NO_RESOURCE_AVAILABLE, WORKER_LOST, FailureInfo, FailureKind
from firesteel.model.ids import RegionIndex, ResourceID
from firesteel.model.messages import NotEnoughResources, TaskManagerReport
from firesteel.model.reports import TaskStateUpdate
from firesteel.model.states import ExecutionState
from firesteel.model.tasks import TaskOutcome

STARTING = (ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RECONCILING)
LIVE = (*STARTING, ExecutionState.RUNNING)


def apply_updates(
    scheduler: DefaultScheduler, worker: ResourceID, updates: Iterable[TaskStateUpdate], now_ms: int
) -> None:
    """Take the state changes that a worker reports; those of a kind together, so that they are one record."""
    finished: dict[RegionIndex, TaskOutcome] = {}
    moved: dict[RegionIndex, ExecutionState] = {}
    gone: dict[RegionIndex, TaskStateUpdate] = {}
    broken: list[TaskStateUpdate] = []
    for update in updates:
        if update.state.is_terminal:
            scheduler.output.acknowledge.setdefault(worker, []).append(update.attempt)
        region, is_current = update.attempt.region, scheduler.graph.is_current(update.attempt)
        state = scheduler.graph.state_of(region) if is_current else None
        match update.state:
            case _ if state is None:
                _reject(scheduler, worker, update)
            case ExecutionState.FINISHED if state in LIVE:
                finished[region] = update.outcome or TaskOutcome()
            case ExecutionState.INITIALIZING | ExecutionState.RUNNING if (
                state in STARTING and state is not update.state
            ):
                moved[region] = update.state
            case ExecutionState.INITIALIZING | ExecutionState.RUNNING if state.is_terminal:
                _reject(scheduler, worker, update)
            case ExecutionState.FINISHED | ExecutionState.CANCELED | ExecutionState.FAILED if (
                state is ExecutionState.CANCELING
            ):
                gone[region] = update
            case ExecutionState.CANCELED | ExecutionState.FAILED if state in LIVE:
                broken.append(update)
            case _:
                pass
    _move(scheduler, moved, now_ms)
    scheduler.finished(finished.items(), now_ms)
    _canceled(scheduler, gone, now_ms)
    for update in broken:
        _broken(scheduler, worker, update, now_ms)


def apply_report(scheduler: DefaultScheduler, report: TaskManagerReport, now_ms: int) -> None:
    """Reconcile with all that a worker has of the job."""
    worker, graph = report.resource_id, scheduler.graph
    adopt_slots(scheduler, report, now_ms)
    running = [TaskStateUpdate(attempt=item.attempt, state=item.state) for item in report.executions]
    apply_updates(scheduler, worker, [*running, *report.updates], now_ms)
    present = {item.attempt for item in report.executions}
    missing: dict[ExecutionState, list[int]] = {}
    for region in graph.deployed_on(worker).tolist():
        if graph.attempt_id(region) not in present:
            missing.setdefault(graph.state_of(region), []).append(region)
        elif graph.state_of(region) is ExecutionState.CANCELING:
            scheduler.ask_to_cancel(np.array([region]))
    _absent(scheduler, worker, missing, now_ms)


def worker_lost(scheduler: DefaultScheduler, worker: ResourceID, reason: str, now_ms: int) -> None:
    """A worker is gone: its slots leave the pool, its attempts have failed."""
    regions = scheduler.graph.deployed_on(worker)
    states = scheduler.graph.state[regions]
    canceling = regions[states == ExecutionState.CANCELING]
    broken = regions[states != ExecutionState.CANCELING]
    if len(canceling):
        scheduler.canceled(canceling, now_ms)
    if len(broken):
        failure = _gone(f"worker {worker} is lost: {reason}")
        scheduler.failed(broken, failure, worker, now_ms)
    for slot in scheduler.pool.of_worker(worker):
        scheduler.pool.drop(slot.allocation_id)


def slot_lost(scheduler: DefaultScheduler, worker: ResourceID, region: RegionIndex, now_ms: int) -> None:
    """The worker no longer has the slot that a region was deployed into."""
    if scheduler.graph.state_of(region) in SEATED:
        failure = _gone(f"worker {worker} has taken the slot back")
        scheduler.failed(np.array([region]), failure, worker, now_ms)


def slots_refused(scheduler: DefaultScheduler, refusal: NotEnoughResources, now_ms: int) -> None:
    """The ResourceManager has no slot of a profile: none came in time, or there never will be one."""
    kind = FailureKind.ENVIRONMENT if refusal.timed_out else FailureKind.NON_RECOVERABLE
    failure = FailureInfo(kind=kind, message=refusal.reason, exception=NO_RESOURCE_AVAILABLE)
    scheduler.slots_unavailable(refusal.profile, failure, now_ms)


def _reject(scheduler: DefaultScheduler, worker: ResourceID, update: TaskStateUpdate) -> None:
    """An attempt nobody waits for: end it, or throw away what it left."""
    if not update.state.is_terminal:
        scheduler.output.cancel.setdefault(worker, []).append(update.attempt)
    elif update.outcome is not None:
        scheduler.output.discard += locations_of(update.outcome)


def _move(scheduler: DefaultScheduler, moved: dict[RegionIndex, ExecutionState], now_ms: int) -> None:
    """Attempts get on."""
    by_target: dict[ExecutionState, list[int]] = {}
    for region, target in moved.items():
        by_target.setdefault(target, []).append(region)
    for target, regions in by_target.items():
        scheduler.graph.move(np.array(regions), target, now_ms)


def _canceled(scheduler: DefaultScheduler, gone: dict[RegionIndex, TaskStateUpdate], now_ms: int) -> None:
    """Attempts that were being cancelled have ended, however: what they have left is thrown away."""
    if gone:
        scheduler.canceled(np.array(sorted(gone)), now_ms)
    for update in gone.values():
        scheduler.output.discard += locations_of(update.outcome or TaskOutcome())


def _broken(scheduler: DefaultScheduler, worker: ResourceID, update: TaskStateUpdate, now_ms: int) -> None:
    """A live attempt has failed. What failed before it in the same message may have cancelled it meanwhile."""
    region = update.attempt.region
    match scheduler.graph.state_of(region):
        case ExecutionState.CANCELING:
            _canceled(scheduler, {region: update}, now_ms)
        case state if state in LIVE:
            failure = update.failure or _ended_by_worker(worker)
            scheduler.failed(np.array([region]), failure, worker, now_ms)
        case _:
            pass


def _absent(
    scheduler: DefaultScheduler, worker: ResourceID, missing: dict[ExecutionState, list[int]], now_ms: int
) -> None:
    """The worker does not have attempts that were sent to it, by their states, and has not said how they ended."""
    for region in missing.pop(ExecutionState.DEPLOYING, ()):
        scheduler.ask_to_run(RegionIndex(region), worker)
        scheduler.output.missed[worker] = None
    if canceling := missing.pop(ExecutionState.CANCELING, None):
        scheduler.ask_to_cancel(np.array(canceling))
    if unknown := missing.pop(ExecutionState.RECONCILING, None):
        scheduler.never_started(np.array(unknown), now_ms)  # How they ended would be kept there until acknowledged.
    if vanished := sorted(region for regions in missing.values() for region in regions):
        scheduler.failed(np.array(vanished), _vanished(worker), worker, now_ms)


def _ended_by_worker(worker: ResourceID) -> FailureInfo:
    return FailureInfo(kind=FailureKind.ENVIRONMENT, message=f"worker {worker} ended the attempt by itself")


def _vanished(worker: ResourceID) -> FailureInfo:
    return _gone(f"worker {worker} no longer runs the attempt and does not know how it ended")


def _gone(message: str) -> FailureInfo:
    return FailureInfo(kind=FailureKind.ENVIRONMENT, message=message, exception=WORKER_LOST)
