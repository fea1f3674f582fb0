"""Planted bugs that restart what runs, or end jobs, because a leader has changed or a process stood still."""

import pytest

from firesteel.core.dispatcher import clients
from firesteel.core.dispatcher.dispatcher import DispatcherCore
from firesteel.core.dispatcher.requests import JobsLoaded
from firesteel.core.heartbeat import HeartbeatMonitor, HeartbeatTick
from firesteel.core.jobmaster.jobmaster import JobMasterCore
from firesteel.core.resourcemanager.resourcemanager import ResourceManagerCore
from firesteel.core.scheduler.scheduler import DefaultScheduler
from firesteel.core.timers import ReconciliationOver
from firesteel.model import messages as m
from firesteel.model.failures import FailureInfo
from firesteel.model.ids import ResourceID
from firesteel.model.states import ExecutionState


def running_attempts_not_adopted(patch: pytest.MonkeyPatch) -> None:
    """A new JobMaster cancels what it should adopt, and has it run again."""
    start = DefaultScheduler.start

    def start_afresh(scheduler: DefaultScheduler, now_ms: int, doom: FailureInfo | None = None) -> None:
        start(scheduler, now_ms, doom)
        looked_for = scheduler._executions.graph.in_state(ExecutionState.RECONCILING)
        if len(looked_for):
            scheduler._executions.never_started(looked_for, now_ms)

    patch.setattr(DefaultScheduler, "start", start_afresh)


def workers_get_no_time_to_report(patch: pytest.MonkeyPatch) -> None:
    """A new JobMaster takes workers that have not reported yet for lost."""
    start = JobMasterCore._on_started

    def start_without_patience(core: JobMasterCore) -> None:
        start(core)
        if core._awaits_workers:
            core._on_timer(ReconciliationOver())

    patch.setattr(JobMasterCore, "_on_started", start_without_patience)


def resource_manager_believed(patch: pytest.MonkeyPatch) -> None:
    """A JobMaster takes its ResourceManager's word that a worker is lost, and has heard of it just now (a bug we had)."""
    lose = ResourceManagerCore._lose_worker

    def lose_and_say_so(core: ResourceManagerCore, resource_id: ResourceID, reason: str) -> None:
        if resource_id in core._tracker.workers:
            for job in core._tracker.jobs.values():
                core._send_leader(job.leader, m.DisconnectTaskExecutor(resource_id=resource_id, reason=reason))
        lose(core, resource_id, reason)

    patch.setattr(ResourceManagerCore, "_lose_worker", lose_and_say_so)


def standing_still_counts(patch: pytest.MonkeyPatch) -> None:
    """A master that stood still takes the time for the silence of others (a bug we had)."""
    tick = HeartbeatMonitor.tick

    def tick_by_the_clock(monitor: HeartbeatMonitor[str], now_ms: int) -> HeartbeatTick[str]:
        monitor._tick_due_ms = None
        return tick(monitor, now_ms)

    patch.setattr(HeartbeatMonitor, "tick", tick_by_the_clock)


def unread_beats_of_clients_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A Dispatcher that stood still takes clients for gone whose signs of life it has not read yet."""
    patch.setattr(clients, "LATE_MS", 1 << 60)


def clients_not_watched_by_a_new_leader(patch: pytest.MonkeyPatch) -> None:
    """A Dispatcher watches the clients of the jobs that were submitted to it, and no others."""
    recover = DispatcherCore._recover

    def recover_only(core: DispatcherCore, event: JobsLoaded) -> None:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(DispatcherCore, "_watch_client", lambda core, graph: None)
            recover(core, event)

    patch.setattr(DispatcherCore, "_recover", recover_only)
