"""The attempts of a job: columns, slots, registered results, and what is asked of workers, moved together.

Every durable change is a record, applied by `fold` to `state`; the columns, the pool and the partitions follow. Nothing
here decides what happens: that is the DefaultScheduler's, which alone has these parts.
"""

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

import numpy as np

from firesteel.core.execution.graph import ExecutionGraph
from firesteel.core.execution.partitions import PartitionTracker
from firesteel.core.execution.states import DEPLOYED_STATES, TERMINAL
from firesteel.core.execution.topology import LogicalRegion, Regions, Topology
from firesteel.core.journal.endedattempts import Reached
from firesteel.core.journal.journal import JobState, fold
from firesteel.core.journal.records import (
    JournalRecord,
    RegionsDeployed,
    RegionsEnded,
    RegionsFinished,
    RegionsReset,
    RegionsSpared,
    SinkCommitted,
)
from firesteel.core.scheduler import quarantine
from firesteel.core.scheduler.autoparallelism import SubtaskLimits, subtasks_of
from firesteel.core.scheduler.commit import left_alone, without
from firesteel.core.scheduler.output import SchedulerOutput
from firesteel.core.scheduler.restarts import DueRestarts
from firesteel.core.scheduler.splits import SplitAssigners
from firesteel.core.scheduler.strategy import schedulable, schedulable_after
from firesteel.core.slots.pool import SlotAssignment, SlotPool
from firesteel.model.ids import RegionIndex, ResourceID
from firesteel.model.jobgraph import JobType
from firesteel.model.states import ExecutionState
from firesteel.model.tasks import NOTHING_TO_DO, SinkCommit, TaskDeployment, TaskOutcome, TaskProgress

if TYPE_CHECKING:
    from firesteel.core.scheduler.settings import SchedulerSettings

SEATED = (ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RUNNING)
"""Attempts in these states sit in a slot of the pool."""


class Executions:
    """Owned by one DefaultScheduler. `state` is the fold of the journal so far."""

    def __init__(
        self,
        topology: Topology,
        state: JobState,
        settings: "SchedulerSettings",
        journal: Callable[[JournalRecord], None],
    ) -> None:
        self.topology, self.state = topology, state
        self.is_stream = topology.graph.job_type is JobType.STREAMING
        self.graph = ExecutionGraph(topology)
        self.partitions = PartitionTracker(topology)
        self.pool = SlotPool()
        self.splits = SplitAssigners(topology)
        self.restarts = DueRestarts()
        self.limits = SubtaskLimits(settings.subtask_bytes)
        self.progress: dict[RegionIndex, TaskProgress] = {}
        self.output = SchedulerOutput()
        """What is to be said since it was taken last."""
        self._unheard: dict[RegionIndex, int] = {}
        """Of a stream: attempts, by region, that this JobMaster itself has sent, and has not heard of that they run."""
        self._settings, self._journal = settings, journal
        self.wants = [logical.resources for logical in topology.logical]
        """The slot profile each logical region asks for."""

    def record(self, record: JournalRecord) -> None:
        """Journal a fact and apply it."""
        fold(self.state, record, self._settings.exception_history_size)
        self.splits.follow(record)
        self._journal(record)

    def take_output(self) -> SchedulerOutput:
        """What is to be said; from here on it is, and is not kept."""
        output, self.output = self.output, SchedulerOutput()
        return output

    def uncommitted(self) -> list[SinkCommit]:
        """What is intended and not yet visible."""
        return [commit for commit in self.state.intended if commit.commit_id not in self.state.committed]

    @property
    def keeps_slots(self) -> bool:
        """Whether queries of a stream that have ended are to run again, or may have to: where they ran, if they can."""
        return self.is_stream and (self.state.stop is not None or bool(self.state.restarting))

    # ── a region's way ───────────────────────────────────────────────────────────────────────
    def schedule_all(self, now_ms: int) -> None:
        """Line up all that can be read and has not begun."""
        self._schedule(schedulable(self.graph, self.partitions), now_ms)

    def schedule_after(self, finished: Regions, now_ms: int) -> None:
        """The same for what may have waited for these results (ascending)."""
        self._schedule(schedulable_after(self.graph, self.partitions, finished), now_ms)

    def _schedule(self, regions: Regions, now_ms: int) -> None:
        for logical, part in self.topology.split(regions):
            subtasks = subtasks_of(logical, self.graph, self.partitions, self.state, self.limits)
            needed = part[part < logical.offset + subtasks]
            self.graph.move(needed, ExecutionState.SCHEDULED, now_ms)
            self.pool.wait((RegionIndex(region) for region in needed.tolist()), self.wants[logical.index])
            if len(needed) < len(part):
                self._spare(logical, subtasks, part[len(needed) :], now_ms)

    def _spare(self, logical: LogicalRegion, subtasks: int, regions: Regions, now_ms: int) -> None:
        """So many subtasks do the work of all: these others finish with nothing."""
        self.graph.move(regions, ExecutionState.FINISHED, now_ms)
        spared = tuple(RegionIndex(region) for region in regions.tolist())
        for region in spared:
            self.partitions.register(region, NOTHING_TO_DO)
            self.graph.figures.note(region, NOTHING_TO_DO)
        first = RegionIndex(logical.offset)
        self.record(RegionsSpared(at_ms=now_ms, first=first, subtasks=subtasks, regions=spared))
        self.schedule_after(regions, now_ms)

    def subtasks_of(self, logical: LogicalRegion) -> int:
        """How many subtasks do its work, as far as that is decided; until then the most there may be."""
        return self.state.subtasks.get(RegionIndex(logical.offset), logical.parallelism)

    def take_seats(self) -> list[SlotAssignment]:
        """Seat what waits in the slots that are there, near to what it belongs to. Ascending; `deploy` is to follow."""
        seats = self.pool.assign(self._preferred_workers, only_near=True) if self.is_stream else []
        return sorted((*seats, *self.pool.assign(self._preferred_workers)), key=lambda seat: seat.region)

    def deploy(self, seats: list[SlotAssignment], now_ms: int) -> None:
        """Have regions run where they have a seat."""
        self.graph.move(np.array([seat.region for seat in seats]), ExecutionState.DEPLOYING, now_ms)
        for seat in seats:
            self.graph.place(seat.region, seat.worker)
            self._unheard.update({seat.region: int(self.graph.attempt[seat.region])} if self.is_stream else {})
            self.ask_to_run(seat.region, seat.worker)
        entries = tuple((seat.region, int(self.graph.attempt[seat.region]), seat.worker) for seat in seats)
        self.record(RegionsDeployed(at_ms=now_ms, deployed=entries))

    def _preferred_workers(self, region: RegionIndex) -> list[ResourceID]:
        """Where the subtasks of equal index run, or have run, that this one is best near to; of a stream where it ran itself,
        since its checkpoints may be there and nowhere else."""
        if self.is_stream:
            former = self.state.last_run(region)
            return [] if former is None else [former.task_manager]
        logical = self.topology.logical_of(region)
        found = (self.graph.worker_of(offset + region - logical.offset) for offset in logical.mates)
        return [worker for worker in found if worker is not None]

    def get_on(self, regions: Regions, target: ExecutionState, now_ms: int) -> None:
        """Workers say that their attempts are prepared, or run."""
        self.graph.move(regions, target, now_ms)
        for region in regions.tolist() if target is ExecutionState.RUNNING else ():
            self._unheard.pop(region, None)

    def finish(self, outcomes: Iterable[tuple[RegionIndex, TaskOutcome]], now_ms: int) -> Regions:
        """Current attempts have ended well: register their results. Returns their regions, ascending."""
        done = sorted(outcomes, key=lambda pair: pair[0])
        regions = np.array([region for region, _ in done], dtype=np.int64)
        if done:
            self.graph.move(regions, ExecutionState.FINISHED, now_ms)
            for region, outcome in done:
                self.pool.vacate(region, now_ms)
                self.partitions.register(region, outcome)
                self.graph.figures.note(region, outcome)
            entries = tuple((region, int(self.graph.attempt[region]), outcome) for region, outcome in done)
            self.record(RegionsFinished(at_ms=now_ms, finished=entries))
        return regions

    def sink_committed(self, record: SinkCommitted) -> None:
        """A staged output is visible; or it is ignored, so that nothing was written after all."""
        self.record(record)
        staged = left_alone(self.state) if record.ignored else frozenset()
        for region, outcome in self.state.finished.items() if staged else ():
            if any(sink.staging in staged for sink in outcome.sinks):
                self.graph.figures.note(region, without(outcome, staged))

    def end(
        self,
        regions: Regions,
        state: ExecutionState,
        now_ms: int,
        *,
        ran: bool = True,
        unbegun: Collection[RegionIndex] = (),
    ) -> None:
        """Attempts that workers had, or if they never `ran` were to have, are gone without a result: FAILED or CANCELED.
        `unbegun` have left no checkpoint directories."""
        reached = self._reached(regions, unbegun) if self.is_stream and ran else ()
        self.graph.move(regions, state, now_ms)
        for region in regions.tolist():
            self.pool.vacate(RegionIndex(region), now_ms)
        ended = tuple((RegionIndex(region), int(self.graph.attempt[region])) for region in regions.tolist())
        self.record(RegionsEnded(at_ms=now_ms, ended=ended, state=state, ran=ran, reached=reached))
        self.restarts.ended(regions.tolist(), self.state.restarting)

    def _reached(self, regions: Regions, unbegun: Collection[RegionIndex]) -> tuple[Reached, ...]:
        """Empty if all have run."""
        found: list[Reached] = []
        for region in regions.tolist():
            is_unheard = self._unheard.get(region) == int(self.graph.attempt[region])
            how = Reached.UNHEARD if is_unheard else Reached.RAN
            found.append(Reached.NOTHING if region in unbegun else how)
        return () if all(each is Reached.RAN for each in found) else tuple(found)

    def give_up_waiting(self, regions: Iterable[RegionIndex], now_ms: int) -> Regions:
        """Attempts that wait for slots have failed: there are none. Returns their regions, ascending."""
        waiting = np.array(sorted(regions))
        for region in waiting.tolist():
            self.pool.withdraw(RegionIndex(region))
        self.graph.move(waiting, ExecutionState.FAILED, now_ms)
        return waiting

    def cancel(self, regions: Regions, now_ms: int) -> None:
        """End these regions' attempts: at once where no worker has them, else by asking the worker."""
        states = self.graph.state[regions]
        idle = regions[np.isin(states, (ExecutionState.CREATED, ExecutionState.SCHEDULED))]
        for region in regions[states == ExecutionState.SCHEDULED].tolist():
            self.pool.withdraw(RegionIndex(region))
        self.graph.move(idle, ExecutionState.CANCELED, now_ms)
        active = regions[np.isin(states, DEPLOYED_STATES) & (states != ExecutionState.CANCELING)]
        self.graph.move(active, ExecutionState.CANCELING, now_ms)
        self.ask_to_cancel(active)

    def cancel_all(self, now_ms: int) -> None:
        """The job is to end: no attempt goes on."""
        self.cancel(np.arange(self.topology.region_count), now_ms)

    def plan_restart(self, regions: Regions, due_ms: int, now_ms: int) -> None:
        """These regions, whose restart is in the journal, run again then: their results count no more, their attempts end."""
        self.partitions.available[regions] = False
        self.cancel(regions, now_ms)
        self.restarts.plan(due_ms)
        self.restarts.ended(regions[TERMINAL[self.graph.state[regions]]].tolist(), self.state.restarting)

    def restart_due(self, now_ms: int) -> None:
        """Begin the next attempts of regions whose restart is due and whose last attempt has ended."""
        due = self.restarts.take(now_ms)
        if due:
            self.graph.reset(np.array(due))
            for region in due:
                self.output.discard += self.partitions.withdraw(region)
            self.record(RegionsReset(at_ms=now_ms, regions=tuple(due)))
            self.schedule_all(now_ms)
        next_ms = self.restarts.next_ms(now_ms)
        if next_ms is not None:
            self.output.wake(next_ms)

    def run_again(self, regions: Regions, now_ms: int) -> None:
        """Begin the next attempts of regions that have finished, though nothing has failed."""
        if len(regions):
            self.partitions.available[regions] = False
            self.graph.reset(regions)
            for region in regions.tolist():
                self.output.discard += self.partitions.withdraw(RegionIndex(region))
            self.record(RegionsReset(at_ms=now_ms, regions=tuple(RegionIndex(each) for each in regions.tolist())))
            self.schedule_all(now_ms)

    def never_started(self, regions: Regions, now_ms: int) -> None:
        """Attempts a former JobMaster had decided on and not sent: the next ones take their place."""
        self.end(regions, ExecutionState.CANCELED, now_ms, ran=False)
        self.graph.reset(regions)
        again = tuple(RegionIndex(region) for region in regions.tolist())
        self.record(RegionsReset(at_ms=now_ms, regions=again, ran=False))

    # ── what workers are asked ───────────────────────────────────────────────────────────────
    def ask_to_cancel(self, regions: Regions) -> None:
        """Tell the workers of these regions that their attempts are to end."""
        for region in regions.tolist():
            worker = self.graph.worker_of(region)
            assert worker is not None, "a deployed attempt has a worker"
            self.output.cancel.setdefault(worker, []).append(self.graph.attempt_id(region))

    def ask_to_run(self, region: RegionIndex, worker: ResourceID) -> None:
        """Have a region's current attempt, which has a seat, run there."""
        logical = self.topology.logical_of(region)
        subtask = region - logical.offset
        groups = self.partitions.groups_of(logical)
        self.output.groups.update((group.group_id, group) for group in groups)
        former, has_run = self.state.checkpointed(region) if self.is_stream else (-1, False)
        deployment = TaskDeployment(
            attempt=self.graph.attempt_id(region),
            allocation_id=self.pool.seat_of(region),
            vertices=tuple(vertex.id for vertex in logical.vertices),
            subtask=subtask,
            inputs=self.partitions.inputs_of(logical, subtask),
            groups=tuple((group.dataset_id, group.group_id) for group in groups),
            alone=quarantine.runs_alone(self.state, region),
            former=former,
            has_run=has_run,
            subtasks=self.state.subtasks.get(RegionIndex(logical.offset), 0),
        )
        self.output.deploy.setdefault(worker, []).append(deployment)

    # ── progress ─────────────────────────────────────────────────────────────────────────────
    def note_progress(self, progress: Iterable[TaskProgress]) -> None:
        for item in progress:
            if self.graph.is_current(item.attempt):
                self.progress[item.attempt.region] = item

    def progress_of_running(self) -> dict[RegionIndex, TaskProgress]:
        """What is known of attempts that run; of others it is of no use any more."""
        return {
            region: item
            for region, item in self.progress.items()
            if self.graph.is_current(item.attempt) and self.graph.state_of(region) is ExecutionState.RUNNING
        }

    def validate(self) -> None:
        """Columns, pool and partitions say what the fold of the journal says."""
        self.graph.validate()
        self.pool.validate()
        self.splits.validate(self.state)
        state, graph = self.state, self.graph
        deployed = graph.in_state(*DEPLOYED_STATES).tolist()
        assert sorted(state.deployed) == deployed, "deployed regions differ from the journal's"
        assert sorted(state.finished) == graph.in_state(ExecutionState.FINISHED).tolist(), "finished regions differ"
        assert all(graph.worker_of(region) == worker for region, worker in state.deployed.items()), "a worker differs"
        assert all(int(graph.attempt[region]) == number for region, number in state.attempts.items()), (
            "an attempt differs"
        )
        readable = sorted(region for region in state.finished if region not in state.restarting)
        assert readable == np.flatnonzero(self.partitions.available).tolist(), "registered results differ"
        ending = (*graph.in_state(ExecutionState.CANCELING).tolist(), *np.flatnonzero(TERMINAL[graph.state]).tolist())
        assert set(state.restarting) <= set(ending), "an attempt that is to be followed by another goes on"
        seats = [region for region in deployed if graph.state_of(region) in SEATED]
        assert all(self.pool.is_seated(RegionIndex(region)) for region in seats), "an attempt runs without a slot"
