"""The TaskExecutor's core: its slots, the attempts in them, and whom it must tell what.

It never decides what runs. It keeps what it was given running while a master is away, keeps what
came of it until a master has it safe, and lets go when it is told to or nobody has asked for long.
"""

from typing import assert_never

from firesteel.core.effects import RESOURCE_MANAGER, Event, LeaderChanged, PeerLost, Received, Started, TimerFired
from firesteel.core.machine import Core
from firesteel.core.registration import RegistrationTries
from firesteel.core.settings import TaskExecutorSettings
from firesteel.core.slots.connection import WorkerRegistration
from firesteel.core.slots.table import TaskSlot, TaskSlotState, TaskSlotTable
from firesteel.core.taskexecutor import workeffects as w
from firesteel.core.taskexecutor.jobconnection import JobConnection, answers_without_job
from firesteel.core.taskexecutor.workeffects import AnswerInquiry, InquiryAnswered
from firesteel.core.timers import (
    REPORT_RETRY_MS,
    HeartbeatDue,
    RegistrationDue,
    ReportDue,
    SlotTimeout,
    TaskExecutorTimer,
)
from firesteel.model import messages as m
from firesteel.model.ids import Address, JobID, ResourceID
from firesteel.model.inquiries import AskWorker, WorkerAnswered
from firesteel.model.reports import SlotReport, SplitRequest, TaskStateUpdate
from firesteel.model.tasks import TaskProgress


class TaskExecutorCore(Core):
    """Decides for one worker process, known as `resource_id`."""

    def __init__(self, resource_id: ResourceID, settings: TaskExecutorSettings, address: Address) -> None:
        super().__init__(address, None)
        self.resource_id, self.settings = resource_id, settings
        self.table = TaskSlotTable(settings.slots, settings.profile)
        self.jobs: dict[JobID, JobConnection] = {}
        self.leftovers: dict[JobID, None] = {}
        """Jobs of which dead workers have left something, and whose masters have not been heard of."""
        self._registration = WorkerRegistration(resource_id, RegistrationTries(settings.registration))
        self._sequence = 0

    # ── the door ─────────────────────────────────────────────────────────────────────────────
    def _on(self, event: Event) -> None:
        assert isinstance(event, w.TaskExecutorEvent), f"not an event of a TaskExecutor: {event}"
        match event:
            case Started():
                self._registration.lose(self.now_ms)
                self._effects.append(w.WatchLeader(RESOURCE_MANAGER))
                self._set_timer(HeartbeatDue(), self.settings.heartbeat_interval_ms)
            case Received():
                self._on_message(event.envelope)
            case w.TasksChanged():
                self._on_tasks_changed(event.updates)
            case w.TaskProgressed():
                self._on_progress(event.progress)
            case w.SplitsWanted():
                self._on_splits_wanted(event.request)
            case w.SinkCommitDone() | w.SavepointDone() | w.CheckpointDone():
                self._on_work_done(event)
            case w.JobReleaseDone():
                self._on_released(event.job_id)
            case w.LeftoversFound():
                self._on_leftovers(event.job_ids)
            case w.Measured():
                self._registration.metrics = event.values
            case InquiryAnswered():
                self._send_leader(event.asker, WorkerAnswered(number=event.number, answer=event.answer))
            case TimerFired():
                assert isinstance(event.timer, TaskExecutorTimer), f"not a timer of a TaskExecutor: {event.timer}"
                self._on_timer(event.timer)
            case LeaderChanged():
                self._on_leader(event)
            case PeerLost():
                self._on_peer_lost(event)
            case w.Stopping():
                self._say_goodbye(event.reason)
            case _:
                assert_never(event)

    def validate(self) -> None:
        self.table.validate()
        for job_id, job in self.jobs.items():
            for attempt, task in job.tasks.running.items():
                slot = self.table.find(task.allocation_id)
                owner = None if slot is None else slot.job_id
                assert owner == job_id, f"{attempt} runs in a slot that is not its job's"
        assert not self.jobs.keys() & self.leftovers.keys(), "a job whose master is known is not asked about"
        assert all(slot.job_id in self.jobs for slot in self.table.slots if slot.job_id), "a slot of an unknown job"

    def _on_message(self, envelope: m.Envelope) -> None:
        body = envelope.body
        if isinstance(body, m.FromResourceManager):
            self._on_resource_manager(envelope, body)
        elif isinstance(body, m.FromJobMaster):
            job_id = body.job.graph.job_id if isinstance(body, m.SubmitTasks) else body.job_id
            self._on_job_master(envelope, job_id, body)
        else:
            self._misdirected(envelope)

    def _on_timer(self, timer: TaskExecutorTimer) -> None:
        match timer:
            case HeartbeatDue():
                self._beat()
            case RegistrationDue():
                self._register()
            case ReportDue():
                if timer.job_id in self.jobs and self._is_owed(timer.job_id):
                    self._report(timer.job_id)
            case SlotTimeout():
                slot = self.table.find(timer.allocation_id)
                if slot is not None and slot.state is TaskSlotState.ALLOCATED:
                    self._free([slot])
            case _:
                assert_never(timer)

    # ── the ResourceManager ──────────────────────────────────────────────────────────────────
    def _on_resource_manager(self, envelope: m.Envelope, body: m.FromResourceManager) -> None:
        if not self._registration.is_from_leader(envelope):
            self._narrate(f"refused {type(body).__name__}: not of the leading ResourceManager")
            return
        self._registration.heard_ms = self.now_ms
        match body:
            case m.TaskExecutorRegistered():
                self._registration.instance_id = body.instance_id
            case m.TaskExecutorRefused():
                self._effects.append(w.GiveUp(body.reason, is_refused=True))
            case m.HeartbeatRequest():
                self._send_to_resource_manager(m.TaskExecutorHeartbeat)
            case m.RequestSlots() | AskWorker():
                if body.instance_id != self._registration.instance_id:
                    self._send_to_resource_manager(m.TaskExecutorHeartbeat)
                elif isinstance(body, m.RequestSlots):
                    self._on_slot_requests(body)
                else:
                    assert self._registration.leader is not None, "a registration is with a leader"
                    self._effects.append(AnswerInquiry(self._registration.leader, body.number, body.inquiry))
            case _:
                assert_never(body)

    def _on_slot_requests(self, body: m.RequestSlots) -> None:
        given = [name for index, name in body.slots if self.table.allocate(index, name, body.job_id)]
        for allocation_id in given:
            self._set_timer(SlotTimeout(allocation_id), self.settings.slot_timeout_ms)
        if given:
            self._connect(body.job_id, body.job_master)
            self._report(body.job_id)
        answer = m.SlotRequestAnswer(
            resource_id=self.resource_id,
            instance_id=body.instance_id,
            allocations=tuple(name for _, name in body.slots),
            report=self._slot_report(),
        )
        assert self._registration.leader is not None, "a slot request comes from a leader"
        self._send_leader(self._registration.leader, answer)

    def _register(self) -> None:
        leader = self._registration.leader
        if leader is not None and self._registration.instance_id is None:
            me, own, report = self.resource_id, self.settings, self._slot_report()
            body = m.RegisterTaskExecutor(resource_id=me, report=report, hardware=own.hardware, results=own.results)
            self._send_leader(leader, body)
            self._set_timer(RegistrationDue(), self._registration.tries.wait_ms())

    def _send_to_resource_manager(self, kind: type[m.TaskExecutorHeartbeat] | type[m.NotifySlotAvailable]) -> None:
        body = self._registration.report(kind, self._slot_report())
        if body is not None and self._registration.leader is not None:
            self._send_leader(self._registration.leader, body)

    def _slot_report(self) -> SlotReport:
        self._sequence += 1
        beat_ms = self.settings.heartbeat_interval_ms
        unheard = [job_id for job_id, job in self.jobs.items() if job.may_be_over(self.now_ms, beat_ms)]
        return SlotReport(self._sequence, self.table.sizes, self.table.allocations(), (*unheard, *self.leftovers))

    # ── leaders ──────────────────────────────────────────────────────────────────────────────
    def _on_leader(self, event: LeaderChanged) -> None:
        if event.component == RESOURCE_MANAGER:
            self._registration.follow(event.leader, self.now_ms)
            self._register()
        elif event.leader is not None and (event.component in self.jobs or event.component in self.leftovers):
            self._connect(JobID(event.component), event.leader)
            self._report(JobID(event.component))

    def _connect(self, job_id: JobID, leader: m.Leader) -> JobConnection:
        """Note a job's leader; never an older one than is known."""
        job = self.jobs.get(job_id)
        if job is None:
            job = self.jobs[job_id] = JobConnection(leader, self.now_ms)
            if job_id in self.leftovers:
                del self.leftovers[job_id]
            else:
                self._effects.append(w.WatchLeader(job_id))
        elif job.leader.token < leader.token:
            job.leader, job.heard = leader, -1
        return job

    def _on_leftovers(self, job_ids: tuple[JobID, ...]) -> None:
        """A job that runs has its master release it here, too, when it is over; of others the slot report asks."""
        for job_id in job_ids:
            if job_id not in self.jobs and job_id not in self.leftovers:
                self.leftovers[job_id] = None
                self._effects.append(w.WatchLeader(job_id))

    # ── JobMasters ───────────────────────────────────────────────────────────────────────────
    def _on_job_master(self, envelope: m.Envelope, job_id: JobID, body: m.FromJobMaster) -> None:
        assert envelope.sender_token is not None, "a JobMaster speaks with its token"
        sender = m.Leader(envelope.sender, envelope.sender_token)
        if job_id not in self.jobs:
            self._on_unknown_job(sender, job_id, body)
            return
        job = self._connect(job_id, sender)
        if job.leader.token != sender.token:
            self._narrate(f"refused {type(body).__name__} of {sender.address}: not the job's leader")
            return
        job.heard_ms, job.is_cut = self.now_ms, False
        if job.ending and isinstance(body, m.SubmitTasks | m.CommitSinks | m.TakeSavepoint | m.TriggerCheckpoint):
            self._narrate(f"ignored {type(body).__name__}: job {job_id} ends here")
        else:
            self._obey(job_id, job, body)

    def _on_unknown_job(self, sender: m.Leader, job_id: JobID, body: m.FromJobMaster) -> None:
        """Nothing of the job is here: say so, so that its master need not wait. What others have left is deleted first."""
        if isinstance(body, m.ReleaseJobResources) and (body.locations or body.retained):
            self._end_job(job_id, self._connect(job_id, sender), body)
            return
        self._sequence += 1
        for answer in answers_without_job(self.resource_id, job_id, self._sequence, body):
            self._send_leader(sender, answer)

    def _obey(self, job_id: JobID, job: JobConnection, body: m.FromJobMaster) -> None:
        match body:
            case m.AllocatedSlots():
                self._on_allocated(job_id, job, body)
            case m.SubmitTasks():
                self._start(job_id, job, body)
            case m.CancelTasks():
                for attempt in body.attempts:
                    if job.tasks.cancel(attempt):
                        self._effects.append(w.CancelTask(attempt))
                self._send_unacknowledged(job_id, job)
            case m.AcknowledgeTaskStates():
                for attempt in body.attempts:
                    job.tasks.acknowledge(attempt)
            case m.NextInputSplits():
                if job.tasks.take(body.attempt, body.drawn.number):
                    self._effects.append(w.GiveSplits(body.attempt, body.drawn))
            case m.DiscardResults():
                self._effects.append(w.Discard(body.locations))
            case m.CommitSinks():
                self._effects += job.commit(body)
            case m.StopTasks():
                self._effects += job.stop(body)
            case m.TakeSavepoint():
                self._effects += job.save(body)
            case m.TriggerCheckpoint():
                self._effects += job.look(body)
            case m.ReleaseJobResources():
                self._end_job(job_id, job, body)
            case _:
                assert_never(body)

    def _on_allocated(self, job_id: JobID, job: JobConnection, body: m.AllocatedSlots) -> None:
        if body.sequence > job.heard:
            job.heard = body.sequence
            unwanted = self.table.reconcile(job_id, body.held, body.offer_sequence)
            self._free([slot for slot in unwanted if not job.tasks.sits_in(slot.allocation_id)])
        if body.wants_report:
            self._report(job_id)

    def _start(self, job_id: JobID, job: JobConnection, body: m.SubmitTasks) -> None:
        made = job.submit(body, self.table)
        if made.must_report:
            self._report(job_id)
        if made.started:
            self._effects.append(w.StartTasks(body.job, tuple(made.started)))

    def _report(self, job_id: JobID) -> None:
        """Tell a job's master all that is here of it; again until it answers what it owes."""
        job = self.jobs[job_id]
        self._sequence += 1
        self._send_leader(job.leader, job.report(self.resource_id, job_id, self._sequence, self.table))
        self._set_timer(ReportDue(job_id), REPORT_RETRY_MS)

    def _is_owed(self, job_id: JobID) -> bool:
        """Whether the job's master has something to answer."""
        return self.table.is_offering(job_id) or self.jobs[job_id].is_owed

    # ── attempts ─────────────────────────────────────────────────────────────────────────────
    def _on_tasks_changed(self, updates: tuple[TaskStateUpdate, ...]) -> None:
        news: dict[JobID, list[TaskStateUpdate]] = {}
        for update in updates:
            job = self.jobs.get(update.attempt.job_id)
            if job is not None and job.tasks.change(update):
                news.setdefault(update.attempt.job_id, []).append(update)
        for job_id, changed in news.items():
            self._send_updates(job_id, tuple(changed))
            if self.jobs[job_id].vacated():
                self._report(job_id)
            self._release_if_idle(job_id, self.jobs[job_id])

    def _send_unacknowledged(self, job_id: JobID, job: JobConnection) -> None:
        if job.tasks.unacknowledged:
            self._send_updates(job_id, tuple(job.tasks.unacknowledged.values()))

    def _send_updates(self, job_id: JobID, updates: tuple[TaskStateUpdate, ...]) -> None:
        self._sequence += 1
        body = m.UpdateTaskExecutionStates(
            resource_id=self.resource_id, job_id=job_id, sequence=self._sequence, updates=updates
        )
        self._send_leader(self.jobs[job_id].leader, body)
        self._set_timer(ReportDue(job_id), REPORT_RETRY_MS)

    def _on_progress(self, progress: TaskProgress) -> None:
        job = self.jobs.get(progress.attempt.job_id)
        if job is not None and progress.attempt in job.tasks.running:
            job.tasks.progress[progress.attempt] = progress
            body = m.ReportProgress(resource_id=self.resource_id, job_id=progress.attempt.job_id, progress=(progress,))
            self._send_leader(job.leader, body)

    def _on_splits_wanted(self, request: SplitRequest) -> None:
        job_id = request.attempt.job_id
        if job_id in self.jobs and self.jobs[job_id].tasks.want(request):
            body = m.RequestNextInputSplits(resource_id=self.resource_id, job_id=job_id, wants=(request,))
            self._send_leader(self.jobs[job_id].leader, body)
            self._set_timer(ReportDue(job_id), REPORT_RETRY_MS)

    def _on_work_done(self, event: w.SinkCommitDone | w.SavepointDone | w.CheckpointDone) -> None:
        job = self.jobs.get(event.job_id)
        if job is not None:
            self._send_leader(job.leader, job.done(self.resource_id, event))
            self._release_if_idle(event.job_id, job)

    # ── letting go ───────────────────────────────────────────────────────────────────────────
    def _end_job(self, job_id: JobID, job: JobConnection, order: m.ReleaseJobResources | None = None) -> None:
        """The job is over for this worker, or given up where nobody has ordered that. Repeating it is harmless."""
        job.end(order)
        for attempt in list(job.tasks.running):
            if job.tasks.cancel(attempt):
                self._effects.append(w.CancelTask(attempt))
        self._release_if_idle(job_id, job)

    def _release_if_idle(self, job_id: JobID, job: JobConnection) -> None:
        """Once no attempt runs and no commit is under way, so that nothing becomes visible after the end."""
        if job.ending and not (job.releasing or job.tasks.running or job.committing or job.saving):
            job.releasing = True
            self._free(self.table.of_job(job_id))
            self._effects.append(w.ReleaseJob(job_id, job.discard, job.is_given_up, job.retained))

    def _on_released(self, job_id: JobID) -> None:
        job = self.jobs.pop(job_id)
        self._free(self.table.of_job(job_id))
        self._effects.append(w.UnwatchLeader(job_id))
        self._send_leader(job.leader, m.JobReleased(resource_id=self.resource_id, job_id=job_id))

    def _free(self, slots: list[TaskSlot]) -> None:
        for slot in slots:
            assert slot.allocation_id is not None, "a free slot can't be freed"
            self.table.free(slot.allocation_id)
        if slots:
            self._send_to_resource_manager(m.NotifySlotAvailable)

    def _say_goodbye(self, reason: str) -> None:
        goodbye = m.DisconnectTaskExecutor(resource_id=self.resource_id, reason=reason)
        for job in self.jobs.values():
            self._send_leader(job.leader, goodbye)
        if self._registration.leader is not None:
            self._send_leader(self._registration.leader, goodbye)

    # ── time ─────────────────────────────────────────────────────────────────────────────────
    def _beat(self) -> None:
        """Masters that are silent: look for the ResourceManager again, let go of jobs after the grace, then give up."""
        self._set_timer(HeartbeatDue(), self.settings.heartbeat_interval_ms)
        if self._registration.is_silent(self.now_ms, self.settings.heartbeat_timeout_ms):
            self._registration.lose(self.now_ms)
            self._register()
        for job_id, job in list(self.jobs.items()):
            silent_ms = self.now_ms - job.heard_ms
            if silent_ms >= self.settings.master_grace_ms:
                self._narrate(f"job {job_id} has had no master for {silent_ms} ms")
                self._end_job(job_id, job)
            elif job.is_silent(self.now_ms, self.settings.heartbeat_interval_ms):
                self._report(job_id)
        if not self.jobs and (reason := self._registration.overdue(self.now_ms)):
            self._effects.append(w.GiveUp(reason))

    def _on_peer_lost(self, event: PeerLost) -> None:
        """Whoever it was may have given this worker up: report to it again, soon. What runs goes on."""
        leader = self._registration.leader
        if leader is not None and leader.address == event.address:
            self._set_timer(RegistrationDue(), self._registration.cut(self.now_ms))
        for job_id, job in self.jobs.items():
            if job.leader.address == event.address:
                job.is_cut = True
                self._set_timer(ReportDue(job_id), REPORT_RETRY_MS)
