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
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import RegionAttemptID, RegionIndex, ResourceID
from firesteel.model.messages import TaskManagerReport, TaskStateUpdate
from firesteel.model.states import ExecutionState
from firesteel.model.tasks import TaskOutcome

STARTING = (ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RECONCILING)
LIVE = (*STARTING, ExecutionState.RUNNING)


def apply_updates(
    scheduler: DefaultScheduler, worker: ResourceID, updates: Iterable[TaskStateUpdate], now_ms: int
) -> None:
    """Take the state changes that a worker reports."""
    updates = list(updates)
    finished: dict[RegionIndex, TaskOutcome] = {}
    for update in updates:
        if update.state.is_terminal:
            scheduler.output.acknowledge.setdefault(worker, []).append(update.attempt)
        ended_well = update.state is ExecutionState.FINISHED and scheduler.graph.is_current(update.attempt)
        if ended_well and _state(scheduler, update.attempt) in LIVE:
            finished[update.attempt.region] = update.outcome or TaskOutcome()
    scheduler.finished(finished.items(), now_ms)
    for update in updates:
        if not scheduler.graph.is_current(update.attempt):
            _reject(scheduler, worker, update)
        elif update.attempt.region not in finished:
            _apply(scheduler, worker, update, now_ms)


def apply_report(scheduler: DefaultScheduler, report: TaskManagerReport, now_ms: int) -> None:
    """Reconcile with all that a worker has of the job."""
    worker = report.resource_id
    adopt_slots(scheduler, report, now_ms)
    running = [TaskStateUpdate(attempt=item.attempt, state=item.state) for item in report.executions]
    apply_updates(scheduler, worker, [*running, *report.updates], now_ms)
    present = {item.attempt for item in report.executions}
    for region in scheduler.graph.deployed_on(worker).tolist():
        if scheduler.graph.attempt_id(region) not in present:
            _absent(scheduler, worker, region, now_ms)
        elif scheduler.graph.state_of(region) is ExecutionState.CANCELING:
            scheduler.ask_to_cancel(np.array([region]))


def worker_lost(scheduler: DefaultScheduler, worker: ResourceID, reason: str, now_ms: int) -> None:
    """A worker is gone: its slots leave the pool, its attempts have failed."""
    regions = scheduler.graph.deployed_on(worker)
    states = scheduler.graph.state[regions]
    canceling = regions[states == ExecutionState.CANCELING]
    broken = regions[states != ExecutionState.CANCELING]
    if len(canceling):
        scheduler.canceled(canceling, now_ms)
    if len(broken):
        failure = FailureInfo(kind=FailureKind.ENVIRONMENT, message=f"worker {worker} is lost: {reason}")
        scheduler.failed(broken, failure, worker, now_ms)
    for slot in scheduler.pool.of_worker(worker):
        scheduler.pool.drop(slot.allocation_id)


def slot_lost(scheduler: DefaultScheduler, worker: ResourceID, region: RegionIndex, now_ms: int) -> None:
    """The worker no longer has the slot that a region was deployed into."""
    if scheduler.graph.state_of(region) in SEATED:
        failure = FailureInfo(kind=FailureKind.ENVIRONMENT, message=f"worker {worker} has taken the slot back")
        scheduler.failed(np.array([region]), failure, worker, now_ms)


def _state(scheduler: DefaultScheduler, attempt: RegionAttemptID) -> ExecutionState:
    return scheduler.graph.state_of(attempt.region)


def _reject(scheduler: DefaultScheduler, worker: ResourceID, update: TaskStateUpdate) -> None:
    """An attempt nobody waits for: end it, or throw away what it left."""
    if not update.state.is_terminal:
        scheduler.output.cancel.setdefault(worker, []).append(update.attempt)
    elif update.outcome is not None:
        scheduler.output.discard += locations_of(update.outcome)


def _apply(scheduler: DefaultScheduler, worker: ResourceID, update: TaskStateUpdate, now_ms: int) -> None:
    """An update of a current attempt, other than that a live one has finished."""
    state, region = _state(scheduler, update.attempt), np.array([update.attempt.region])
    match update.state:
        case ExecutionState.INITIALIZING | ExecutionState.RUNNING if state in STARTING and state is not update.state:
            scheduler.graph.move(region, update.state, now_ms)
        case ExecutionState.FINISHED | ExecutionState.CANCELED | ExecutionState.FAILED if (
            state is ExecutionState.CANCELING
        ):
            scheduler.canceled(region, now_ms)
            scheduler.output.discard += locations_of(update.outcome or TaskOutcome())
        case ExecutionState.FAILED | ExecutionState.CANCELED if state in LIVE:
            scheduler.failed(region, update.failure or _ended_by_worker(worker), worker, now_ms)
        case ExecutionState.INITIALIZING | ExecutionState.RUNNING if state.is_terminal:
            _reject(scheduler, worker, update)
        case _:
            pass


def _absent(scheduler: DefaultScheduler, worker: ResourceID, region: int, now_ms: int) -> None:
    """The worker does not have an attempt that was sent to it, and has not said how it ended."""
    row = np.array([region])
    match scheduler.graph.state_of(region):
        case ExecutionState.DEPLOYING:
            scheduler.ask_to_run(RegionIndex(region), worker)
            scheduler.output.missed[worker] = None
        case ExecutionState.CANCELING:
            scheduler.ask_to_cancel(row)
        case ExecutionState.RECONCILING:
            scheduler.never_started(row, now_ms)  # How it ended would be kept there until acknowledged.
        case _:
            scheduler.failed(row, _vanished(worker), worker, now_ms)


def _ended_by_worker(worker: ResourceID) -> FailureInfo:
    return FailureInfo(kind=FailureKind.ENVIRONMENT, message=f"worker {worker} ended the attempt by itself")


def _vanished(worker: ResourceID) -> FailureInfo:
    message = f"worker {worker} no longer runs the attempt and does not know how it ended"
    return FailureInfo(kind=FailureKind.ENVIRONMENT, message=message)
