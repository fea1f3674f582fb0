"""What workers report, turned into what happens to attempts; what is a failure is left to the scheduler to decide on.

The rules that keep zombies out: an attempt that is not the current one is cancelled
and its results are thrown away; a repeated report changes nothing; a terminal one is
acknowledged once it is durable, so that the worker may forget it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from firesteel.core.execution.partitions import locations_of
from firesteel.core.execution.topology import Regions
from firesteel.core.scheduler.executions import Executions
from firesteel.model.failures import WORKER_LOST, FailureInfo, FailureKind
from firesteel.model.ids import RegionIndex, ResourceID
from firesteel.model.messages import TaskManagerReport
from firesteel.model.reports import TaskStateUpdate
from firesteel.model.states import ExecutionState
from firesteel.model.tasks import TaskOutcome

STARTING = (ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RECONCILING)
LIVE = (*STARTING, ExecutionState.RUNNING)


@dataclass(frozen=True, slots=True)
class Applied:
    """What is to be decided on after reports were applied."""

    finished: Regions
    """Ascending."""
    broken: tuple[TaskStateUpdate, ...]
    """Live attempts that have failed, or were ended by their worker, in the order of the report."""


def apply_updates(
    executions: Executions, worker: ResourceID, updates: Iterable[TaskStateUpdate], now_ms: int
) -> Applied:
    """Take the state changes that a worker reports; those of a kind together, so that they are one record."""
    finished: dict[RegionIndex, TaskOutcome] = {}
    moved: dict[RegionIndex, ExecutionState] = {}
    gone: dict[RegionIndex, TaskStateUpdate] = {}
    broken: list[TaskStateUpdate] = []
    for update in updates:
        if update.state.is_terminal:
            executions.output.acknowledge.setdefault(worker, []).append(update.attempt)
        region, is_current = update.attempt.region, executions.graph.is_current(update.attempt)
        state = executions.graph.state_of(region) if is_current else None
        match update.state:
            case _ if state is None:
                _reject(executions, worker, update)
            case ExecutionState.FINISHED if state in LIVE:
                finished[region] = update.outcome or TaskOutcome()
            case ExecutionState.INITIALIZING | ExecutionState.RUNNING if (
                state in STARTING and state is not update.state
            ):
                moved[region] = update.state
            case ExecutionState.INITIALIZING | ExecutionState.RUNNING if state.is_terminal:
                _reject(executions, worker, update)
            case ExecutionState.FINISHED | ExecutionState.CANCELED | ExecutionState.FAILED if (
                state is ExecutionState.CANCELING
            ):
                gone[region] = update
            case ExecutionState.CANCELED | ExecutionState.FAILED if state in LIVE:
                broken.append(update)
            case _:
                pass
    _move(executions, moved, now_ms)
    regions = executions.finish(finished.items(), now_ms)
    _canceled(executions, gone, now_ms)
    return Applied(regions, tuple(broken))


def still_broken(executions: Executions, update: TaskStateUpdate, now_ms: int) -> bool:
    """Whether the attempt is live, and to be failed: what failed before it in the same message may have ended it."""
    region = update.attempt.region
    state = executions.graph.state_of(region)
    if state is ExecutionState.CANCELING:
        _canceled(executions, {region: update}, now_ms)
    return state in LIVE


def ask_again(executions: Executions, report: TaskManagerReport, now_ms: int) -> Regions:
    """What a worker should have, or should have ended, and has not, it is asked for again. Returns the regions whose
    attempts it does not have any more, without having said how they ended."""
    worker, graph = report.resource_id, executions.graph
    present = {item.attempt for item in report.executions}
    missing: dict[ExecutionState, list[int]] = {}
    for region in graph.deployed_on(worker).tolist():
        if graph.attempt_id(region) not in present:
            missing.setdefault(graph.state_of(region), []).append(region)
        elif graph.state_of(region) is ExecutionState.CANCELING:
            executions.ask_to_cancel(np.array([region]))
    for region in missing.pop(ExecutionState.DEPLOYING, ()):
        executions.ask_to_run(RegionIndex(region), worker)
        executions.output.missed[worker] = None
    if canceling := missing.pop(ExecutionState.CANCELING, None):
        executions.ask_to_cancel(np.array(canceling))
    if unknown := missing.pop(ExecutionState.RECONCILING, None):
        executions.never_started(np.array(unknown), now_ms)  # How they ended would be kept there until acknowledged.
    return np.array(sorted(region for regions in missing.values() for region in regions), dtype=np.int64)


def _reject(executions: Executions, worker: ResourceID, update: TaskStateUpdate) -> None:
    """An attempt nobody waits for: end it, or throw away what it left."""
    if not update.state.is_terminal:
        executions.output.cancel.setdefault(worker, []).append(update.attempt)
    elif update.outcome is not None:
        executions.output.discard += locations_of(update.outcome)


def _move(executions: Executions, moved: dict[RegionIndex, ExecutionState], now_ms: int) -> None:
    """Attempts get on."""
    by_target: dict[ExecutionState, list[int]] = {}
    for region, target in moved.items():
        by_target.setdefault(target, []).append(region)
    for target, regions in by_target.items():
        executions.get_on(np.array(regions), target, now_ms)


def _canceled(executions: Executions, gone: dict[RegionIndex, TaskStateUpdate], now_ms: int) -> None:
    """Attempts that were being cancelled have ended, however: what they have left is thrown away."""
    if gone:
        unbegun = [region for region, update in gone.items() if update.failure is not None and update.failure.unbegun]
        executions.end(np.array(sorted(gone)), ExecutionState.CANCELED, now_ms, unbegun=unbegun)
    for update in gone.values():
        executions.output.discard += locations_of(update.outcome or TaskOutcome())


def ended_by_worker(worker: ResourceID) -> FailureInfo:
    return FailureInfo(kind=FailureKind.ENVIRONMENT, message=f"worker {worker} ended the attempt by itself")


def worker_gone(message: str) -> FailureInfo:
    """It is gone, or its slot, or it does not know of the attempt."""
    return FailureInfo(kind=FailureKind.ENVIRONMENT, message=message, exception=WORKER_LOST)
