"""A new JobMaster takes over: replays the journal, then reconciles with what workers say they run.

Matching attempts are adopted, unknown ones cancelled, missing ones restarted.
"""

import numpy as np

from firesteel.core.journal.journal import JobState
from firesteel.core.scheduler.commit import left_alone, without
from firesteel.core.scheduler.executions import Executions
from firesteel.model.ids import RegionIndex
from firesteel.model.messages import TaskManagerReport
from firesteel.model.reports import SlotOffer
from firesteel.model.states import ExecutionState

LOOKED_FOR = (ExecutionState.RECONCILING, ExecutionState.CANCELING)
"""States in which a new JobMaster begins with attempts that workers may have."""


def restore(executions: Executions) -> None:
    """Set the columns to what `state`, the fold of the journal, says; before anything has moved."""
    state, graph = executions.state, executions.graph
    staged = left_alone(state)
    restored: dict[ExecutionState, list[RegionIndex]] = {}
    for region in sorted({*state.attempts, *state.finished, *state.ended, *state.deployed, *state.restarting}):
        target = ExecutionState.CANCELED if region in state.restarting else ExecutionState.CREATED
        if region in state.deployed:
            target = ExecutionState.CANCELING if region in state.restarting else ExecutionState.RECONCILING
        elif region in state.finished:
            target = ExecutionState.FINISHED
        elif region in state.ended:
            target = _how_it_ended(state, region)
        restored.setdefault(target, []).append(region)
        graph.attempt[region] = state.attempts.get(region, 0)
        if region in state.deployed:
            graph.recall(region, state.deployed[region], {ExecutionState.DEPLOYING: state.deployed_ms.get(region, 0)})
        elif (last := state.history.get(region, ())[-1:]) and last[0].attempt == graph.attempt[region]:
            times_ms = {ExecutionState.DEPLOYING: last[0].deployed_ms, target: last[0].ended_ms}
            graph.recall(region, last[0].task_manager, times_ms)
        if region in state.finished:
            graph.figures.note(region, without(state.finished[region], staged))
            executions.partitions.register(region, state.finished[region])
            executions.partitions.available[region] = region not in state.restarting
    for target, regions in restored.items():
        graph.restore(np.array(regions), target)
        if target.is_terminal:
            executions.restarts.ended(regions, state.restarting)
    for due_ms in dict.fromkeys(state.restarting.values()):
        executions.restarts.plan(due_ms)


def _how_it_ended(state: JobState, region: RegionIndex) -> ExecutionState:
    """The current attempt's end, which was no good one."""
    last = state.history.get(region, ())[-1:]
    is_known = last and last[0].attempt == state.attempts.get(region, 0)
    return last[0].state if is_known else ExecutionState.FAILED


def adopt_slots(executions: Executions, report: TaskManagerReport, now_ms: int) -> None:
    """Take back the slots in which this worker runs attempts that are being looked for."""
    offers: dict[str, SlotOffer] = {offer.allocation_id: offer for offer in report.slots}
    for execution in report.executions:
        region = execution.attempt.region
        current = executions.graph.is_current(execution.attempt)
        looked_for = current and executions.graph.state_of(region) in LOOKED_FOR
        offer = offers.get(execution.allocation_id)
        if looked_for and offer is not None and not executions.pool.is_seated(region):
            logical = executions.topology.logical_of(region)
            executions.pool.adopt(report.resource_id, offer, now_ms)
            executions.pool.seat_adopted(region, offer.allocation_id, executions.wants[logical.index])
