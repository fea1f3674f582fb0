"""The core that has workers let go of a job whose JobMaster broke for good, or is long gone.

It knows little of the job, so what broke the JobMaster can't break it: it leads the job, and answers whatever a worker
reports of it with a request to release it. Once all have, one of them deletes what the job has left anywhere.
"""

from collections.abc import Iterable
from typing import assert_never

from firesteel.core.effects import (
    RESOURCE_MANAGER,
    Event,
    LeaderChanged,
    PeerLost,
    Received,
    Started,
    TimerFired,
)
from firesteel.core.execution.partitions import locations_of
from firesteel.core.heartbeat import HeartbeatMonitor
from firesteel.core.machine import Core
from firesteel.core.settings import JobReleaseSettings
from firesteel.core.slots.connection import JobRequirements
from firesteel.core.timers import RELEASE_RETRY_MS, HeartbeatDue, JobReleaseTimer, ReconciliationOver, ReleaseDue
from firesteel.model import messages as m
from firesteel.model.ids import Address, JobID, ResourceID
from firesteel.model.reports import TaskStateUpdate

JobReleaseEvent = Started | Received | TimerFired | PeerLost | LeaderChanged


class JobReleaseCore(Core):
    """Decides during one leadership. Workers have some time to report; for one that is cut off for longer, and comes
    back, the job is led once more. So it is for one that has reported and falls silent.

    `undeleted` are stored results and staged outputs that the journal knows of; None when there is no journal any more.
    Then nobody knows what of that was made visible, and workers are asked to delete nothing by name. `retained` is where the
    last checkpoint of a stream is to stay, empty where none is, None when nobody knows.
    """

    def __init__(
        self,
        job_id: JobID,
        settings: JobReleaseSettings,
        me: m.Leader,
        dispatcher: m.Leader,
        *,
        undeleted: Iterable[str] | None,
        retained: str | None,
    ) -> None:
        super().__init__(me.address, me.token)
        self.job_id, self.dispatcher, self._retained = job_id, dispatcher, retained
        self._reconciliation_timeout_ms = settings.reconciliation_timeout_ms
        self._resources = JobRequirements(job_id)
        self._has_journal, self._undeleted = undeleted is not None, dict.fromkeys(undeleted or ())
        self._workers: dict[ResourceID, Address] = {}
        """Those that have reported something of the job."""
        self._unreleased: dict[ResourceID, None] = {}
        self._heartbeats: HeartbeatMonitor[ResourceID] = HeartbeatMonitor(
            settings.heartbeat_interval_ms, settings.heartbeat_timeout_ms
        )
        """Signs of life of those that are waited for."""
        self._asked = 0
        self._deleting: ResourceID | None = None
        """Who was asked to delete what is left."""
        self._awaits_workers = True
        self._closed = False

    def _on(self, event: Event) -> None:
        assert isinstance(event, JobReleaseEvent), f"not an event of a job's release: {event}"
        match event:
            case Started():
                self._set_timer(ReconciliationOver(), self._reconciliation_timeout_ms)
                self._set_timer(HeartbeatDue(), self._heartbeats.interval_ms)
            case Received():
                self._on_message(event.envelope)
            case TimerFired():
                assert isinstance(event.timer, JobReleaseTimer), f"not a timer of a job's release: {event.timer}"
                self._on_timer(event.timer)
            case PeerLost():
                for worker in [each for each, address in self._workers.items() if address == event.address]:
                    self._lose(worker)
            case LeaderChanged():
                assert event.component == RESOURCE_MANAGER, f"a job's release does not follow {event.component}"
                self._resources.follow(event.leader)
                self._need_nothing()
            case _:
                assert_never(event)
        self._go_on_when_released()

    def _on_timer(self, timer: JobReleaseTimer) -> None:
        match timer:
            case ReconciliationOver():
                self._awaits_workers = False
            case HeartbeatDue():
                self._beat()
            case ReleaseDue():
                self._release()
            case _:
                assert_never(timer)

    def validate(self) -> None:
        assert not (self._closed and self._awaits_workers), "closed before workers had their time"
        assert self._unreleased.keys() <= self._workers.keys(), "a worker that is lost is waited for"

    def _on_message(self, envelope: m.Envelope) -> None:
        body = envelope.body
        if not isinstance(body, m.ToJobMaster):
            self._misdirected(envelope)
            return
        match body:
            case m.TaskManagerReport():
                self._workers[body.resource_id] = envelope.sender
                self._wait_for(body.resource_id)
                self._note(body.updates)
                self._release()
            case m.UpdateTaskExecutionStates():
                self._note(body.updates)
            case m.JobReleased():
                self._wait_no_more(body.resource_id)
                if body.resource_id == self._deleting:
                    self._deleting = None
                    self._undeleted.clear()
            case m.DisconnectTaskExecutor():
                self._lose(body.resource_id)
            case (
                m.ReportProgress()
                | m.SavepointAnswer()
                | m.AcknowledgeCheckpoint()
                | m.RequestNextInputSplits()
                | m.SinkCommitAnswer()
                | m.JobMasterRegistered()
                | m.HeartbeatRequest()
                | m.NotEnoughResources()
                | m.CancelJob()
            ):
                pass  # The job is over: nothing of it is run, committed, or asked for.
            case _:
                assert_never(body)

    def _note(self, updates: Iterable[TaskStateUpdate]) -> None:
        """Attempts that the JobMaster did not hear the end of may have left something, too."""
        known = updates if self._has_journal else ()
        for outcome in (update.outcome for update in known if update.outcome is not None):
            self._undeleted.update(dict.fromkeys(locations_of(outcome)))

    def _lose(self, worker: ResourceID) -> None:
        self._workers.pop(worker, None)
        self._wait_no_more(worker)
        self._deleting = None if self._deleting == worker else self._deleting

    def _wait_for(self, worker: ResourceID) -> None:
        """Until it has let go of the job, or has gone."""
        self._unreleased[worker] = None
        self._heartbeats.watch(worker, self.now_ms)

    def _wait_no_more(self, worker: ResourceID) -> None:
        self._unreleased.pop(worker, None)
        self._heartbeats.unwatch(worker)

    def _beat(self) -> None:
        """Ask whom it waits for to report: an attempt may take its time to end."""
        tick = self._heartbeats.tick(self.now_ms)
        for worker in tick.lost:
            self._narrate(f"worker {worker} has not let go of job {self.job_id} and is silent")
            self._lose(worker)
        self._asked += 1
        ask = m.AllocatedSlots(job_id=self.job_id, sequence=self._asked, offer_sequence=-1, held=(), wants_report=True)
        for worker in tick.due:
            self._send(self._workers[worker], ask)
        self._set_timer(HeartbeatDue(), self._heartbeats.interval_ms)

    def _release(self) -> None:
        for worker in self._unreleased:
            locations = tuple(self._undeleted) if worker == self._deleting else ()
            body = m.ReleaseJobResources(job_id=self.job_id, locations=locations, retained=self._retained)
            self._send(self._workers[worker], body)
        if self._unreleased:
            self._set_timer(ReleaseDue(), RELEASE_RETRY_MS)

    def _need_nothing(self) -> None:
        """Else the ResourceManager would go on giving slots to the JobMaster that is gone."""
        body = self._resources.message((), force=True)
        if body is not None and self._resources.leader is not None:
            self._send_leader(self._resources.leader, body)
            self._send_leader(self._resources.leader, m.DisconnectJobMaster(job_id=self.job_id))

    def _go_on_when_released(self) -> None:
        """Delete what is left when no attempt and no commit goes on anywhere; then the job is over."""
        if self._closed or self._awaits_workers or self._unreleased:
            return
        if self._undeleted and self._workers:
            self._deleting = next(iter(self._workers))
            self._wait_for(self._deleting)
            self._release()
        else:
            self._closed = True
            self._send_leader(self.dispatcher, m.JobClosed(job_id=self.job_id))
