"""A new JobMaster takes over: replays the journal, then reconciles with what workers say they run.

Matching attempts are adopted, unknown ones cancelled, missing ones restarted.
"""

import numpy as np

from firesteel.core.scheduler.jobstates import Canceled, Created, Failed, Finished, Reconciling
from firesteel.core.scheduler.scheduler import DefaultScheduler
from firesteel.model.ids import RegionIndex
from firesteel.model.messages import TaskManagerReport
from firesteel.model.reports import SlotOffer
from firesteel.model.states import ExecutionState, JobStatus


def recover(scheduler: DefaultScheduler, now_ms: int) -> None:
    """Set the scheduler's columns and phase to what its `state`, the fold of the journal, says."""
    state, graph = scheduler.state, scheduler.graph
    assert isinstance(scheduler.phase, Created), "recovery comes first"
    assert not scheduler.pool.waiting, "recovery comes first"
    restored: dict[ExecutionState, list[RegionIndex]] = {}
    for region in sorted({*state.attempts, *state.finished, *state.ended, *state.deployed, *state.restarting}):
        target = ExecutionState.CANCELED if region in state.restarting else ExecutionState.CREATED
        if region in state.deployed:
            target = ExecutionState.CANCELING if region in state.restarting else ExecutionState.RECONCILING
        elif region in state.finished:
            target = ExecutionState.FINISHED
        elif region in state.ended:
            target = ExecutionState.FAILED
        restored.setdefault(target, []).append(region)
        graph.attempt[region] = state.attempts.get(region, 0)
        if region in state.deployed:
            graph.recall(region, state.deployed[region], {ExecutionState.DEPLOYING: state.deployed_ms.get(region, 0)})
        elif (last := state.history.get(region, ())[-1:]) and last[0].attempt == graph.attempt[region]:
            times_ms = {ExecutionState.DEPLOYING: last[0].deployed_ms, target: last[0].ended_ms}
            graph.recall(region, last[0].task_manager, times_ms)
        if region in state.finished:
            graph.figures.note(region, state.finished[region])
            scheduler.partitions.register(region, state.finished[region])
            scheduler.partitions.available[region] = region not in state.restarting
    for target, regions in restored.items():
        graph.restore(np.array(regions), target)
        if target.is_terminal:
            scheduler.restarts.ended(regions, state.restarting)
    for due_ms in dict.fromkeys(state.restarting.values()):
        scheduler.restarts.plan(due_ms)
    _resume(scheduler, now_ms)


def _resume(scheduler: DefaultScheduler, now_ms: int) -> None:
    """Enter the phase that the journal left the job in."""
    created = Created()
    match scheduler.state.status:
        case JobStatus.CANCELLING:
            scheduler.phase = created.cancel()
            scheduler.cancel_regions(np.arange(scheduler.topology.region_count), now_ms)
        case JobStatus.FAILING:
            scheduler.phase = created.fail()
            scheduler.cancel_regions(np.arange(scheduler.topology.region_count), now_ms)
        case JobStatus.CREATED:
            scheduler.start(now_ms)
        case JobStatus.FINISHED:
            scheduler.phase = Finished()
        case JobStatus.CANCELED:
            scheduler.phase = Canceled()
        case JobStatus.FAILED:
            scheduler.phase = Failed()
        case _:
            scheduler.phase = created.reconcile()


def settle(scheduler: DefaultScheduler, now_ms: int) -> None:
    """Leave RECONCILING when nothing is looked for any more."""
    if isinstance(scheduler.phase, Reconciling) and not scheduler.graph.count(ExecutionState.RECONCILING):
        scheduler.resume(scheduler.phase, now_ms)


def adopt_slots(scheduler: DefaultScheduler, report: TaskManagerReport, now_ms: int) -> None:
    """Take back the slots in which this worker runs attempts that are being looked for."""
    offers: dict[str, SlotOffer] = {offer.allocation_id: offer for offer in report.slots}
    for execution in report.executions:
        region = execution.attempt.region
        current = scheduler.graph.is_current(execution.attempt)
        looked_for = current and scheduler.graph.state_of(region) in (
            ExecutionState.RECONCILING,
            ExecutionState.CANCELING,
        )
        offer = offers.get(execution.allocation_id)
        if looked_for and offer is not None and not scheduler.pool.is_seated(region):
            logical = scheduler.topology.logical_of(region)
            scheduler.pool.adopt(report.resource_id, offer, now_ms)
            scheduler.pool.seat_adopted(region, offer.allocation_id, scheduler.wants[logical.index])
