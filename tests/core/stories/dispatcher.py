"""Verbs of stories about one Dispatcher."""

import msgspec

from firesteel.core.dispatcher import requests as r
from firesteel.core.dispatcher.admission import NO_LIMITS, Admission
from firesteel.core.dispatcher.dispatcher import DispatcherCore
from firesteel.core.requests import Asked
from firesteel.model import messages as m
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import Address, FencingToken, JobID
from firesteel.model.messages import Leader
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult, JobView
from tests.core.graphs import job
from tests.core.stories.player import Player, listed

BUG = FailureInfo(kind=FailureKind.ENVIRONMENT, message="a bug in firesteel")


def new_core(
    results_max: int = 2, admission: Admission = NO_LIMITS, retention_ms: int = 0, retryable_max: int = 0
) -> DispatcherCore:
    me = Leader(Address("dispatcher"), FencingToken(1, "dispatcher"))
    return DispatcherCore(me, results_max, admission, retention_ms=retention_ms, retryable_max=retryable_max)


def result(name: str, status: str = "FINISHED") -> JobResult:
    return JobResult(job_id=JobID(name), name=f"the {name}", status=JobStatus[status], start_time_ms=0, end_time_ms=9)


class DispatcherPlayer(Player):
    """It keeps the results of two ended jobs."""

    core: DispatcherCore

    def make_core(self) -> DispatcherCore:
        return new_core()

    # ── clients ──────────────────────────────────────────────────────────────────────────────
    def do_submit(
        self, number: str, name: str, graph: str = "v", queue: str = "", priority: str = "", client: str = "0"
    ) -> None:
        """`submit 1 a`: request 1 hands in job a; an empty queue or priority is not stated, `client` is its time."""
        wishes = {key: value for key, value in (("job.queue", queue), ("job.priority", priority)) if value}
        wanted = msgspec.structs.replace(
            job(graph, job_id=name), configuration=wishes, client_heartbeat_timeout_ms=int(client)
        )
        self.give(Asked(int(number), r.SubmitJob(wanted)))

    def do_admits(self, unfinished: str, *queues: str) -> None:
        """A Dispatcher with limits: so many jobs that have not ended, and these queues."""
        self.core = new_core(admission=Admission(queues, int(unfinished)))

    def do_keeps(self, milliseconds: str) -> None:
        """A Dispatcher that keeps results for so long."""
        self.core = new_core(retention_ms=int(milliseconds))

    def do_retries(self, number: str) -> None:
        """A Dispatcher that keeps the graphs of so many jobs that did not finish."""
        self.core = new_core(retryable_max=int(number))

    def do_cancel(self, number: str, name: str) -> None:
        self.give(Asked(int(number), r.CancelJobRequest(JobID(name))))

    def do_alive(self, number: str, name: str) -> None:
        """The client of a job shows that it is there."""
        self.give(Asked(int(number), r.ReportClientHeartbeat(JobID(name))))

    def do_result(self, number: str, name: str) -> None:
        self.give(Asked(int(number), r.AwaitJobResult(JobID(name))))

    # ── the store ────────────────────────────────────────────────────────────────────────────
    def do_loaded(self, jobs: str = "", dirty: str = "", clean: str = "", client: str = "0") -> None:
        """What former leaders have stored: graphs, results whose cleanup is not done, and others."""
        time_ms = int(client)
        graphs = tuple(
            msgspec.structs.replace(job("v", job_id=name), client_heartbeat_timeout_ms=time_ms) for name in listed(jobs)
        )
        results = [(result(name), True) for name in listed(dirty)] + [(result(name), False) for name in listed(clean)]
        self.give(r.JobsLoaded(graphs, tuple(results)))

    def do_stored(self, name: str, error: str = "") -> None:
        self.give(r.JobGraphStored(JobID(name), error))

    def do_result_stored(self, name: str) -> None:
        self.give(r.JobResultStored(JobID(name)))

    def do_cleaned(self, name: str) -> None:
        self.give(r.JobCleanedUp(JobID(name)))

    def do_forgotten(self, name: str) -> None:
        self.give(r.JobForgotten(JobID(name)))

    # ── JobMasters ───────────────────────────────────────────────────────────────────────────
    def do_status(self, name: str, status: str, token: str = "2") -> None:
        self.deliver(f"jm-{name}", m.JobStatusChanged(job_id=JobID(name), status=JobStatus[status]), int(token))

    def do_terminated(self, name: str, status: str = "FINISHED", token: str = "2") -> None:
        view = JobView(job_id=JobID(name), name=name, status=JobStatus[status])
        self.deliver(f"jm-{name}", m.JobTerminated(result=result(name, status), view=view), int(token))

    def do_too_late(self, name: str, token: str = "2") -> None:
        """The JobMaster will not cancel it: it commits."""
        self.deliver(f"jm-{name}", m.CancelTooLate(job_id=JobID(name)), int(token))

    def do_closed(self, name: str, token: str = "2") -> None:
        self.deliver(f"jm-{name}", m.JobClosed(job_id=JobID(name)), int(token))

    def do_unheard(self, *names: str) -> None:
        """Some worker has something of these jobs, and has not heard of their masters."""
        self.deliver("rm", m.JobsUnheard(job_ids=tuple(map(JobID, names))), 1)

    def do_broke(self, name: str) -> None:
        self.give(r.JobMasterBroke(JobID(name), BUG))

    def do_wrong(self) -> None:
        self.deliver("rm", m.HeartbeatRequest(), 1)

    def do_view(self) -> None:
        for entry in self.core.jobs.values():
            archived = f", archived as {entry.view.status.name}" if entry.view is not None else ""
            kept = ", its graph is kept" if entry.keeps_graph else ""
            self.out.append(f"{entry.job_id}: {entry.stage.name}, {entry.status.name}{archived}{kept}")
