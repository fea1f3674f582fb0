"""The JobMaster's core: one job's scheduler, its workers, its slots, its journal.

Connections are learned, never remembered: workers report themselves when they find this leader, and
everything said to them is absolute and repeated with each heartbeat.
"""

from typing import assert_never

import msgspec

from firesteel.core.effects import (
    RESOURCE_MANAGER,
    Event,
    LeaderChanged,
    LeadershipLost,
    PeerLost,
    Persisted,
    PersistFailed,
    Received,
    Started,
    TimerFired,
)
from firesteel.core.journal import JobState, JobStatusRecord
from firesteel.core.knownworkers import KnownWorkers
from firesteel.core.machine import JournaledCore
from firesteel.core.registration import RegistrationTries
from firesteel.core.scheduler import recovery, reports
from firesteel.core.scheduler.commit import SinkCommitter, leftovers
from firesteel.core.scheduler.output import SchedulerOutput
from firesteel.core.scheduler.scheduler import DefaultScheduler
from firesteel.core.scheduler.splits import draw_splits
from firesteel.core.scheduler.view import BEFORE_END, job_result, job_summary, job_view, progress_of_running
from firesteel.core.settings import JobMasterSettings
from firesteel.core.slots.connection import JobRequirements, Requirements
from firesteel.core.timers import (
    RELEASE_RETRY_MS,
    HeartbeatDue,
    JobMasterTimer,
    ReconciliationOver,
    RegistrationDue,
    ReleaseDue,
    WakeUp,
)
from firesteel.model import messages as m
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import Address, RegionIndex, ResourceID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.reports import SplitRequest
from firesteel.model.resources import UNSPECIFIED
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.tasks import JobInformation, TaskProgress
from firesteel.model.views import JobSummary, JobView

JobMasterEvent = Started | Received | TimerFired | Persisted | PersistFailed | PeerLost | LeaderChanged | LeadershipLost


class JobMasterCore(JournaledCore):
    """Decides for one job during one leadership. `state` is the fold of the journal so far."""

    def __init__(
        self, graph: JobGraph, state: JobState, settings: JobMasterSettings, me: m.Leader, dispatcher: m.Leader
    ) -> None:
        super().__init__(me.address, me.token)
        self.settings, self.dispatcher = settings, dispatcher
        self.doom: FailureInfo | None = None
        """Set before the start: the job is to fail with this, in order."""
        self.job = JobInformation(graph=graph, user=graph.owner or "firesteel")
        self.scheduler = DefaultScheduler(graph, state, settings.scheduler, self._journal)
        self.workers = KnownWorkers(settings.heartbeat_interval_ms, settings.heartbeat_timeout_ms)
        self.committer = SinkCommitter()
        self.progress: dict[RegionIndex, TaskProgress] = {}
        tries = RegistrationTries(settings.registration)
        self._resources = JobRequirements(graph.job_id, tries, settings.queue, settings.priority)
        self._reported: JobStatus | None = None
        self._unreleased: dict[ResourceID, None] | None = None
        self._awaits_workers = False
        self._closed = False
        self._version = 0

    # ── the door ─────────────────────────────────────────────────────────────────────────────
    def _on(self, event: Event) -> None:
        assert isinstance(event, JobMasterEvent), f"not an event of a JobMaster: {event}"
        match event:
            case Started():
                self._on_started()
            case Received():
                self._on_message(event.envelope)
            case TimerFired():
                assert isinstance(event.timer, JobMasterTimer), f"not a timer of a JobMaster: {event.timer}"
                self._on_timer(event.timer)
            case Persisted():
                self._on_persisted(event)
                return
            case PersistFailed():
                self._on_persist_failed(event)
                return
            case PeerLost():
                for worker in self.workers.at(Address(event.address)):
                    self._lose_worker(worker, event.reason)
            case LeadershipLost():
                self.scheduler.suspend()
                self._report_status()
                return
            case LeaderChanged():
                assert event.component == RESOURCE_MANAGER, f"a JobMaster does not follow {event.component}"
                self._resources.follow(event.leader)
                self._register()
            case _:
                assert_never(event)
        self._settle()

    def view(self, *, may_end: bool = True) -> JobView:
        """The job as it is now. Without `may_end` an end is not shown: it is not stored where a successor looks first."""
        return job_view(self.scheduler, self.progress, self._version, self._shown(may_end=may_end))

    def summary(self, *, may_end: bool = True) -> JobSummary:
        return job_summary(self.scheduler, self.progress, self._version, self._shown(may_end=may_end))

    def _shown(self, *, may_end: bool) -> JobStatus:
        status = self.scheduler.phase.status
        return status if may_end else BEFORE_END.get(status, status)

    def validate(self) -> None:
        self.scheduler.validate()
        held = [slot.worker for slot in self.scheduler.pool.slots.values()]
        assert all(worker in self.workers for worker in held), "a slot of an unknown worker"

    def _on_started(self) -> None:
        state = self.scheduler.state
        if not state.timestamps_ms:
            self.scheduler.record(JobStatusRecord(at_ms=self.now_ms, status=JobStatus.CREATED))
        self._resources.since_ms = state.created_ms
        recovery.recover(self.scheduler, self.now_ms)
        if self.doom is not None:
            self.scheduler.fail_job(self.doom, self.now_ms)
        looked_for = self.scheduler.graph.count(ExecutionState.RECONCILING, ExecutionState.CANCELING)
        self._awaits_workers = bool(looked_for) or self.scheduler.state.status.is_globally_terminal
        if self._awaits_workers:
            self._set_timer(ReconciliationOver(), self.settings.reconciliation_timeout_ms)
        self._set_timer(HeartbeatDue(), self.settings.heartbeat_interval_ms)

    def _on_message(self, envelope: m.Envelope) -> None:
        body = envelope.body
        if not isinstance(body, m.ToJobMaster):
            self._misdirected(envelope)
            return
        match body:
            case m.TaskManagerReport():
                self._on_report(envelope.sender, body)
            case m.UpdateTaskExecutionStates():
                if self.workers.is_newer(body.resource_id, body.sequence, self.now_ms):
                    reports.apply_updates(self.scheduler, body.resource_id, body.updates, self.now_ms)
            case m.ReportProgress():
                self._on_progress(body.progress)
            case m.RequestNextInputSplits():
                self._on_split_requests(body.resource_id, body.wants)
            case m.SinkCommitAnswer():
                self._on_commit_answer(body)
            case m.JobReleased():
                self._on_released(body.resource_id)
            case m.DisconnectTaskExecutor():
                self._lose_worker(body.resource_id, body.reason)
            case m.JobMasterRegistered():
                self._resources.registered, self._resources.heard_ms = True, self.now_ms
            case m.HeartbeatRequest():
                self._answer_resource_manager()
            case m.NotEnoughResources():
                reports.slots_refused(self.scheduler, body, self.now_ms)
            case m.CancelJob():
                self._tell(f"cancelled: {body.reason or 'a client has asked for it'}")
                cause = FailureInfo(kind=FailureKind.ENVIRONMENT, message=body.reason) if body.reason else None
                self.scheduler.cancel(self.now_ms, cause)
            case _:
                assert_never(body)

    def _on_timer(self, timer: JobMasterTimer) -> None:
        match timer:
            case HeartbeatDue():
                self._beat()
            case RegistrationDue():
                self._register()
            case ReconciliationOver():
                self._give_up_missing()
            case ReleaseDue():
                self._release_workers()
            case WakeUp():
                pass  # What the scheduler waited for is due: `advance` does it, as after every event.
            case _:
                assert_never(timer)

    # ── workers ──────────────────────────────────────────────────────────────────────────────
    def _on_report(self, sender: Address, report: m.TaskManagerReport) -> None:
        is_new = report.resource_id not in self.workers
        if not self.workers.meet(report.resource_id, sender, report.sequence, self.now_ms):
            return
        if is_new and self._unreleased is not None:
            self._unreleased[report.resource_id] = None
            self._release_workers()
        if not self.workers.is_newer(report.resource_id, report.sequence, self.now_ms):
            self.workers.heard(report.resource_id, self.now_ms)
            return
        self.workers[report.resource_id].offer_sequence = report.sequence
        self._drop_missing_slots(report)
        reports.apply_report(self.scheduler, report, self.now_ms)
        self._on_progress(report.progress)
        recovery.settle(self.scheduler, self.now_ms)
        if not self.scheduler.state.status.is_globally_terminal:
            occupied = {execution.allocation_id for execution in report.executions}
            vacant = [offer for offer in report.slots if offer.allocation_id not in occupied]
            self.scheduler.pool.offer(report.resource_id, vacant, self.now_ms)
        self.scheduler.advance(self.now_ms)
        self._on_split_requests(report.resource_id, report.wants)
        self._tell_held(report.resource_id)

    def _drop_missing_slots(self, report: m.TaskManagerReport) -> None:
        offered = {offer.allocation_id: None for offer in report.slots}
        for slot in self.scheduler.pool.of_worker(report.resource_id):
            if slot.allocation_id not in offered:
                region = self.scheduler.pool.drop(slot.allocation_id)
                if region is not None:
                    self._tell(f"region {region} lost its slot at {report.resource_id}")
                    reports.slot_lost(self.scheduler, report.resource_id, region, self.now_ms)

    def _on_progress(self, progress: tuple[TaskProgress, ...]) -> None:
        for item in progress:
            if self.scheduler.graph.is_current(item.attempt):
                self.progress[item.attempt.region] = item

    def _on_split_requests(self, resource_id: ResourceID, wants: tuple[SplitRequest, ...]) -> None:
        for request in wants:
            drawn = draw_splits(self.scheduler, request, self.now_ms)
            if drawn is not None:
                body = m.NextInputSplits(job_id=self.job.graph.job_id, attempt=request.attempt, drawn=drawn)
                self._tell_worker(resource_id, body)

    def _on_commit_answer(self, answer: m.SinkCommitAnswer) -> None:
        if answer.failure is None:
            self.scheduler.sink_committed(answer.commit_id, self.now_ms, answer.told)
            self._give_up_commits()
        elif any(commit.commit_id == answer.commit_id for commit in self.scheduler.uncommitted()):
            self.committer.failed(answer.commit_id, answer.failure, self.now_ms)
            self._give_up_commits()

    def _give_up_commits(self) -> None:
        """Fail the job when nothing is left to commit but what can't be."""
        verdict = self.committer.verdict(self.scheduler.uncommitted())
        if verdict is not None:
            self.scheduler.fail_job(verdict, self.now_ms)

    def _lose_worker(self, resource_id: ResourceID, reason: str) -> None:
        if not self.workers.lose(resource_id):
            return
        self._tell(f"lost worker {resource_id}: {reason}")
        self._resources.lose_worker(resource_id)
        if self._unreleased is not None:
            self._unreleased.pop(resource_id, None)
        reports.worker_lost(self.scheduler, resource_id, reason, self.now_ms)

    def _give_up_missing(self) -> None:
        """Workers of the time before this JobMaster that have not reported are taken for lost."""
        self._awaits_workers = False
        for worker in self.scheduler.graph.workers:
            if worker not in self.workers:
                reports.worker_lost(
                    self.scheduler, worker, "it has not reported after the change of master", self.now_ms
                )

    def _beat(self) -> None:
        tick = self.workers.tick(self.now_ms)
        self.progress = progress_of_running(self.scheduler.graph, self.progress)
        for worker in tick.lost:
            self._lose_worker(worker, f"no sign of life for {self.settings.heartbeat_timeout_ms} ms")
        for slot in self.scheduler.pool.surplus(self.now_ms - self.settings.slot_idle_timeout_ms):
            self.scheduler.pool.drop(slot.allocation_id)
        for worker in tick.due:
            self._tell_held(worker, wants_report=True)
        if self._resources.is_silent(self.now_ms, self.settings.heartbeat_timeout_ms):
            self._resources.lose()
            self._register()
        self._set_timer(HeartbeatDue(), self.settings.heartbeat_interval_ms)

    def _tell_held(self, resource_id: ResourceID, *, wants_report: bool = False) -> None:
        """Answer an offer, or ask for a report: both are done by saying what is held there."""
        known = self.workers[resource_id]
        known.told += 1
        body = m.AllocatedSlots(
            job_id=self.job.graph.job_id,
            sequence=known.told,
            offer_sequence=known.offer_sequence,
            held=tuple(sorted(slot.allocation_id for slot in self.scheduler.pool.of_worker(resource_id))),
            wants_report=wants_report,
        )
        self._send(known.address, body)

    # ── the ResourceManager ──────────────────────────────────────────────────────────────────
    def _register(self) -> None:
        if self._resources.leader is not None and not self._resources.registered and not self._closed:
            self._declare(force=True)
            self._set_timer(RegistrationDue(), self._resources.tries.wait_ms())

    def _answer_resource_manager(self) -> None:
        self._resources.heard_ms = self.now_ms
        if self._resources.leader is not None:
            self._send_leader(self._resources.leader, m.JobMasterHeartbeat(job_id=self.job.graph.job_id))
            self._declare(force=True)

    def _declare(self, *, force: bool = False) -> None:
        """Tell the ResourceManager what is needed, when that changed."""
        body = self._resources.message(self._needed(), force=force)
        if body is not None and self._resources.leader is not None:
            self._send_leader(self._resources.leader, body)

    def _needed(self) -> Requirements:
        if self.scheduler.uncommitted() and not self.workers:
            return ((UNSPECIFIED, 1),)  # A worker is needed to commit, though no region is.
        return self.scheduler.pool.requirements()

    # ── after every event ────────────────────────────────────────────────────────────────────
    def _settle(self) -> None:
        """Do what is due, then say it: one message of a kind for each worker."""
        self.scheduler.advance(self.now_ms)
        recovery.settle(self.scheduler, self.now_ms)
        self.scheduler.advance(self.now_ms)
        self._declare()
        self._commit()
        self._speak(self.scheduler.output)
        self.scheduler.output = SchedulerOutput()
        self._report_status()
        self._close_when_released()
        self._version += 1

    def _speak(self, output: SchedulerOutput) -> None:
        job_id = self.job.graph.job_id
        for worker, attempts in output.acknowledge.items():
            self._tell_worker(worker, m.AcknowledgeTaskStates(job_id=job_id, attempts=tuple(attempts)))
        job = msgspec.structs.replace(self.job, instant_ms=self.scheduler.state.instant_ms)
        for worker, deployments in output.deploy.items():
            unsent = self.workers[worker].unsent_groups(deployments, afresh=worker in output.missed)
            groups = tuple(output.groups[group_id] for group_id in unsent)
            self._tell_worker(worker, m.SubmitTasks(job=job, deployments=tuple(deployments), groups=groups))
        for worker, attempts in output.cancel.items():
            self._tell_worker(worker, m.CancelTasks(job_id=job_id, attempts=tuple(dict.fromkeys(attempts))))
        if output.discard and self.workers:
            anyone = next(iter(self.workers))
            self._tell_worker(anyone, m.DiscardResults(job_id=job_id, locations=tuple(output.discard)))
        if output.wake_at_ms is not None:
            self._set_timer(WakeUp(), max(0, output.wake_at_ms - self.now_ms))

    def _tell_worker(self, resource_id: ResourceID, body: m.AnyMessage) -> None:
        known = self.workers.get(resource_id)
        if known is not None:
            self._send(known.address, body)

    def _commit(self) -> None:
        commits = self.scheduler.uncommitted()
        if self.scheduler.state.status is not JobStatus.RUNNING or not commits:
            return
        for worker, due in self.committer.due(commits, list(self.workers), self.now_ms).items():
            self._tell_worker(worker, m.CommitSinks(job_id=self.job.graph.job_id, commits=tuple(due)))
        next_ms = self.committer.next_ms(commits, self.now_ms)
        if next_ms is not None:
            self.scheduler.output.wake(next_ms)

    def _report_status(self) -> None:
        status = self.scheduler.phase.status
        if status is self._reported:
            return
        self._reported = status
        self._tell(f"job is {status.value}")
        if not status.is_globally_terminal:
            self._send_leader(self.dispatcher, m.JobStatusChanged(job_id=self.job.graph.job_id, status=status))
            return
        self._send_leader(self.dispatcher, m.JobTerminated(result=job_result(self.scheduler), view=self.view()))
        self._unreleased = dict.fromkeys(self.workers)
        self._release_workers()

    # ── the end ──────────────────────────────────────────────────────────────────────────────
    def _on_released(self, resource_id: ResourceID) -> None:
        if self._unreleased is not None:
            self._unreleased.pop(resource_id, None)
            for slot in self.scheduler.pool.of_worker(resource_id):
                self.scheduler.pool.drop(slot.allocation_id)

    def _release_workers(self) -> None:
        """Ask every worker that may hold something of the job to let go of it, until it says so."""
        locations = leftovers(self.scheduler.state)
        for worker in self._unreleased or ():
            body = m.ReleaseJobResources(job_id=self.job.graph.job_id, locations=locations)
            self._tell_worker(worker, body)
        if self._unreleased:
            self._set_timer(ReleaseDue(), RELEASE_RETRY_MS)

    def _close_when_released(self) -> None:
        if self._closed or self._awaits_workers or self._unreleased is None or self._unreleased:
            return
        self._closed = True
        job_id = self.job.graph.job_id
        if self._resources.leader is not None:
            self._send_leader(self._resources.leader, m.DisconnectJobMaster(job_id=job_id))
        self._send_leader(self.dispatcher, m.JobClosed(job_id=job_id))
