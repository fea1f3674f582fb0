"""The ResourceManager's core: who is there, who needs what, who gets which slot."""

from collections.abc import Iterable
from typing import assert_never

from firesteel.core.effects import Event, LeaderChanged, PeerLost, Received, Started, TimerFired
from firesteel.core.heartbeat import HeartbeatMonitor
from firesteel.core.machine import Core
from firesteel.core.requests import Asked
from firesteel.core.resourcemanager.inquiries import INQUIRIES_MAX, AskTaskManager, InquiryTimeout
from firesteel.core.resourcemanager.storages import stores_elsewhere
from firesteel.core.settings import ResourceManagerSettings
from firesteel.core.slots.manager import SlotManager
from firesteel.core.slots.queue import can_ever_hold, queue_places
from firesteel.core.slots.tracker import TrackedWorker
from firesteel.core.slots.unfulfilled import UnfulfillableRequests
from firesteel.core.timers import HeartbeatDue, StartUpOver
from firesteel.model import messages as m
from firesteel.model.ids import Address, AllocationID, InstanceID, JobID, ResourceID, derived_id
from firesteel.model.inquiries import AskWorker, WorkerAnswered
from firesteel.model.metric import VALUES_MAX
from firesteel.model.refusals import NoAnswer, UnknownTaskManager
from firesteel.model.reports import SlotReport
from firesteel.model.resources import ResourceProfile
from firesteel.model.views import QueuePlace, TaskManagerView

ResourceManagerEvent = Started | Received | TimerFired | Asked | PeerLost | LeaderChanged
ResourceManagerTimer = HeartbeatDue | StartUpOver | InquiryTimeout


class ResourceManagerCore(Core):
    """Decides during one leadership; everything it knows it was told in that time."""

    def __init__(self, settings: ResourceManagerSettings, me: m.Leader) -> None:
        super().__init__(me.address, me.token)
        self._unfulfillable = UnfulfillableRequests(settings.slot_request_timeout_ms)
        self.slots = SlotManager(me.token, settings.queue_slots, spread=settings.spread_slots)
        self._tracker = self.slots.tracker
        self._heartbeats: HeartbeatMonitor[tuple[str, str]] = HeartbeatMonitor(
            settings.heartbeat_interval_ms, settings.heartbeat_timeout_ms
        )
        self._settings = settings
        self._dispatcher: m.Leader | None = None
        self._registrations = 0
        self._starting = settings.start_up_ms > 0
        self.workers_lost = 0
        """Workers that have gone without a goodbye."""
        self._inquiries: dict[int, ResourceID] = {}
        """The workers that owe an answer, by the number of the request."""

    def _on(self, event: Event) -> None:
        assert isinstance(event, ResourceManagerEvent), f"not an event of a ResourceManager: {event}"
        match event:
            case Started():
                self._set_timer(HeartbeatDue(), self._settings.heartbeat_interval_ms)
                if self._starting:
                    self._set_timer(StartUpOver(), self._settings.start_up_ms)
            case Received():
                self._on_message(event.envelope)
            case TimerFired():
                assert isinstance(event.timer, ResourceManagerTimer), f"not a timer of a ResourceManager: {event.timer}"
                self._on_timer(event.timer)
            case Asked():
                assert isinstance(event.request, AskTaskManager), f"not a request to a ResourceManager: {event.request}"
                self._ask(event.request_id, event.request)
            case PeerLost():
                self._on_peer_lost(event)
            case LeaderChanged():
                self._follow(event.leader)
            case _:
                assert_never(event)
        self._allocate()

    def task_managers(self) -> tuple[TaskManagerView, ...]:
        """The registered workers, in the order they came."""
        return tuple(self._worker_view(worker) for worker in self._tracker.workers.values())

    @property
    def workers(self) -> tuple[ResourceID, ...]:
        """The registered workers, in the order they came."""
        return tuple(self._tracker.workers)

    def queue(self) -> dict[JobID, QueuePlace]:
        """The jobs that wait for slots, in the order in which they are served."""
        return queue_places(self._tracker, self.slots.caps)

    def validate(self) -> None:
        self._tracker.validate()

    def _on_message(self, envelope: m.Envelope) -> None:
        body = envelope.body
        if not isinstance(body, m.ToResourceManager):
            self._misdirected(envelope)
            return
        match body:
            case m.RegisterTaskExecutor():
                self._register_worker(envelope.sender, body)
            case m.TaskExecutorHeartbeat():
                self._on_slot_report(body.resource_id, body.instance_id, body.report)
                self._on_metrics(body)
            case m.NotifySlotAvailable():
                self._on_slot_report(body.resource_id, body.instance_id, body.report)
            case m.SlotRequestAnswer():
                self._on_slot_report(body.resource_id, body.instance_id, body.report, answers=body.allocations)
            case m.DisconnectTaskExecutor():
                self._lose_worker(body.resource_id, body.reason)
            case WorkerAnswered():
                self._end_inquiry(body.number, body.answer)
            case m.RegisterJobMaster():
                self._register_job(envelope, body)
            case m.DeclareRequiredResources() | m.JobMasterHeartbeat() | m.DisconnectJobMaster():
                if self._is_known_job(envelope, body.job_id):
                    self._on_known_job(body)
                else:
                    self._narrate(f"ignored {type(body).__name__} of {envelope.sender}: it does not lead {body.job_id}")
            case _:
                assert_never(body)

    def _on_timer(self, timer: ResourceManagerTimer) -> None:
        match timer:
            case HeartbeatDue():
                self._beat()
            case StartUpOver():
                self._starting = False
                self._refuse(self._tracker.jobs)
            case InquiryTimeout():
                self._end_inquiry(timer.number, NoAnswer("the worker has not answered in time: it is busy, or hangs"))
            case _:
                assert_never(timer)

    # ── workers ──────────────────────────────────────────────────────────────────────────────
    def _register_worker(self, sender: Address, body: m.RegisterTaskExecutor) -> None:
        """A repeat is answered again; the instance id stays as long as the worker is registered."""
        worker = self._tracker.workers.get(body.resource_id)
        if worker is None and (why := stores_elsewhere(body, self._tracker.workers.values())):
            self._narrate(f"refused worker {body.resource_id}: {why}")
            self._send(sender, m.TaskExecutorRefused(reason=why))
            return
        if worker is None:
            self._registrations += 1
            instance_id = InstanceID(derived_id(self.token, self._registrations, body.resource_id))
            worker = TrackedWorker(body.resource_id, instance_id, sender, self.now_ms, body.hardware, body.results)
            self._tracker.add_worker(worker)
            self._heartbeats.watch(("worker", body.resource_id), self.now_ms)
            self._narrate(f"registered worker {body.resource_id}")
        is_first = not self._tracker.profiles
        self._tracker.apply_report(worker, body.report)
        if is_first:
            self._refuse(self._tracker.jobs)
        self._send(sender, m.TaskExecutorRegistered(instance_id=worker.instance_id))
        self._ask_for_jobs(body.report)

    def _on_slot_report(
        self,
        resource_id: ResourceID,
        instance_id: InstanceID,
        report: SlotReport,
        answers: tuple[AllocationID, ...] = (),
    ) -> None:
        worker = self._tracker.workers.get(resource_id)
        if worker is None or worker.instance_id != instance_id:
            self._narrate(f"ignored a slot report of {resource_id}: not this registration")
            return
        self._heartbeats.heard(("worker", resource_id), self.now_ms)
        if answers:
            self._tracker.release_pending(worker, answers)
        self._tracker.apply_report(worker, report)
        self._ask_for_jobs(report)

    def _on_metrics(self, body: m.TaskExecutorHeartbeat) -> None:
        """The newest figures count; of too many, the first."""
        worker = self._tracker.workers.get(body.resource_id)
        if worker is not None and worker.instance_id == body.instance_id:
            worker.metrics = body.metrics[:VALUES_MAX]

    def _follow(self, dispatcher: m.Leader | None) -> None:
        """Late word of a former Dispatcher is none; that nobody leads changes nothing."""
        if dispatcher is not None and (self._dispatcher is None or self._dispatcher.token < dispatcher.token):
            self._dispatcher = dispatcher

    def _ask_for_jobs(self, report: SlotReport) -> None:
        """The Dispatcher knows whether they are over; each report names them again, until the worker has none of them."""
        unknown = tuple(job_id for job_id in report.unheard if job_id not in self._tracker.jobs)
        if unknown and self._dispatcher is not None:
            self._send_leader(self._dispatcher, m.JobsUnheard(job_ids=unknown))

    def _lose_worker(self, resource_id: ResourceID, reason: str) -> None:
        """Jobs are not told: their masters hear of the worker by themselves, and it may follow another ResourceManager."""
        if resource_id not in self._tracker.workers:
            return
        self._tracker.remove_worker(resource_id)
        self._narrate(f"lost worker {resource_id}: {reason}")
        self._heartbeats.unwatch(("worker", resource_id))
        for number in [number for number, asked in self._inquiries.items() if asked == resource_id]:
            self._end_inquiry(number, NoAnswer(f"the worker {resource_id} has gone: {reason}"))

    # ── questions to workers ─────────────────────────────────────────────────────────────────
    def _ask(self, number: int, request: AskTaskManager) -> None:
        worker = self._tracker.workers.get(request.resource_id)
        if worker is None:
            self._reply(number, UnknownTaskManager(f"no worker {request.resource_id} is registered"))
        elif len(self._inquiries) >= INQUIRIES_MAX:
            self._reply(number, NoAnswer(f"{INQUIRIES_MAX} questions wait for workers to answer: try again later"))
        else:
            self._inquiries[number] = worker.resource_id
            ask = AskWorker(instance_id=worker.instance_id, number=number, inquiry=request.inquiry)
            self._send(worker.address, ask)
            self._set_timer(InquiryTimeout(number), request.limit_ms)

    def _end_inquiry(self, number: int, answer: object) -> None:
        """Whoever comes second, the worker or its time, finds nobody waiting."""
        if self._inquiries.pop(number, None) is not None:
            self._reply(number, answer)

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────
    def _register_job(self, envelope: m.Envelope, body: m.RegisterJobMaster) -> None:
        assert envelope.sender_token is not None, "a JobMaster speaks with its token"
        known = self._tracker.jobs.get(body.job_id)
        if known is None or known.leader.token < envelope.sender_token:
            job = self._tracker.add_job(body.job_id, m.Leader(envelope.sender, envelope.sender_token))
            job.queue, job.priority, job.since_ms = body.queue, body.priority, body.since_ms
            self._heartbeats.watch(("job", body.job_id), self.now_ms)
            self._narrate(f"registered job {body.job_id}")
        if self._is_known_job(envelope, body.job_id):
            self._require(body)
            self._send_leader(self._tracker.jobs[body.job_id].leader, self._registered(body.job_id))

    def _registered(self, job_id: JobID) -> m.JobMasterRegistered:
        return m.JobMasterRegistered(job_id=job_id, backends=self._backends())

    def _backends(self) -> int:
        """Of a worker that does not say, one for each slot."""
        workers = self._tracker.workers.values()
        return sum(each.hardware.backends if each.hardware.backends > 0 else len(each.slots) for each in workers)

    def _on_known_job(self, body: m.DeclareRequiredResources | m.JobMasterHeartbeat | m.DisconnectJobMaster) -> None:
        match body:
            case m.DeclareRequiredResources():
                if self._require(body):
                    self._suspect(body.job_id, body.lost)
            case m.JobMasterHeartbeat():
                self._heartbeats.heard(("job", body.job_id), self.now_ms)
            case m.DisconnectJobMaster():
                self._lose_job(body.job_id)
            case _:
                assert_never(body)

    def _is_known_job(self, envelope: m.Envelope, job_id: JobID) -> bool:
        """Fencing of JobMasters: only the newest leader of a job is heard."""
        job = self._tracker.jobs.get(job_id)
        return job is not None and job.leader.token == envelope.sender_token

    def _require(self, body: m.RegisterJobMaster | m.DeclareRequiredResources) -> bool:
        """Whether it is news."""
        job = self._tracker.jobs[body.job_id]
        self._heartbeats.heard(("job", body.job_id), self.now_ms)
        if body.sequence <= job.sequence:
            return False
        job.sequence = body.sequence
        self._tracker.require(body.job_id, body.requirements)
        self._refuse((body.job_id,))
        return True

    def _suspect(self, job_id: JobID, lost: tuple[ResourceID, ...]) -> None:
        """A JobMaster has noticed first, or was cut off alone: only the worker itself can tell."""
        for resource_id in lost:
            worker = self._tracker.workers.get(resource_id)
            if worker is not None:
                self._narrate(f"job {job_id} has lost worker {resource_id}")
                self._tracker.suspect(resource_id, job_id)
                self._send(worker.address, m.HeartbeatRequest())

    def _refuse(self, job_ids: Iterable[JobID]) -> None:
        """Tell jobs what no worker could ever hold; repeated when a job repeats its need."""
        if self._starting or not self._tracker.profiles:
            return
        for job_id in job_ids:
            job = self._tracker.jobs[job_id]
            for profile, _ in job.requirements:
                if not can_ever_hold(self._tracker, profile):
                    reason = f"no worker has a slot of {profile}: ask for less, or start a larger worker first"
                    refusal = m.NotEnoughResources(job_id=job_id, profile=profile, reason=reason)
                    self._send_leader(job.leader, refusal)

    def _lose_job(self, job_id: JobID) -> None:
        """Its slots stay with it until its workers report them free."""
        self._tracker.remove_job(job_id)
        self._heartbeats.unwatch(("job", job_id))

    # ── time ─────────────────────────────────────────────────────────────────────────────────
    def _beat(self) -> None:
        tick = self._heartbeats.tick(self.now_ms)
        for kind, key in tick.lost:
            if kind == "worker":
                self.workers_lost += 1
                self._lose_worker(ResourceID(key), f"no sign of life for {self._settings.heartbeat_timeout_ms} ms")
            else:
                self._lose_job(JobID(key))
        for kind, key in tick.due:
            if kind == "worker":
                self._send(self._tracker.workers[ResourceID(key)].address, m.HeartbeatRequest())
            else:
                self._send_leader(self._tracker.jobs[JobID(key)].leader, m.HeartbeatRequest(self._backends()))
        self.slots.expire(self.now_ms)
        for job_id, profile, reason in self._unfulfillable.overdue(self._tracker, self.now_ms):
            refusal = m.NotEnoughResources(job_id=job_id, profile=profile, reason=reason, timed_out=True)
            self._send_leader(self._tracker.jobs[job_id].leader, refusal)
        self._set_timer(HeartbeatDue(), self._settings.heartbeat_interval_ms)

    def _on_peer_lost(self, event: PeerLost) -> None:
        for worker in [w for w in self._tracker.workers.values() if w.address == event.address]:
            self.workers_lost += 1
            self._lose_worker(worker.resource_id, event.reason)
        for job_id in [key for key, job in self._tracker.jobs.items() if job.leader.address == event.address]:
            self._lose_job(job_id)

    def _allocate(self) -> None:
        """React at once: whatever changed, meet what can be met. What a job is to get of a worker is one message."""
        asked: dict[tuple[ResourceID, JobID], list[tuple[int, AllocationID]]] = {}
        for request in self.slots.requests(self.now_ms):
            asked.setdefault((request.resource_id, request.job_id), []).append((request.index, request.allocation_id))
        for (resource_id, job_id), slots in asked.items():
            worker, leader = self._tracker.workers[resource_id], self._tracker.jobs[job_id].leader
            body = m.RequestSlots(instance_id=worker.instance_id, job_id=job_id, job_master=leader, slots=tuple(slots))
            self._send(worker.address, body)

    def _worker_view(self, worker: TrackedWorker) -> TaskManagerView:
        slots = list(worker.slots.values())
        return TaskManagerView(
            resource_id=worker.resource_id,
            address=worker.address,
            slots=len(slots),
            free_slots=len(worker.free),
            profile=slots[0].profile if slots else ResourceProfile(),
            since_ms=worker.since_ms,
            last_heartbeat_ms=self._heartbeats.last_heard_ms(("worker", worker.resource_id)),
            hardware=worker.hardware,
            allocations=tuple((slot.job_id, slot.profile) for slot in slots if slot.job_id is not None),
            metrics=worker.metrics,
        )
