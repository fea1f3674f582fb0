"""DefaultScheduler: what happens to a job's regions, from what workers say and what the journal holds.

Methods say what has happened; `advance` does what is due of it, and gives out what is to be said to workers. It is
level-triggered: it looks at what is.
"""

from collections.abc import Callable, Collection, Iterable
from itertools import chain

import numpy as np

from firesteel.core.checkpoint.coordinator import CheckpointCoordinator
from firesteel.core.checkpoint.retention import retained_location
from firesteel.core.checkpoint.savepoints import Savepoints
from firesteel.core.execution.topology import Regions, Topology
from firesteel.core.journal.journal import JobState
from firesteel.core.journal.records import (
    CommitsIntended,
    FailureRecorded,
    JobStatusRecord,
    JournalRecord,
    SinkCommitted,
)
from firesteel.core.scheduler import quarantine, recovery, reports
from firesteel.core.scheduler.commit import SinkCommitter, gather_commits, told_of_visible
from firesteel.core.scheduler.exceptionhistory import exception_entry
from firesteel.core.scheduler.executions import SEATED, Executions
from firesteel.core.scheduler.failover import Failed, FailoverPlan, plan_failover, policy_of, restart_record
from firesteel.core.scheduler.jobstates import (
    Cancelling,
    Created,
    Failing,
    JobPhase,
    Reconciling,
    Restarting,
    Running,
    Unended,
    recovered,
)
from firesteel.core.scheduler.outages import OutagePatience
from firesteel.core.scheduler.output import SchedulerOutput
from firesteel.core.scheduler.settings import SchedulerSettings
from firesteel.core.scheduler.splits import draw_splits
from firesteel.core.scheduler.view import JobViews
from firesteel.model.failures import NO_RESOURCE_AVAILABLE, FailureInfo, FailureKind
from firesteel.model.ids import AllocationID, RegionIndex, ResourceID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.messages import NotEnoughResources, TaskManagerReport
from firesteel.model.reports import SplitRequest, TaskStateUpdate
from firesteel.model.resources import ResourceProfile
from firesteel.model.splits import DrawnSplits
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.tasks import TaskProgress
from firesteel.model.views import ExceptionEntry


class DefaultScheduler:
    """Owned by one JobMaster. Its parts are its own: others tell it what has happened, and look at views.

    Where `workers` is an argument, these are the workers the JobMaster can talk to.
    """

    def __init__(
        self, graph: JobGraph, state: JobState, settings: SchedulerSettings, journal: Callable[[JournalRecord], None]
    ) -> None:
        self.topology, self.settings = Topology(graph), settings
        self._executions = Executions(self.topology, state, settings, journal)
        self._phase: JobPhase = Created()
        patience = OutagePatience(settings.patience_ms, graph.job_id, self._executions.is_stream)
        self._policy = policy_of(settings, patience)
        self.limits = self._executions.limits
        self._committer = SinkCommitter(graph, settings.patience_ms)
        self.views = JobViews(self._executions, self._committer, settings.checkpoints)
        self.savepoints = Savepoints(self._executions, settings.savepoints)
        self.checkpoints = CheckpointCoordinator(self._executions, settings.checkpoints)

    def start(self, now_ms: int, doom: FailureInfo | None = None) -> None:
        """Begin, or go on where the journal ends. What a new job can run at once is lined up; it stays CREATED until the
        first of it has a slot. With `doom` the job fails of that, in order."""
        state = self._executions.state
        assert isinstance(self._phase, Created), "a job starts once"
        assert not self._executions.pool.waiting, "a job starts once"
        if not state.timestamps_ms:
            self._executions.record(JobStatusRecord(at_ms=now_ms, status=JobStatus.CREATED))
        recovery.restore(self._executions)
        self._phase = recovered(state.status)
        if isinstance(self._phase, Created):
            self._executions.schedule_all(now_ms)
        elif isinstance(self._phase, Cancelling | Failing):
            self._executions.cancel_all(now_ms)
        if doom is not None:
            self.fail_job(doom, now_ms)

    # ── workers ──────────────────────────────────────────────────────────────────────────────
    def worker_reported(self, report: TaskManagerReport, now_ms: int) -> None:
        """All that a worker has of the job: what differs is put right there or here, what it offers is taken if needed."""
        worker = report.resource_id
        self._committer.met(worker, report.slots)
        self._take_back_slots(report, now_ms)
        recovery.adopt_slots(self._executions, report, now_ms)
        running = [TaskStateUpdate(attempt=item.attempt, state=item.state) for item in report.executions]
        self.attempts_changed(worker, chain(running, report.updates), now_ms)
        vanished = reports.ask_again(self._executions, report, now_ms)
        if len(vanished):
            reason = f"worker {worker} no longer runs the attempt and does not know how it ended"
            self._failed(vanished, reports.worker_gone(reason), worker, now_ms)
        self._executions.note_progress(report.progress)
        self._resume_if_found(now_ms)
        if not self._executions.state.status.is_globally_terminal:
            occupied = {execution.allocation_id for execution in report.executions}
            vacant = [offer for offer in report.slots if offer.allocation_id not in occupied]
            self._executions.pool.offer(worker, vacant, now_ms, keep=self._executions.keeps_slots)

    def attempts_changed(self, worker: ResourceID, updates: Iterable[TaskStateUpdate], now_ms: int) -> None:
        """A worker says how attempts get on, or have ended."""
        applied = reports.apply_updates(self._executions, worker, updates, now_ms)
        if isinstance(self._phase, Running | Restarting):
            self._executions.schedule_after(applied.finished, now_ms)
        for update in applied.broken:
            if reports.still_broken(self._executions, update, now_ms):
                failure = update.failure or reports.ended_by_worker(worker)
                self._failed(np.array([update.attempt.region]), failure, worker, now_ms)

    def worker_lost(self, worker: ResourceID, reason: str, now_ms: int) -> None:
        """A worker is gone: its slots leave the pool, its attempts have failed."""
        regions = self._executions.graph.deployed_on(worker)
        is_canceling = self._executions.graph.state[regions] == ExecutionState.CANCELING
        if is_canceling.any():
            self._executions.end(regions[is_canceling], ExecutionState.CANCELED, now_ms)
        if not is_canceling.all():
            failure = reports.worker_gone(f"worker {worker} is lost: {reason}")
            self._failed(regions[~is_canceling], failure, worker, now_ms)
        self._executions.pool.drop_worker(worker)
        self._committer.lost(worker)

    def unreported_lost(self, workers: Collection[ResourceID], now_ms: int) -> None:
        """Workers of the time before this JobMaster that have not reported are taken for lost."""
        for worker in self._executions.graph.workers:
            if worker not in workers:
                self.worker_lost(worker, "it has not reported after the change of master", now_ms)

    def worker_released(self, worker: ResourceID) -> None:
        """Nothing of the job is left there."""
        self._executions.pool.drop_worker(worker)

    def progressed(self, progress: Iterable[TaskProgress]) -> None:
        """Hints of how far attempts are."""
        self._executions.note_progress(progress)

    def slots_refused(self, refusal: NotEnoughResources, now_ms: int) -> None:
        """There is no slot for what waits for one of a profile, if anything does: a failure of these regions like others,
        unless there never will be one, which fails the job."""
        waiting = self._executions.pool.waiting_for(refusal.profile)
        kind = FailureKind.ENVIRONMENT if refusal.timed_out else FailureKind.NON_RECOVERABLE
        failure = FailureInfo(kind=kind, message=refusal.reason, exception=NO_RESOURCE_AVAILABLE)
        if waiting and refusal.timed_out:
            regions = self._executions.give_up_waiting(waiting, now_ms)
            self._answer_failure(regions, failure, None, now_ms)
        elif waiting:
            self.fail_job(failure, now_ms)

    def draw_splits(self, request: SplitRequest, now_ms: int) -> DrawnSplits | None:
        """What an attempt is given that asks for input splits; None when it is not one that may ask."""
        return draw_splits(self._executions, request, now_ms)

    def tidy_up(self, idle_before_ms: int) -> None:
        """Let go of slots nobody waits for that have been idle since then, and of progress nobody will look at."""
        self._executions.progress = self._executions.progress_of_running()
        for slot in () if self._executions.keeps_slots else self._executions.pool.surplus(idle_before_ms):
            self._executions.pool.drop(slot.allocation_id)

    def _take_back_slots(self, report: TaskManagerReport, now_ms: int) -> None:
        """The worker no longer has some of its slots: what ran there has failed."""
        offered = {offer.allocation_id: None for offer in report.slots}
        missing = [s for s in self._executions.pool.of_worker(report.resource_id) if s.allocation_id not in offered]
        emptied = [self._executions.pool.drop(slot.allocation_id) for slot in missing]
        ran = [region for region in emptied if region is not None and self._executions.graph.state_of(region) in SEATED]
        if ran:
            failure = reports.worker_gone(f"worker {report.resource_id} has taken the slot back")
            self._failed(np.array(sorted(ran)), failure, report.resource_id, now_ms)

    # ── the job ──────────────────────────────────────────────────────────────────────────────
    def cancel(self, now_ms: int, cause: FailureInfo | None = None) -> None:
        """A client wants the job to end, or there is a cause for it. Once its sinks are being committed it is too late, and it finishes."""
        match self._phase:
            case Created() | Reconciling() | Running() | Restarting() | Failing() if (
                not self._executions.state.intended
            ):
                if cause is not None:
                    entry = ExceptionEntry(timestamp_ms=now_ms, failure=cause)
                    self._executions.record(FailureRecorded(at_ms=now_ms, entry=entry))
                self._enter(self._phase.cancel(), now_ms, cause)
                self._executions.cancel_all(now_ms)
            case _:
                pass

    def fail_job(self, failure: FailureInfo, now_ms: int) -> None:
        """End the job; what runs of it is cancelled first."""
        match self._phase:
            case Created() | Reconciling() | Running() | Restarting():
                self._fail(ExceptionEntry(timestamp_ms=now_ms, failure=failure), now_ms)
            case _:
                pass

    def sink_committed(self, commit_id: str, note: str, now_ms: int, *, ignored: bool = False) -> None:
        """A staged output is visible now, or `ignored`; and what the job's owner is to be told of it."""
        if any(commit.commit_id == commit_id for commit in self._executions.uncommitted()):
            done = SinkCommitted(at_ms=now_ms, commit_id=commit_id, note=note, ignored=ignored)
            self._executions.sink_committed(done)
        self._give_up_commits(now_ms)

    def sink_failed(self, commit_id: str, failure: FailureInfo, now_ms: int) -> None:
        """A staged output could not be made visible."""
        if any(commit.commit_id == commit_id for commit in self._executions.uncommitted()):
            self._committer.failed(commit_id, failure, now_ms)
            self._give_up_commits(now_ms)

    def _give_up_commits(self, now_ms: int) -> None:
        """Fail the job when nothing is left to commit but what can't be."""
        verdict = self._committer.verdict(self._executions.uncommitted())
        if verdict is not None:
            state = self._executions.state
            visible = [commit for commit in state.intended if commit.commit_id in state.committed]
            self.fail_job(told_of_visible(verdict, visible), now_ms)

    def suspend(self) -> None:
        """The job goes on elsewhere, from the journal: nothing is recorded, and what runs is left alone."""
        if isinstance(self._phase, Unended):
            self._phase = self._phase.suspend()

    # ── failures ─────────────────────────────────────────────────────────────────────────────
    def _failed(self, regions: Regions, failure: FailureInfo, worker: ResourceID | None, now_ms: int) -> None:
        """Current attempts have failed, of one cause: restart what that takes, or fail the job."""
        assert isinstance(self._phase, Reconciling | Running | Restarting), (
            "what runs while a job ends is being cancelled"
        )
        unbegun = regions.tolist() if failure.unbegun else ()
        self._executions.end(regions, ExecutionState.FAILED, now_ms, unbegun=unbegun)
        self._answer_failure(regions, failure, worker, now_ms)

    def _answer_failure(self, regions: Regions, failure: FailureInfo, worker: ResourceID | None, now_ms: int) -> None:
        """Plan what a failure of these regions takes, and begin with it."""
        first, is_stream = RegionIndex(int(regions[0])), self._executions.is_stream
        graph, state, partitions = self._executions.graph, self._executions.state, self._executions.partitions
        failure = quarantine.judged(state, first, failure, is_stream=is_stream)
        lost = np.array(partitions.makers_of(failure.partitions), dtype=np.int64)
        failed = Failed(regions, lost, failure, now_ms, worker)
        plan = plan_failover(graph, partitions, self._policy, state, failed)
        entry = exception_entry(graph, state, failed, plan)
        if plan.restart is None:
            self._fail(entry, now_ms)
        else:
            self._plan_restart(plan, entry, now_ms)

    def _fail(self, entry: ExceptionEntry, now_ms: int) -> None:
        assert isinstance(self._phase, Created | Reconciling | Running | Restarting), (
            "a job that ends is not failed again"
        )
        self._executions.record(FailureRecorded(at_ms=now_ms, entry=entry))
        self._enter(self._phase.fail(), now_ms, entry.failure)
        self._executions.cancel_all(now_ms)

    def _plan_restart(self, plan: FailoverPlan, entry: ExceptionEntry, now_ms: int) -> None:
        executions = self._executions
        executions.record(restart_record(plan, entry, executions.state, now_ms, is_stream=executions.is_stream))
        executions.plan_restart(np.array(plan.restart), now_ms + plan.delay_ms, now_ms)
        if isinstance(self._phase, Created | Running):
            self._enter(self._phase.restart(), now_ms)

    # ── what is due ──────────────────────────────────────────────────────────────────────────
    def advance(self, workers: Collection[ResourceID], now_ms: int) -> SchedulerOutput:
        """Do what is due until nothing more is: restarts, deployments, commits, the end of the job. Returns what is to be
        said to workers, once."""
        self._end_in_time(now_ms)
        before: JobPhase | None = None
        while before is not self._phase:
            before = self._phase
            self.savepoints.advance(workers, now_ms)
            if (too_many := self.checkpoints.advance(workers, now_ms)) is not None:
                self._answer_failure(self._executions.graph.in_state(ExecutionState.RUNNING), too_many, None, now_ms)
            self._step(now_ms)
        self._commit(workers, now_ms)
        return self._executions.take_output()

    def _step(self, now_ms: int) -> None:
        """What is due in this phase; another one may follow."""
        state, partitions = self._executions.state, self._executions.partitions
        match self._phase:
            case Reconciling():
                self._resume_if_found(now_ms)
            case Created():
                self._deploy(now_ms)
            case Running() | Restarting() if partitions.conflict is not None and not state.intended:
                self.fail_job(partitions.conflict, now_ms)
            case Running() | Restarting():
                self._executions.restart_due(now_ms)
                if not state.restarting and isinstance(self._phase, Restarting):
                    self._enter(self._phase.resume(), now_ms)
                self._deploy(now_ms)
                self._finish_if_done(now_ms)
            case Cancelling() | Failing() if self._executions.graph.all_terminal:
                self._enter(self._phase.end(), now_ms)
            case _:
                pass

    def _resume_if_found(self, now_ms: int) -> None:
        """Leave RECONCILING when nothing is looked for any more."""
        if isinstance(self._phase, Reconciling) and not self._executions.graph.count(ExecutionState.RECONCILING):
            running = self._phase.resume()
            self._enter(running.restart() if self._executions.state.restarting else running, now_ms)
            self._executions.schedule_all(now_ms)

    def _deploy(self, now_ms: int) -> None:
        seats = self._executions.take_seats()
        if seats and isinstance(self._phase, Created):
            self._enter(self._phase.start(), now_ms)
        if seats:
            self._executions.deploy(seats, now_ms)

    def _end_in_time(self, now_ms: int) -> None:
        """A job that has taken too long fails, unless it is past the point of no return."""
        if (
            not self.settings.timeout_ms
            or self._executions.state.intended
            or self._executions.state.status.is_globally_terminal
        ):
            return
        due_ms = self._executions.state.created_ms + self.settings.timeout_ms
        if now_ms < due_ms:
            self._executions.output.wake(due_ms)
        else:
            seconds = f"{self.settings.timeout_ms / 1000:g} s"
            message = f"the job has not ended within its job.timeout of {seconds} after its submission"
            self.fail_job(FailureInfo(kind=FailureKind.NON_RECOVERABLE, message=message), now_ms)

    def _finish_if_done(self, now_ms: int) -> None:
        if not isinstance(self._phase, Running) or not self._executions.graph.all_finished:
            return
        if self._executions.state.lacks_savepoint:
            return
        outcomes = self._executions.partitions.outcomes
        staged = gather_commits([outcomes[region] for region in sorted(outcomes)])
        if staged and not self._executions.state.intended:
            self._executions.record(CommitsIntended(at_ms=now_ms, commits=staged))
        if not self._executions.uncommitted():
            self._enter(self._phase.finish(), now_ms)

    def _commit(self, workers: Collection[ResourceID], now_ms: int) -> None:
        """Have workers make visible what is intended and was not asked for yet, or in vain."""
        commits, output = self._executions.uncommitted(), self._executions.output
        if commits and self._executions.state.status is JobStatus.RUNNING:
            output.commit = self._committer.due(commits, workers, now_ms)
            next_ms = self._committer.next_ms(commits, now_ms)
            if next_ms is not None:
                output.wake(next_ms)

    def _enter(self, phase: JobPhase, now_ms: int, failure: FailureInfo | None = None) -> None:
        """Go to a phase; durable when it changes the job's status."""
        self._phase = phase
        if phase.status not in (self._executions.state.status, JobStatus.RECONCILING):
            state, settings = self._executions.state, self.checkpoints.settings
            retained = retained_location(state, self.topology.graph, settings, phase.status, now_ms)
            record = JobStatusRecord(at_ms=now_ms, status=phase.status, failure=failure, retained=retained)
            self._executions.record(record)

    # ── looking ──────────────────────────────────────────────────────────────────────────────
    @property
    def status(self) -> JobStatus:
        return self._phase.status

    @property
    def is_over(self) -> bool:
        """Whether the job has ended, for good."""
        return self._executions.state.status.is_globally_terminal

    @property
    def awaits_workers(self) -> bool:
        """Whether workers may have something of the job that they have not reported to a JobMaster that has just begun."""
        return self.is_over or bool(self._executions.graph.count(*recovery.LOOKED_FOR))

    def requirements(self, workers: Collection[ResourceID]) -> tuple[tuple[ResourceProfile, int], ...]:
        """The slots the job needs, all of them."""
        to_commit = self._committer.requirements(self._executions.uncommitted(), workers)
        return to_commit or self._executions.pool.requirements()

    def held_at(self, worker: ResourceID) -> tuple[AllocationID, ...]:
        """The slots the job holds there."""
        return tuple(sorted(slot.allocation_id for slot in self._executions.pool.of_worker(worker)))

    def validate(self, workers: Collection[ResourceID]) -> None:
        """Its parts say the same, and its phase what the journal says."""
        self._executions.validate()
        state, graph = self._executions.state, self._executions.graph
        if isinstance(self._phase, Running | Restarting):
            ended = [region for region in state.restarting if graph.state_of(region).is_terminal]
            self._executions.restarts.validate(ended, state.restarting)
        here = (state.status, JobStatus.RECONCILING, JobStatus.SUSPENDED)
        assert self.status in here, "the job's status differs"
        held = (slot.worker for slot in self._executions.pool.slots.values())
        assert all(worker in workers for worker in held), "a slot of an unknown worker"
