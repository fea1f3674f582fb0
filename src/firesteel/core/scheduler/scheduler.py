"""DefaultScheduler: what happens to a job's regions, from what workers say and what the journal holds.

Every durable change is a record, applied by `fold` to `state`; the columns, the pool and the
partitions follow. `advance` is level-triggered: it looks at what is, and does what is due.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from firesteel.core.execution.graph import ExecutionGraph
from firesteel.core.execution.partitions import PartitionTracker
from firesteel.core.execution.states import DEPLOYED_STATES, TERMINAL
from firesteel.core.execution.topology import Regions, Topology
from firesteel.core.journal import (
    CommitsIntended,
    FailureRecorded,
    JobState,
    JobStatusRecord,
    JournalRecord,
    RegionsDeployed,
    RegionsEnded,
    RegionsFinished,
    RegionsReset,
    RestartPlanned,
    SinkCommitted,
    fold,
)
from firesteel.core.scheduler import quarantine
from firesteel.core.scheduler.backoff import RestartStrategy
from firesteel.core.scheduler.commit import gather_commits
from firesteel.core.scheduler.exceptionhistory import exception_entry
from firesteel.core.scheduler.failover import Failed, FailoverPlan, FailoverPolicy, plan_failover
from firesteel.core.scheduler.jobstates import (
    Cancelling,
    Created,
    Failing,
    JobPhase,
    Reconciling,
    Restarting,
    Running,
    Unended,
)
from firesteel.core.scheduler.output import SchedulerOutput
from firesteel.core.scheduler.restarts import DueRestarts
from firesteel.core.scheduler.splits import SplitAssigners
from firesteel.core.scheduler.strategy import schedulable, schedulable_after
from firesteel.core.slots.pool import SlotPool
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import RegionIndex, ResourceID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.resources import ResourceProfile
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.tasks import SinkCommit, TaskDeployment, TaskOutcome
from firesteel.model.views import ExceptionEntry

SEATED = (ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RUNNING)
"""Attempts in these states sit in a slot of the pool."""


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    strategy: RestartStrategy
    exception_history_size: int
    timeout_ms: int = 0
    """Limit on the time from the job's creation to its end; 0 is none."""
    retry_delay_ms: int = 1_000
    """Time before a region runs again that has retries of its own."""
    restarts_all: bool = False
    """Failover strategy `full`."""


class DefaultScheduler:
    """Owned by one JobMaster. Methods change the state and leave what is to be done in `output`."""

    def __init__(
        self, graph: JobGraph, state: JobState, settings: SchedulerSettings, journal: Callable[[JournalRecord], None]
    ) -> None:
        self.topology = Topology(graph)
        self.graph = ExecutionGraph(self.topology)
        self.partitions = PartitionTracker(self.topology)
        self.pool = SlotPool()
        self.splits = SplitAssigners(self.topology)
        self.restarts = DueRestarts()
        self.state = state
        self.phase: JobPhase = Created()
        self.output = SchedulerOutput()
        self.settings = settings
        self._policy = FailoverPolicy(settings.strategy, settings.retry_delay_ms, settings.restarts_all)
        self._journal = journal
        self.wants = [logical.resources for logical in self.topology.logical]
        """The slot profile each logical region asks for."""

    # ── what happens ─────────────────────────────────────────────────────────────────────────
    def start(self, now_ms: int) -> None:
        """Line up what a new job can run at once; it stays CREATED until the first of it has a slot."""
        assert isinstance(self.phase, Created), "a job starts once"
        assert not self.pool.waiting, "a job starts once"
        self._schedule(schedulable(self.graph, self.partitions), now_ms)

    def finished(self, outcomes: Iterable[tuple[RegionIndex, TaskOutcome]], now_ms: int) -> None:
        """Current attempts have ended well: register their results and go on behind them."""
        done = sorted(outcomes, key=lambda pair: pair[0])
        if not done:
            return
        regions = np.array([region for region, _ in done])
        self.graph.move(regions, ExecutionState.FINISHED, now_ms)
        for region, outcome in done:
            self.pool.vacate(region, now_ms)
            self.partitions.register(region, outcome)
            self.graph.figures.note(region, outcome)
        entries = tuple((region, int(self.graph.attempt[region]), outcome) for region, outcome in done)
        self.record(RegionsFinished(at_ms=now_ms, finished=entries))
        if isinstance(self.phase, Running | Restarting):
            self._schedule(schedulable_after(self.graph, self.partitions, regions), now_ms)

    def canceled(self, regions: Regions, now_ms: int) -> None:
        """Attempts that were being cancelled are gone."""
        self._end(regions, ExecutionState.CANCELED, now_ms)

    def never_started(self, regions: Regions, now_ms: int) -> None:
        """Attempts a former JobMaster had decided on and not sent: the next ones take their place."""
        self._end(regions, ExecutionState.CANCELED, now_ms)
        self.graph.reset(regions)
        self.record(RegionsReset(at_ms=now_ms, regions=tuple(RegionIndex(region) for region in regions.tolist())))

    def failed(self, regions: Regions, failure: FailureInfo, worker: ResourceID | None, now_ms: int) -> None:
        """Current attempts have failed, of one cause: restart what that takes, or fail the job."""
        assert isinstance(self.phase, Reconciling | Running | Restarting), (
            "what runs while a job ends is being cancelled"
        )
        self._end(regions, ExecutionState.FAILED, now_ms)
        self._answer_failure(regions, failure, worker, now_ms)

    def slots_unavailable(self, profile: ResourceProfile, failure: FailureInfo, now_ms: int) -> None:
        """There is no slot for what waits for one of `profile`, if anything does: a failure of these regions like others,
        unless there never will be one, which fails the job."""
        waiting = self.pool.waiting_for(profile)
        if not waiting:
            return
        if failure.kind is FailureKind.NON_RECOVERABLE:
            self.fail_job(failure, now_ms)
            return
        for region in waiting:
            self.pool.withdraw(region)
        regions = np.array(sorted(waiting))
        self.graph.move(regions, ExecutionState.FAILED, now_ms)
        self._answer_failure(regions, failure, None, now_ms)

    def _answer_failure(self, regions: Regions, failure: FailureInfo, worker: ResourceID | None, now_ms: int) -> None:
        """Plan what a failure of these regions takes, and begin with it."""
        failure = quarantine.judged(self.state, RegionIndex(int(regions[0])), failure)
        lost = np.array(self.partitions.makers_of(failure.partitions), dtype=np.int64)
        failed = Failed(regions, lost, failure, now_ms)
        plan = plan_failover(self.graph, self.partitions, self._policy, self.state, failed)
        entry = exception_entry(self.graph, self.state, failed, plan, worker)
        if plan.restart is None:
            self._fail(entry, now_ms)
        else:
            self._plan_restart(plan, entry, now_ms)

    def cancel(self, now_ms: int, cause: FailureInfo | None = None) -> None:
        """A client wants the job to end, or there is a cause for it. Once its sinks are being committed it is too late, and it finishes."""
        match self.phase:
            case Created() | Reconciling() | Running() | Restarting() | Failing() if not self.state.intended:
                if cause is not None:
                    entry = ExceptionEntry(timestamp_ms=now_ms, failure=cause)
                    self.record(FailureRecorded(at_ms=now_ms, entry=entry))
                self.enter(self.phase.cancel(), now_ms, cause)
                self.cancel_regions(self._all(), now_ms)
            case _:
                pass

    def fail_job(self, failure: FailureInfo, now_ms: int) -> None:
        """End the job; what runs of it is cancelled first."""
        match self.phase:
            case Created() | Reconciling() | Running() | Restarting():
                self._fail(ExceptionEntry(timestamp_ms=now_ms, failure=failure), now_ms)
            case _:
                pass

    def sink_committed(self, commit_id: str, now_ms: int, told: str = "") -> None:
        """A staged output is visible now; and what the job's owner is to be told of it."""
        if any(commit.commit_id == commit_id for commit in self.uncommitted()):
            self.record(SinkCommitted(at_ms=now_ms, commit_id=commit_id, told=told))

    def resume(self, phase: Reconciling, now_ms: int) -> None:
        """Every attempt of the time before this JobMaster is accounted for: go on."""
        running = phase.resume()
        self.enter(running.restart() if self.state.restarting else running, now_ms)
        self._schedule(schedulable(self.graph, self.partitions), now_ms)

    # ── what is due ──────────────────────────────────────────────────────────────────────────
    def advance(self, now_ms: int) -> None:
        """Do what is due: restarts, deployments, commits, the end of the job."""
        self._end_in_time(now_ms)
        match self.phase:
            case Created():
                self._deploy(now_ms)
            case Running() | Restarting() if self.partitions.conflict is not None and not self.state.intended:
                self.fail_job(self.partitions.conflict, now_ms)
            case Running() | Restarting():
                self._restart_due(now_ms)
                self._deploy(now_ms)
                self._finish_if_done(now_ms)
            case Cancelling() | Failing() if self.graph.all_terminal:
                self.enter(self.phase.end(), now_ms)
            case _:
                pass

    def cancel_regions(self, regions: Regions, now_ms: int) -> None:
        """End these regions' attempts: at once where no worker has them, else by asking the worker."""
        states = self.graph.state[regions]
        idle = regions[np.isin(states, (ExecutionState.CREATED, ExecutionState.SCHEDULED))]
        for region in regions[states == ExecutionState.SCHEDULED].tolist():
            self.pool.withdraw(RegionIndex(region))
        self.graph.move(idle, ExecutionState.CANCELED, now_ms)
        active = regions[np.isin(states, DEPLOYED_STATES) & (states != ExecutionState.CANCELING)]
        self.graph.move(active, ExecutionState.CANCELING, now_ms)
        self.ask_to_cancel(active)

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
        deployment = TaskDeployment(
            attempt=self.graph.attempt_id(region),
            allocation_id=self.pool.seat_of(region),
            vertices=tuple(vertex.id for vertex in logical.vertices),
            subtask=subtask,
            inputs=self.partitions.inputs_of(logical, subtask),
            groups=tuple((group.dataset_id, group.group_id) for group in groups),
            alone=quarantine.runs_alone(self.state, region),
        )
        self.output.deploy.setdefault(worker, []).append(deployment)

    def uncommitted(self) -> list[SinkCommit]:
        """What is intended and not yet visible."""
        return [commit for commit in self.state.intended if commit.commit_id not in self.state.committed]

    def record(self, record: JournalRecord) -> None:
        """Journal a fact and apply it."""
        fold(self.state, record, self.settings.exception_history_size)
        self.splits.follow(record)
        self._journal(record)

    def enter(self, phase: JobPhase, now_ms: int, failure: FailureInfo | None = None) -> None:
        """Go to a phase; durable when it changes the job's status."""
        self.phase = phase
        if phase.status not in (self.state.status, JobStatus.RECONCILING):
            self.record(JobStatusRecord(at_ms=now_ms, status=phase.status, failure=failure))

    def suspend(self) -> None:
        """The job goes on elsewhere, from the journal: nothing is recorded, and what runs is left alone."""
        if isinstance(self.phase, Unended):
            self.phase = self.phase.suspend()

    def _all(self) -> Regions:
        return np.arange(self.topology.region_count)

    def _schedule(self, regions: Regions, now_ms: int) -> None:
        self.graph.move(regions, ExecutionState.SCHEDULED, now_ms)
        for logical, part in self.topology.split(regions):
            self.pool.wait((RegionIndex(region) for region in part.tolist()), self.wants[logical.index])

    def _end(self, regions: Regions, state: ExecutionState, now_ms: int) -> None:
        """Attempts that workers had are gone without a result."""
        self.graph.move(regions, state, now_ms)
        for region in regions.tolist():
            self.pool.vacate(RegionIndex(region), now_ms)
        ended = tuple((RegionIndex(region), int(self.graph.attempt[region])) for region in regions.tolist())
        self.record(RegionsEnded(at_ms=now_ms, ended=ended, state=state))
        self.restarts.ended(regions.tolist(), self.state.restarting)

    def _fail(self, entry: ExceptionEntry, now_ms: int) -> None:
        assert isinstance(self.phase, Created | Reconciling | Running | Restarting), (
            "a job that ends is not failed again"
        )
        self.record(FailureRecorded(at_ms=now_ms, entry=entry))
        self.enter(self.phase.fail(), now_ms, entry.failure)
        self.cancel_regions(self._all(), now_ms)

    def _plan_restart(self, plan: FailoverPlan, entry: ExceptionEntry, now_ms: int) -> None:
        regions, due_ms = np.array(plan.restart), now_ms + plan.delay_ms
        self.partitions.available[regions] = False
        self.record(
            RestartPlanned(
                at_ms=now_ms,
                entry=entry,
                regions=tuple(RegionIndex(region) for region in regions.tolist()),
                due_ms=due_ms,
                restarts=self.state.restarts + plan.is_root,
                backoff=plan.backoff,
                retried=plan.retried,
                is_root=plan.is_root,
            )
        )
        self.cancel_regions(regions, now_ms)
        self.restarts.plan(due_ms)
        self.restarts.ended(regions[TERMINAL[self.graph.state[regions]]].tolist(), self.state.restarting)
        if isinstance(self.phase, Created | Running):
            self.enter(self.phase.restart(), now_ms)

    def _restart_due(self, now_ms: int) -> None:
        due = self.restarts.take(now_ms)
        if due:
            regions = np.array(due)
            self.graph.reset(regions)
            for region in due:
                self.output.discard += self.partitions.withdraw(region)
            self.record(RegionsReset(at_ms=now_ms, regions=tuple(due)))
            self._schedule(schedulable(self.graph, self.partitions), now_ms)
        next_ms = self.restarts.next_ms(now_ms)
        if next_ms is not None:
            self.output.wake(next_ms)
        if not self.state.restarting and isinstance(self.phase, Restarting):
            self.enter(self.phase.resume(), now_ms)

    def _deploy(self, now_ms: int) -> None:
        seats = sorted(self.pool.assign(self._preferred_workers), key=lambda seat: seat.region)
        if not seats:
            return
        if isinstance(self.phase, Created):
            self.enter(self.phase.start(), now_ms)
        self.graph.move(np.array([seat.region for seat in seats]), ExecutionState.DEPLOYING, now_ms)
        for seat in seats:
            self.graph.place(seat.region, seat.worker)
            self.ask_to_run(seat.region, seat.worker)
        entries = tuple((seat.region, int(self.graph.attempt[seat.region]), seat.worker) for seat in seats)
        self.record(RegionsDeployed(at_ms=now_ms, deployed=entries))

    def _preferred_workers(self, region: RegionIndex) -> list[ResourceID]:
        """Where the subtasks of equal index run, or have run, that this one is best near to."""
        logical = self.topology.logical_of(region)
        found = (self.graph.worker_of(offset + region - logical.offset) for offset in logical.mates)
        return [worker for worker in found if worker is not None]

    def _end_in_time(self, now_ms: int) -> None:
        """A job that has taken too long fails, unless it is past the point of no return."""
        if not self.settings.timeout_ms or self.state.intended or self.state.status.is_globally_terminal:
            return
        due_ms = self.state.created_ms + self.settings.timeout_ms
        if now_ms < due_ms:
            self.output.wake(due_ms)
        else:
            seconds = f"{self.settings.timeout_ms / 1000:g} s"
            message = f"the job has not ended within its job.timeout of {seconds} after its submission"
            self.fail_job(FailureInfo(kind=FailureKind.NON_RECOVERABLE, message=message), now_ms)

    def _finish_if_done(self, now_ms: int) -> None:
        if not isinstance(self.phase, Running) or not self.graph.all_finished:
            return
        outcomes = self.partitions.outcomes
        staged = gather_commits([outcomes[region] for region in sorted(outcomes)])
        if staged and not self.state.intended:
            self.record(CommitsIntended(at_ms=now_ms, commits=staged))
        if not self.uncommitted():
            self.enter(self.phase.finish(), now_ms)

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
        if isinstance(self.phase, Running | Restarting):
            ended = [region for region in state.restarting if graph.state_of(region).is_terminal]
            self.restarts.validate(ended, state.restarting)
        here = (state.status, JobStatus.RECONCILING, JobStatus.SUSPENDED)
        assert self.phase.status in here, "the job's status differs"
        seats = [region for region in deployed if graph.state_of(region) in SEATED]
        assert all(self.pool.is_seated(RegionIndex(region)) for region in seats), "an attempt runs without a slot"
