"""The JobMaster's core: one job's scheduler, its workers, its slots, its journal.

Connections are learned, never remembered: workers report themselves when they find this leader, and
everything said to them is absolute and repeated with each heartbeat.
"""

from typing import assert_never

import msgspec

from firesteel.core.checkpoint.requests import TriggerCheckpoint, TriggerSavepoint
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
from firesteel.core.execution.topology import Topology
from firesteel.core.jobmaster.knownworkers import KnownWorkers
from firesteel.core.journal.journal import JobState
from firesteel.core.machine import JournaledCore
from firesteel.core.registration import RegistrationTries
from firesteel.core.requests import Asked
from firesteel.core.scheduler.output import SchedulerOutput
from firesteel.core.scheduler.scheduler import DefaultScheduler
from firesteel.core.scheduler.view import BEFORE_END, JobViews
from firesteel.core.settings import JobMasterSettings
from firesteel.core.slots.connection import JobRequirements
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
from firesteel.model.ids import Address, ResourceID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.reports import SplitRequest
from firesteel.model.states import JobStatus
from firesteel.model.tasks import JobInformation
from firesteel.model.views import JobSummary, JobView

JobMasterEvent = (
    Started | Received | TimerFired | Persisted | PersistFailed | PeerLost | LeaderChanged | LeadershipLost | Asked
)


class JobMasterCore(JournaledCore):
    """Decides for one job during one leadership. `state` is the fold of the journal so far. With `doom` the job is to
    fail of that, in order."""

    def __init__(
        self,
        graph: JobGraph,
        state: JobState,
        settings: JobMasterSettings,
        me: m.Leader,
        dispatcher: m.Leader,
        *,
        doom: FailureInfo | None = None,
    ) -> None:
        super().__init__(me.address, me.token)
        self.settings, self.dispatcher = settings, dispatcher
        self.job = JobInformation(graph=graph, user=graph.owner or "firesteel")
        self.workers = KnownWorkers(settings.heartbeat_interval_ms, settings.heartbeat_timeout_ms)
        self._scheduler, self._doom = DefaultScheduler(graph, state, settings.scheduler, self._journal), doom
        tries = RegistrationTries(settings.registration)
        self._resources = JobRequirements(graph.job_id, tries, settings.queue, settings.priority)
        self._reported: JobStatus | None = None
        self._unreleased: dict[ResourceID, None] | None = None
        self._unanswered: dict[ResourceID, m.TaskManagerReport] = {}
        """Reports that this event has brought."""
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
                if self._is_durable:
                    self._scheduler.checkpoints.all_said(self.now_ms)
                return
            case PersistFailed():
                self._on_persist_failed(event)
                return
            case Asked():
                self._on_asked(event)
            case PeerLost():
                for worker in self.workers.at(Address(event.address)):
                    self._lose_worker(worker, event.reason)
            case LeadershipLost():
                self._scheduler.suspend()
                self._report_status()
                return
            case LeaderChanged():
                assert event.component == RESOURCE_MANAGER, f"a JobMaster does not follow {event.component}"
                self._resources.follow(event.leader)
                self._register()
            case _:
                assert_never(event)
        self._settle()

    # ── what others see ──────────────────────────────────────────────────────────────────────
    @property
    def status(self) -> JobStatus:
        """The job's, also while its end is not durable."""
        return self._scheduler.status

    @property
    def views(self) -> JobViews:
        """All there is to look at, whether or not it is durable yet."""
        return self._scheduler.views

    @property
    def topology(self) -> Topology:
        return self._scheduler.topology

    def view(self, *, may_end: bool = True) -> JobView:
        """The job as it is now. Without `may_end` an end is not shown: it is not stored where a successor looks first."""
        return self.views.job(self._shown(may_end=may_end), self._version)

    def summary(self, *, may_end: bool = True) -> JobSummary:
        return self.views.summary(self._shown(may_end=may_end), self._version)

    def _shown(self, *, may_end: bool) -> JobStatus:
        return self.status if may_end else BEFORE_END.get(self.status, self.status)

    def validate(self) -> None:
        self._scheduler.validate(self.workers)

    # ── events ───────────────────────────────────────────────────────────────────────────────
    def _on_started(self) -> None:
        self._scheduler.start(self.now_ms, self._doom)
        self._resources.since_ms = self.views.created_ms
        self._awaits_workers = self._scheduler.awaits_workers
        if self._awaits_workers:
            self._set_timer(ReconciliationOver(), self.settings.reconciliation_timeout_ms)
        self._set_timer(HeartbeatDue(), self.settings.heartbeat_interval_ms)

    def _on_asked(self, asked: Asked) -> None:
        if isinstance(asked.request, TriggerCheckpoint):
            self._scheduler.checkpoints.trigger(asked.request_id)
            return
        assert isinstance(asked.request, TriggerSavepoint), f"not a request to a JobMaster: {asked.request}"
        self._scheduler.savepoints.trigger(asked.request_id, asked.request, self.now_ms)

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
                    self._scheduler.attempts_changed(body.resource_id, body.updates, self.now_ms)
            case m.ReportProgress():
                self._scheduler.progressed(body.progress)
            case m.RequestNextInputSplits():
                self._on_split_requests(body.resource_id, body.wants)
            case m.SinkCommitAnswer():
                if body.failure is None:
                    self._scheduler.sink_committed(body.commit_id, body.note, self.now_ms, ignored=body.ignored)
                else:
                    self._scheduler.sink_failed(body.commit_id, body.failure, self.now_ms)
            case m.SavepointAnswer():
                if self._scheduler.savepoints.answered(body.savepoint_id, body.failure, self.now_ms):
                    self._scheduler.cancel(self.now_ms)
            case m.AcknowledgeCheckpoint():
                self._scheduler.checkpoints.acknowledged(
                    body.resource_id, body.checkpoint_id, body.points, body.failure
                )
            case m.JobReleased():
                self._on_released(body.resource_id)
            case m.DisconnectTaskExecutor():
                self._lose_worker(body.resource_id, body.reason)
            case m.JobMasterRegistered():
                self._resources.registered, self._resources.heard_ms = True, self.now_ms
                self._scheduler.limits.backends = body.backends
            case m.HeartbeatRequest():
                self._scheduler.limits.backends = body.backends
                self._answer_resource_manager()
            case m.NotEnoughResources():
                self._scheduler.slots_refused(body, self.now_ms)
            case m.CancelJob():
                self._cancel(body)
            case _:
                assert_never(body)

    def _cancel(self, body: m.CancelJob) -> None:
        if self._scheduler.views.intended and not self._scheduler.is_over:
            self._send_leader(self.dispatcher, m.CancelTooLate(job_id=body.job_id))
            return
        self._narrate(f"cancelled: {body.reason or 'a client has asked for it'}")
        cause = FailureInfo(kind=FailureKind.ENVIRONMENT, message=body.reason) if body.reason else None
        self._scheduler.cancel(self.now_ms, cause)

    def _on_timer(self, timer: JobMasterTimer) -> None:
        match timer:
            case HeartbeatDue():
                self._beat()
            case RegistrationDue():
                self._register()
            case ReconciliationOver():
                self._awaits_workers = False
                self._scheduler.unreported_lost(self.workers, self.now_ms)
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
        self._scheduler.worker_reported(report, self.now_ms)
        self._scheduler.savepoints.worker_reported(report.resource_id)
        self._scheduler.checkpoints.worker_reported(report.resource_id)
        self._unanswered[report.resource_id] = report

    def _on_split_requests(self, resource_id: ResourceID, wants: tuple[SplitRequest, ...]) -> None:
        for request in wants:
            drawn = self._scheduler.draw_splits(request, self.now_ms)
            if drawn is not None:
                body = m.NextInputSplits(job_id=self.job.graph.job_id, attempt=request.attempt, drawn=drawn)
                self._send_to_worker(resource_id, body)

    def _lose_worker(self, resource_id: ResourceID, reason: str) -> None:
        if not self.workers.lose(resource_id):
            return
        self._narrate(f"lost worker {resource_id}: {reason}")
        self._resources.lose_worker(resource_id)
        if self._unreleased is not None:
            self._unreleased.pop(resource_id, None)
        self._scheduler.worker_lost(resource_id, reason, self.now_ms)

    def _beat(self) -> None:
        tick = self.workers.tick(self.now_ms, self._durable)
        for worker in tick.lost:
            self._lose_worker(worker, f"no sign of life for {self.settings.heartbeat_timeout_ms} ms")
        self._scheduler.tidy_up(self.now_ms - self.settings.slot_idle_timeout_ms)
        for worker in tick.due:
            self._send_held(worker, wants_report=True)
        if self._resources.is_silent(self.now_ms, self.settings.heartbeat_timeout_ms):
            self._resources.lose()
            self._register()
        self._set_timer(HeartbeatDue(), self.settings.heartbeat_interval_ms)

    def _send_held(self, resource_id: ResourceID, *, wants_report: bool = False) -> None:
        """Answer an offer, or ask for a report: both are done by saying what is held there."""
        known = self.workers[resource_id]
        known.sent += 1
        body = m.AllocatedSlots(
            job_id=self.job.graph.job_id,
            sequence=known.sent,
            offer_sequence=known.offer_sequence,
            held=self._scheduler.held_at(resource_id),
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
        body = self._resources.message(self._scheduler.requirements(self.workers), force=force)
        if body is not None and self._resources.leader is not None:
            self._send_leader(self._resources.leader, body)

    # ── after every event ────────────────────────────────────────────────────────────────────
    def _settle(self) -> None:
        """Do what is due, then say it: one message of a kind for each worker."""
        output = self._scheduler.advance(self.workers, self.now_ms)
        self._answer_reports()
        self._declare()
        self._speak(output)
        self._report_status()
        self._close_when_released()
        self.workers.asked(self._sequence)
        self._version += 1

    def _answer_reports(self) -> None:
        """When what is due is done: the slots that are held are told as they are now."""
        for resource_id, report in self._unanswered.items():
            self._on_split_requests(resource_id, report.wants)
            self._send_held(resource_id)
        self._unanswered.clear()

    def _speak(self, output: SchedulerOutput) -> None:
        job_id = self.job.graph.job_id
        for worker, commits in output.commit.items():
            self._send_to_worker(worker, m.CommitSinks(job_id=job_id, commits=tuple(commits)))
        for worker, attempts in output.acknowledge.items():
            self._send_to_worker(worker, m.AcknowledgeTaskStates(job_id=job_id, attempts=tuple(attempts)))
        job = msgspec.structs.replace(self.job, instant_ms=self.views.instant_ms)
        for worker, deployments in output.deploy.items():
            unsent = self.workers[worker].unsent_groups(deployments, afresh=worker in output.missed)
            groups = tuple(output.groups[group_id] for group_id in unsent)
            self._send_to_worker(worker, m.SubmitTasks(job=job, deployments=tuple(deployments), groups=groups))
        for worker, attempts in output.cancel.items():
            self._send_to_worker(worker, m.CancelTasks(job_id=job_id, attempts=tuple(dict.fromkeys(attempts))))
        for worker, attempts in output.stop.items():
            body = m.StopTasks(job_id=job_id, attempts=tuple(attempts), drain=output.drains)
            self._send_to_worker(worker, body)
        for worker, orders in output.save.items():
            for order in orders:
                self._send_to_worker(worker, m.TakeSavepoint(job_id=job_id, order=order))
        for worker, looks in output.checkpoint.items():
            for look in looks:
                self._send_to_worker(worker, m.TriggerCheckpoint(job_id=job_id, order=look))
        for request_id, answer in output.replies:
            self._reply(request_id, answer)
        if output.discard and self.workers:
            anyone = next(iter(self.workers))
            self._send_to_worker(anyone, m.DiscardResults(job_id=job_id, locations=tuple(output.discard)))
        if output.wake_at_ms is not None:
            self._set_timer(WakeUp(), max(0, output.wake_at_ms - self.now_ms))

    def _send_to_worker(self, resource_id: ResourceID, body: m.AnyMessage) -> None:
        known = self.workers.get(resource_id)
        if known is not None:
            self._send(known.address, body)

    def _report_status(self) -> None:
        status = self.status
        if status is self._reported:
            return
        self._reported = status
        self._narrate(f"job is {status.value}")
        if not status.is_globally_terminal:
            self._send_leader(self.dispatcher, m.JobStatusChanged(job_id=self.job.graph.job_id, status=status))
            return
        self._send_leader(self.dispatcher, m.JobTerminated(result=self.views.result(), view=self.view()))
        self._unreleased = dict.fromkeys(self.workers)
        self._release_workers()

    # ── the end ──────────────────────────────────────────────────────────────────────────────
    def _on_released(self, resource_id: ResourceID) -> None:
        if self._unreleased is not None:
            self._unreleased.pop(resource_id, None)
            self._scheduler.worker_released(resource_id)

    def _release_workers(self) -> None:
        """Ask every worker that may hold something of the job to let go of it, until it says so."""
        job_id, retained = self.job.graph.job_id, self.views.retained
        body = m.ReleaseJobResources(job_id=job_id, locations=self.views.undeleted(), retained=retained)
        for worker in self._unreleased or ():
            self._send_to_worker(worker, body)
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
