"""The Dispatcher's core: which jobs there are, from submission to the end of their cleanup.

A job is durable before it is acknowledged, its result before it is told, its cleanup is repeated
until it is done. What breaks one job's JobMaster fails that job and no other.
"""

from dataclasses import dataclass
from typing import assert_never

from firesteel.core.dispatcher import requests as r
from firesteel.core.dispatcher.admission import NO_LIMITS, Admission
from firesteel.core.dispatcher.cancelling import too_late
from firesteel.core.dispatcher.clients import AttachedClients, ClientsDue
from firesteel.core.dispatcher.jobentry import JOB_STAGE_TRANSITIONS, JobEntry, JobStage
from firesteel.core.dispatcher.leftovers import Leftovers
from firesteel.core.dispatcher.retention import Retention
from firesteel.core.effects import Event, PeerLost, Received, Started, Timer, TimerFired
from firesteel.core.machine import Core
from firesteel.core.requests import Asked
from firesteel.model import messages as m
from firesteel.model.failures import FailureInfo
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.refusals import CancelRefused, DuplicateJob, StorageUnavailable, UnknownJob
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult, JobView, summary_of

JOB_MASTER_RESTARTS_MAX = 1
"""Times a JobMaster that broke is started again, to fail its job in order; then only workers are made to let go of it."""


@dataclass(frozen=True, slots=True)
class RetentionOver(Timer):
    """The job that has ended first has been kept for its time."""


DispatcherTimer = ClientsDue | RetentionOver


class DispatcherCore(Core):
    """Decides during one leadership. For what is kept of jobs that have ended, see Retention."""

    def __init__(
        self,
        me: m.Leader,
        results_max: int,
        admission: Admission = NO_LIMITS,
        *,
        retention_ms: int = 0,
        retryable_max: int = 0,
    ) -> None:
        super().__init__(me.address, me.token)
        self._admission, self._clients, self._leftovers = admission, AttachedClients(), Leftovers()
        self.jobs: dict[JobID, JobEntry] = {}
        self._unfinished: dict[JobID, None] = {}
        self._retention = Retention(results_max, retention_ms, retryable_max)
        self._loaded = False
        self._early: list[Asked] = []

    def _on(self, event: Event) -> None:
        assert isinstance(event, r.DispatcherEvent), f"not an event of a Dispatcher: {event}"
        match event:
            case Started():
                self._effects.append(r.LoadJobs())
            case r.JobsLoaded():
                self._recover(event)
            case Asked():
                if self._loaded:
                    self._answer(event)
                else:
                    self._early.append(event)
            case r.JobGraphStored():
                self._on_stored(event)
            case r.JobResultStored():
                self._on_result_stored(self.jobs[event.job_id])
            case r.JobCleanedUp():
                self._on_cleaned(self.jobs[event.job_id])
            case r.JobForgotten():
                self._retention.forgotten(event.job_id)
            case TimerFired():
                assert isinstance(event.timer, DispatcherTimer), f"not a timer of a Dispatcher: {event.timer}"
                self._on_timer(event.timer)
            case r.JobMasterBroke():
                self._on_broken(event.job_id, event.failure)
            case Received():
                self._on_message(event.envelope)
            case PeerLost():
                pass  # A Dispatcher's peers are in its own process.
            case _:
                assert_never(event)

    def _on_timer(self, timer: DispatcherTimer) -> None:
        match timer:
            case ClientsDue():
                self._look_for_clients()
            case RetentionOver():
                self._expire()
            case _:
                assert_never(timer)

    def validate(self) -> None:
        self._retention.validate(self.jobs)
        for job in self.jobs.values():
            ended = job.stage not in (JobStage.STORING, JobStage.RUNNING)
            assert ended == (job.result is not None), f"job {job.job_id} has a result before its end, or none after"
            assert not (job.waiting and job.has_ended), "unanswered"
            assert not (job.submitting and job.stage is not JobStage.STORING), f"job {job.job_id}: stored, and not told"
            assert ended == (job.job_id not in self._unfinished), f"job {job.job_id} is miscounted"
            assert not (job.cancelling and job.has_ended), f"job {job.job_id} has ended, and who cancelled it waits"

    # ── requests ─────────────────────────────────────────────────────────────────────────────
    def _answer(self, asked: Asked) -> None:
        request, number = asked.request, asked.request_id
        assert isinstance(request, r.DispatcherRequest), f"not a request to a Dispatcher: {request}"
        if isinstance(request, r.SubmitJob):
            self._submit(number, request.graph)
        elif request.job_id not in self.jobs:
            self._reply(number, UnknownJob(f"no job {request.job_id} is known here"))
        else:
            self._answer_about(self.jobs[request.job_id], request, number)

    def _answer_about(
        self, job: JobEntry, request: r.CancelJobRequest | r.ReportClientHeartbeat | r.AwaitJobResult, number: int
    ) -> None:
        match request:
            case r.CancelJobRequest():
                self._cancel(job, number)
            case r.ReportClientHeartbeat():
                self._clients.heard(job.job_id, self.now_ms)
                self._reply(number, None)
            case r.AwaitJobResult():
                if job.has_ended:
                    self._reply(number, job.result)
                else:
                    job.waiting.append(number)
            case _:
                assert_never(request)

    def _cancel(self, job: JobEntry, request_id: int) -> None:
        """Answered when the job is sure to end: a wish that only this leadership knows may be lost with it."""
        job.cancel = True
        job.cancelling.append(request_id)
        self._send_cancel(job)
        if job.status is JobStatus.CANCELLING or job.view is not None or job.has_ended:
            self._answer_cancels(job)

    def _answer_cancels(self, job: JobEntry, refusal: CancelRefused | None = None) -> None:
        for request_id in job.cancelling:
            self._reply(request_id, refusal)
        job.cancelling.clear()

    def _watch_client(self, graph: JobGraph) -> None:
        """Begin to wait for signs of life of the client that a job ends with."""
        if graph.client_heartbeat_timeout_ms:
            self._clients.watch(graph.job_id, graph.client_heartbeat_timeout_ms, self.now_ms)
            self._look_later()

    def _look_for_clients(self) -> None:
        for job_id, timeout_ms in self._clients.gone(self.now_ms):
            job = self.jobs[job_id]
            job.cancel = True
            job.cancel_reason = (
                f"its client is gone: nothing was heard of it for {timeout_ms / 1_000:g} s, and the job ends with it"
            )
            self._send_cancel(job)
        self._look_later()

    def _look_later(self) -> None:
        if self._clients.due_ms is not None:
            self._set_timer(ClientsDue(), max(0, self._clients.due_ms - self.now_ms))

    def _submit(self, request_id: int, given: JobGraph) -> None:
        graph = self._admission.placed(given)
        if graph.job_id in self.jobs:
            self._submit_again(self.jobs[graph.job_id], request_id, graph)
            return
        refusal = self._admission.refusal(graph, len(self._unfinished)) or self._retention.refusal(graph.job_id)
        if refusal is not None:
            self._reply(request_id, refusal)
            return
        job = JobEntry(graph.job_id, graph.name, graph, JobStage.STORING, since_ms=self.now_ms)
        job.submitting.append(request_id)
        self.jobs[graph.job_id] = job
        self._unfinished[graph.job_id] = None
        self._effects.append(r.StoreJobGraph(graph))

    def _submit_again(self, job: JobEntry, request_id: int, graph: JobGraph) -> None:
        """A client that had no answer asks again with the same words; whoever says something else is refused."""
        if job.has_ended:
            ended = f"a job {job.job_id} has ended already ({job.status.value})"
            self._reply(request_id, DuplicateJob(f"{ended}: an id is used once"))
        elif not job.is_of(graph):
            self._reply(request_id, DuplicateJob(f"another job {job.job_id} is known already: choose another id"))
        elif job.stage is JobStage.STORING:
            job.submitting.append(request_id)
        else:
            self._clients.heard(job.job_id, self.now_ms)
            self._reply(request_id, job.job_id)

    def _on_stored(self, event: r.JobGraphStored) -> None:
        job = self.jobs[event.job_id]
        if event.error:
            del self.jobs[event.job_id], self._unfinished[event.job_id]
            for request_id in (*job.submitting, *job.waiting, *job.cancelling):
                self._reply(request_id, StorageUnavailable(event.error))
            return
        self._move(job, JobStage.RUNNING)
        assert job.graph is not None, "a job that runs has a graph"
        self._effects += [*self._leftovers.end(job.job_id), r.StartJobMaster(job.graph)]
        self._watch_client(job.graph)
        for request_id in job.submitting:
            self._reply(request_id, job.job_id)
        job.submitting.clear()

    def _recover(self, event: r.JobsLoaded) -> None:
        """Take over what former leaders have stored: results first, so that nothing ended runs again."""
        for result, dirty in event.results:
            stage = JobStage.RELEASING if dirty else JobStage.DONE
            job = JobEntry(result.job_id, result.name, None, stage, result.status, result.start_time_ms, result)
            self.jobs[result.job_id] = job
        for graph in event.graphs:
            job = self.jobs.setdefault(
                graph.job_id, JobEntry(graph.job_id, graph.name, graph, JobStage.RUNNING, since_ms=self.now_ms)
            )
            job.graph = graph
            if job.stage is JobStage.DONE:
                job.keeps_graph = True
                continue
            if job.result is None:
                self._unfinished[graph.job_id] = None
                self._watch_client(graph)
            self._effects.append(r.StartJobMaster(graph))
        for job in self.jobs.values():
            if job.stage is JobStage.DONE:
                self._retention.keep(job)
            elif job.stage is JobStage.RELEASING and job.graph is None:
                self._close(job)
        self._expire()
        self._loaded = True
        for asked in self._early:
            self._answer(asked)
        self._early.clear()

    # ── JobMasters ───────────────────────────────────────────────────────────────────────────
    def _on_message(self, envelope: m.Envelope) -> None:
        if not isinstance(body := envelope.body, m.ToDispatcher):
            self._misdirected(envelope)
            return
        match body:
            case m.JobStatusChanged():
                if body.job_id in self.jobs:
                    self._on_status(self.jobs[body.job_id], envelope, body.status)
            case m.CancelTooLate():
                if refusal := too_late(self.jobs.get(body.job_id), envelope):
                    self._answer_cancels(self.jobs[body.job_id], refusal)
            case m.JobTerminated():
                if body.result.job_id in self.jobs:
                    self._on_terminated(self.jobs[body.result.job_id], body.result, body.view)
            case m.JobClosed():
                self._effects += self._leftovers.end(body.job_id)
                if body.job_id in self.jobs:
                    self._close(self.jobs[body.job_id])
            case m.JobsUnheard():
                if self._loaded:
                    over = [
                        each for each in body.job_ids if each not in self.jobs or self.jobs[each].stage is JobStage.DONE
                    ]
                    self._effects += self._leftovers.found(over)
            case _:
                assert_never(body)

    def _on_status(self, job: JobEntry, envelope: m.Envelope, status: JobStatus) -> None:
        assert envelope.sender_token is not None, "a JobMaster speaks with its token"
        speaker = m.Leader(envelope.sender, envelope.sender_token)
        if job.master is None or job.master.token < speaker.token:
            job.master = speaker
            self._send_cancel(job)
        if job.master == speaker:
            job.status = status
            if status is JobStatus.CANCELLING:
                self._answer_cancels(job)

    def _send_cancel(self, job: JobEntry) -> None:
        """Pass a client's wish on; a JobMaster that has not spoken yet is told when it does."""
        if job.cancel and job.master is not None and job.stage is JobStage.RUNNING:
            self._send_leader(job.master, m.CancelJob(job_id=job.job_id, reason=job.cancel_reason))

    def _on_terminated(self, job: JobEntry, result: JobResult, view: JobView | None) -> None:
        """A repeat, and the word of a JobMaster that only cleans up, change nothing.

        Without a view its JobMaster has broken for good: that it has ended is in no journal, and only its result says so.
        """
        if view is not None:
            job.view, job.summary = view, summary_of(view)
            self._answer_cancels(job)
        if job.stage is JobStage.RUNNING:
            job.result = result
            del self._unfinished[job.job_id]
            self._clients.forget(job.job_id)
            self._move(job, JobStage.STORING_RESULT)
            self._effects.append(r.StoreJobResult(result))

    def _on_result_stored(self, job: JobEntry) -> None:
        assert job.result is not None, "it has just been stored"
        self._move(job, JobStage.RELEASING)
        job.status = job.result.status
        self._answer_cancels(job)
        for request_id in job.waiting:
            self._reply(request_id, job.result)
        job.waiting.clear()
        if job.closed:
            self._close(job)
        elif job.breaks > JOB_MASTER_RESTARTS_MAX:
            self._let_go(job)

    def _close(self, job: JobEntry) -> None:
        """Nothing needs the JobMaster any more."""
        job.closed = True
        if job.stage is JobStage.RELEASING:
            self._move(job, JobStage.CLEANING)
            job.keeps_graph = self._retention.keeps_graph(job)
            self._effects += [r.StopJobMaster(job.job_id), r.CleanUpJob(job.job_id, job.keeps_graph)]

    def _on_broken(self, job_id: JobID, failure: FailureInfo) -> None:
        """Start it again to fail the job in order; when that breaks too, the job has failed, and its workers let go."""
        self._effects += self._leftovers.end(job_id)
        job = self.jobs.get(job_id)
        if job is None or job.stage in (JobStage.CLEANING, JobStage.DONE):
            return  # It was being stopped: nothing needs it any more, and its journal may be gone.
        self._effects.append(r.StopJobMaster(job.job_id))
        job.master, job.breaks = None, job.breaks + 1
        if job.breaks <= JOB_MASTER_RESTARTS_MAX and job.graph is not None:
            self._effects.append(r.StartJobMaster(job.graph, failure))
            return
        result = JobResult(
            job_id=job.job_id,
            name=job.name,
            status=JobStatus.FAILED,
            start_time_ms=job.since_ms,
            end_time_ms=self.now_ms,
            failure=failure,
            owner=job.graph.owner if job.graph is not None else "",
        )
        self._on_terminated(job, result, None)
        if job.stage is JobStage.RELEASING:
            self._let_go(job)

    def _let_go(self, job: JobEntry) -> None:
        """Nobody leads a job that is over: have its workers let go of it, unless that breaks too."""
        if job.breaks <= JOB_MASTER_RESTARTS_MAX + 1:
            self._effects.append(r.ReleaseJob(job.job_id))
        else:
            self._close(job)

    def _on_cleaned(self, job: JobEntry) -> None:
        """What is shown of it is archived."""
        self._move(job, JobStage.DONE)
        job.view = None
        if not job.keeps_graph:
            job.graph = None
        self._retention.keep(job)
        self._expire()

    def _expire(self) -> None:
        self._effects += self._retention.expire(self.jobs, self.now_ms)
        due_ms = self._retention.due_ms(self.jobs)
        if due_ms is not None:
            self._set_timer(RetentionOver(), due_ms - self.now_ms)

    def _move(self, job: JobEntry, stage: JobStage) -> None:
        JOB_STAGE_TRANSITIONS.check(job.stage, stage, f"job {job.job_id}", tuple(self.story))
        job.stage = stage
