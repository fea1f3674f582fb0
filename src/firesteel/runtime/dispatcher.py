"""The Dispatcher's endpoint: its store, its JobMasters, and the clients that wait."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from itertools import chain
from typing import TypeVar, assert_never

from firesteel.core.dispatcher import requests as r
from firesteel.core.dispatcher import shown
from firesteel.core.dispatcher.dispatcher import DispatcherCore
from firesteel.core.dispatcher.jobentry import JobEntry, JobStage
from firesteel.core.dispatcher.sessions import JobSessions, broken, job_core
from firesteel.core.effects import RESOURCE_MANAGER, Effect, Event, Received
from firesteel.core.jobmaster.jobmaster import JobMasterCore
from firesteel.core.jobmaster.jobrelease import JobReleaseCore
from firesteel.core.journal.journal import JobState
from firesteel.model import options
from firesteel.model.failures import FailureInfo
from firesteel.model.ids import FencingToken, JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.messages import Envelope, JobClosed, JobStatusChanged, JobTerminated, Leader
from firesteel.model.options import Configuration
from firesteel.model.refusals import UnknownJob
from firesteel.model.views import JobSummary, JobView, SubtaskView, VertexView
from firesteel.runtime.about import about
from firesteel.runtime.archiving import ArchiveBacklog
from firesteel.runtime.changes import JobChanges
from firesteel.runtime.jobmaster import JobMasterEndpoint, job_master_settings, job_release_settings
from firesteel.runtime.leadership import LeaderRunner, Service, failure_of
from firesteel.runtime.leading import LeadingEndpoint
from firesteel.runtime.orphans import Named, Sweep, swept
from firesteel.runtime.retries import retried
from firesteel.runtime.services import (
    AnnounceStatus,
    ArchiveJob,
    Clock,
    JobArchive,
    JobStore,
    LeaderElection,
    Rpc,
    StaleLeader,
)
from firesteel.runtime.statusnews import StatusAnnouncer

DeleteBlobs = Callable[[tuple[str, ...], Callable[[], Collection[str]]], Awaitable[None]]
"""Deletes the first but for the second, which is asked when nothing can change any more."""

VIEW_PATIENCE_S = 5.0
"""Time for which a view waits for a JobMaster that reads how its job has ended."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


class DispatcherEndpoint(LeadingEndpoint):
    """Serves one leadership of the Dispatcher, and supervises the JobMasters of its time."""

    core: DispatcherCore

    def __init__(
        self,
        core: DispatcherCore,
        rpc: Rpc,
        clock: Clock,
        *,
        config: Configuration,
        election: LeaderElection,
        store: JobStore,
        archive: JobArchive,
        archive_job: ArchiveJob,
        announce_status: AnnounceStatus,
        delete_blobs: DeleteBlobs,
        delete_output: Callable[[JobID], Awaitable[None]],
        sweep: Sweep,
        on_hindered: Callable[[OSError], None],
        on_broken: Callable[[Exception], None],
    ) -> None:
        """`on_hindered` is told of each try to read the stored jobs that has failed."""
        super().__init__(core, rpc, clock, on_broken)
        self._config, self._election, self._store = config, election, store
        self._archive, self._archive_job, self._on_hindered = archive, archive_job, on_hindered
        self._backlog = ArchiveBacklog(config.get_option(options.ARCHIVE_WAITING_MAX))
        self._delete_blobs, self._delete_output, self._sweep = delete_blobs, delete_output, sweep
        self.changes = JobChanges()
        self._statuses = StatusAnnouncer(announce_status, clock)
        self._sessions: JobSessions[LeaderRunner] = JobSessions()
        self.recovered = asyncio.Event()
        """Set once all stored jobs are known: before that, `view` does not know them."""

    async def stop(self) -> None:
        """Its JobMasters go with it: their jobs are suspended, until another Dispatcher takes them over."""
        self._halt()
        self.changes.stop()
        await asyncio.gather(*(runner.stop() for runner in self._sessions.all()))
        await super().stop()

    @property
    def mailbox_length(self) -> int:
        """Number of events that wait here and at its JobMasters."""
        services = (runner.service for runner in self._sessions.all())
        return len(self._mailbox) + sum(each.mailbox_length for each in services if isinstance(each, LeadingEndpoint))

    async def view(self, job_id: JobID) -> JobView:
        """A known job as it is now. Raises UnknownJob."""
        job = self._known(job_id)
        known = shown.view_at_hand(job, self._leads(job)) or (await self._archived(job_id) if job.has_ended else None)
        if known is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(VIEW_PATIENCE_S):
                    while shown.is_read_again(job, self._leads(job)):
                        await asyncio.wait((self.changes.next(job_id),))
        return known or shown.view_now(job, self._leads(job))

    def views(self) -> list[JobView]:
        """Every known job, newest first; of those that are archived, no more than a line."""
        jobs = reversed(self.core.jobs.values())
        return [shown.view_now(job, self._leads(job)) for job in jobs]

    def summary(self, job_id: JobID) -> JobSummary:
        """A known job's line in an overview. Raises UnknownJob."""
        job = self._known(job_id)
        return shown.summary_now(job, self._leads(job))

    def summaries(self) -> list[JobSummary]:
        """A line for every known job, newest first."""
        return [shown.summary_now(job, self._leads(job)) for job in reversed(self.core.jobs.values())]

    def running_and_ended(self) -> tuple[tuple[JobSummary, ...], dict[str, int]]:
        """A line for every known job that has not ended, newest first, and how many others there are by the name of their status."""
        running: list[JobSummary] = []
        ended: dict[str, int] = {}
        for job in reversed(self.core.jobs.values()):
            if job.has_ended:
                ended[job.status.value] = ended.get(job.status.value, 0) + 1
            else:
                running.append(shown.summary_now(job, self._leads(job)))
        return tuple(running), ended

    async def subtasks(self, job_id: JobID, vertex: VertexView, chosen: range) -> tuple[SubtaskView, ...]:
        """The current or last attempts of a vertex's subtasks of these indices, as far as they are known. Raises UnknownJob."""
        job = self._known(job_id)
        core = shown.teller_of(job, self._leads(job))
        if core is not None:
            return core.views.subtasks(vertex.id, chosen)
        view = job.view or await self._archived(job_id)
        return view.subtasks_of(vertex.id, chosen) if view is not None else ()

    def cleans_up(self) -> bool:
        """Whether a job has ended that is not cleaned up yet, and so may not be archived."""
        stages = (JobStage.STORING_RESULT, JobStage.RELEASING, JobStage.CLEANING)
        return any(job.stage in stages for job in self.core.jobs.values())

    def master_of(self, job_id: JobID, refused: type[RuntimeError]) -> JobMasterEndpoint | None:
        """Who leads the job; None while nobody does. Raises UnknownJob, or `refused` of one that has ended."""
        job = self._known(job_id)
        if job.has_ended:
            raise refused(f"job {job_id} ({job.name}) is {job.status.value}: it has no queries that run")
        runner = self._sessions.of(job_id)
        service = runner.service if runner is not None else None
        return service if isinstance(service, JobMasterEndpoint) else None

    async def delete_unused_blobs(self, names: Iterable[str]) -> None:
        """Delete those that only jobs have which were refused, or need them no more."""
        if unused := tuple(names):
            await self._delete_blobs(unused, self._used_blobs)

    def _used_blobs(self) -> Collection[str]:
        gone, jobs = (JobStage.CLEANING, JobStage.DONE), self.core.jobs.values()
        results = [job.result for job in jobs if job.result is not None]
        artifacts = {sha256 for job in jobs if job.keeps_graph or job.stage not in gone for sha256 in job.artifacts}
        return artifacts | {rows.sha256 for result in results for rows in result.returned}

    def _named(self) -> Named | None:
        """None while the JobMaster of some job has not read yet what its attempts have staged."""
        running = [job for job in self.core.jobs.values() if job.stage is JobStage.RUNNING]
        staged = [core.views.returned_blobs() for job in running if (core := shown.teller_of(job, self._leads(job)))]
        is_complete = len(staged) == len(running)
        return Named({*self._used_blobs(), *chain(*staged)}, self.core.jobs) if is_complete else None

    def _known(self, job_id: JobID) -> JobEntry:
        if job_id not in self.core.jobs:
            raise UnknownJob(f"no job {job_id} is known here")
        return self.core.jobs[job_id]

    def _leads(self, job: JobEntry) -> shown.Leads:
        """What leads a job at the moment, or why nothing can."""
        runner = self._sessions.of(job.job_id)
        if runner is None:
            return None
        return runner.service.core if isinstance(runner.service, LeadingEndpoint) else runner.trouble

    async def _archived(self, job_id: JobID) -> JobView | None:
        try:
            return await self._archive.get(job_id)
        except OSError as error:
            text = "job %s is shown without its vertices: its archive can't be read (%s)"
            logger.warning(text, job_id, error, extra=about(job_id))
            return None

    # ── effects ──────────────────────────────────────────────────────────────────────────────
    def perform(self, effect: Effect) -> None:
        assert isinstance(effect, r.DispatcherEffect), f"not an effect of a Dispatcher: {effect}"
        match effect:
            case r.LoadJobs():
                self.background(self._load())
            case r.StoreJobGraph():
                self.background(self._store_graph(effect.graph))
            case r.StoreJobResult():
                self.background(self._store_result(effect))
            case r.CleanUpJob():
                self.background(self._clean_up(effect))
            case r.ForgetGraph():
                self.background(self._forget_graph(effect))
            case r.ForgetResult():
                self.background(self._forget(effect))
            case r.StartJobMaster() | r.ReleaseJob():
                self._lead(effect)
            case r.StopJobMaster():
                self._stop_job_master(effect.job_id)
            case _:
                assert_never(effect)

    def handled(self, event: Event) -> None:
        match event:
            case r.JobGraphStored() | r.JobResultStored() | r.JobCleanedUp() | r.JobMasterBroke():
                self.changes.notify(event.job_id)
                self._announce_status(event.job_id)
            case r.JobsLoaded():
                for job_id, job in self.core.jobs.items():
                    if job.stage is JobStage.RELEASING:  # its end may have been told to nobody
                        self._announce_status(job_id)
            case Received(envelope=Envelope(body=JobStatusChanged(job_id=job_id) | JobClosed(job_id=job_id))):
                self.changes.notify(job_id)
                self._announce_status(job_id)
            case Received(envelope=Envelope(body=JobTerminated(result=result))):
                self.changes.notify(result.job_id)
            case _:
                pass  # nothing that a view shows

    def _announce_status(self, job_id: JobID) -> None:
        job = self.core.jobs.get(job_id)

        def last_failure() -> FailureInfo | None:
            view = shown.view_at_hand(job, self._leads(job)) if job is not None else None
            return view.exceptions[0].failure if view is not None and view.exceptions else None

        if job is not None and job.stage is not JobStage.STORING:
            self._statuses.look(job, last_failure)

    async def _load(self) -> None:
        load = partial(self._store.load, self.leader.token)
        graphs, results = await retried("reading the stored jobs", load, self._on_hindered)
        logger.info("leading: %d stored jobs go on, %d have ended", len(graphs), len(results))
        self.tell(r.JobsLoaded(graphs, results))
        await self.catch_up()
        await retried("looking through the archive", lambda: self._archive.keep(self.core.jobs), self._on_hindered)
        self.recovered.set()
        sweep = partial(self._sweep, self._clock.now_ms(), self._named)
        grace_s = self._config.get_option(options.BLOB_ORPHANS_GRACE) / 1000
        self.background(swept(partial(retried, "deleting orphans", sweep), grace_s))

    async def _store_graph(self, graph: JobGraph) -> None:
        """What a failing store has of it is not known: whoever asks again, under the same id, will know."""
        try:
            await self._store.put_graph(graph, self.leader.token)
        except OSError as error:
            text = f"the job may be stored or not, so submit it again under the same id ({error})"
            self.tell(r.JobGraphStored(graph.job_id, text))
        else:
            owner = f" by {graph.owner}" if graph.owner else ""
            logger.info("job %s (%s): submitted%s", graph.job_id, graph.name, owner, extra=about(graph.job_id))
            self.tell(r.JobGraphStored(graph.job_id))

    async def _store_result(self, effect: r.StoreJobResult) -> None:
        result = effect.result
        await retried(
            f"storing the result of job {result.job_id}", lambda: self._store.put_result(result, self.leader.token)
        )
        self.tell(r.JobResultStored(result.job_id))

    async def _clean_up(self, effect: r.CleanUpJob) -> None:
        """The store's part is the last one: before it, a successor does all of this again."""
        job_id, keeps_graph = effect.job_id, effect.keeps_graph
        await asyncio.gather(*(runner.stop() for runner in self._sessions.leaving(job_id)))
        job, what = self.core.jobs[job_id], f"cleaning up job {job_id}"
        blobs = () if keeps_graph else job.artifacts
        if job.view is not None:
            await self._put_away(job.view)
        view, result = job.view or shown.last_known_view(job), job.result
        assert result is not None, "a job that is cleaned up has ended"
        archive = partial(retried, f"archiving job {job_id}", lambda: self._archive_job(view, result))
        await self._backlog.archived(job_id, archive)
        await retried(what, lambda: self.delete_unused_blobs(blobs))
        await retried(what, lambda: self._store.clean_up(job_id, self.leader.token, keeps_graph=keeps_graph))
        self.tell(r.JobCleanedUp(job_id))

    async def _put_away(self, view: JobView) -> None:
        """Before the journal goes, from which a successor could show it. A full disk holds up no clean-up."""
        try:
            await self._archive.put(view)
        except OSError as error:
            text = "job %s is not archived, only how it ended is known (%s)"
            logger.warning(text, view.job_id, error, extra=about(view.job_id))

    async def _forget_graph(self, effect: r.ForgetGraph) -> None:
        """Blobs first, as with results: who comes after a crash in between finds the graph, and says that its code is gone."""
        what = f"forgetting the graph of job {effect.job_id}"
        await retried(what, lambda: self.delete_unused_blobs(effect.blobs))
        await retried(what, lambda: self._store.forget_graph(effect.job_id, self.leader.token))
        self.tell(r.JobForgotten(effect.job_id))

    async def _forget(self, effect: r.ForgetResult) -> None:
        """Blobs first: who comes after a crash in between finds the result and does it again."""
        what = f"forgetting job {effect.job_id}"
        self.changes.notify(effect.job_id)
        self._statuses.forget(effect.job_id)
        await retried(what, lambda: self.delete_unused_blobs(effect.blobs))
        await retried(what, lambda: self._delete_output(effect.job_id))
        await retried(what, lambda: self._archive.delete(effect.job_id))
        await retried(what, lambda: self._store.forget_result(effect.job_id, self.leader.token))
        self.tell(r.JobForgotten(effect.job_id))

    # ── JobMasters ───────────────────────────────────────────────────────────────────────────
    def _lead(self, start: r.StartJobMaster | r.ReleaseJob) -> None:
        """Contend for a job."""

        async def serve(token: FencingToken) -> Service:
            return await self._serve(start, token, runner.fail)

        def lost(error: Exception) -> None:
            self.tell(broken(start.job_id, failure_of(error), error))

        runner = LeaderRunner(start.job_id, self._election, serve, on_lost=lost, outlives_bugs=False, called="job")
        if self._sessions.begin(start.job_id, runner):
            runner.start()

    async def _serve(
        self, start: r.StartJobMaster | r.ReleaseJob, token: FencingToken, on_broken: Callable[[Exception], None]
    ) -> LeadingEndpoint:
        """A session of what leads a job."""
        job_id = start.job_id
        state: JobState | None = None
        try:
            state = await self._store.claim_journal(job_id, token)
        except StaleLeader:
            if start.needs_journal:
                raise
        core = job_core(
            start,
            self.core.jobs.get(job_id),
            state,
            settings=partial(job_master_settings, self._config),
            release=job_release_settings(self._config),
            me=Leader(self._rpc.address(f"jobmaster/{job_id}@{token.epoch}"), token),
            dispatcher=self.leader,
        )
        if isinstance(core, JobReleaseCore):
            endpoint = LeadingEndpoint(core, self._rpc, self._clock, on_broken)
        else:
            endpoint = self._job_master(core, on_broken)
            _log_taken_over(core.job.graph, state)
        endpoint.start()
        endpoint.follow(self._election, RESOURCE_MANAGER)
        return endpoint

    def _job_master(self, core: JobMasterCore, on_broken: Callable[[Exception], None]) -> LeadingEndpoint:
        job_id = core.job.graph.job_id
        return JobMasterEndpoint(
            core,
            self._rpc,
            self._clock,
            self._store,
            on_broken=on_broken,
            on_change=lambda: self.changes.notify(job_id),
            on_records=partial(self.changes.record, core),
        )

    def _stop_job_master(self, job_id: JobID) -> None:
        runner = self._sessions.end(job_id)
        if runner is not None:
            self.background(self._leave(job_id, runner))

    async def _leave(self, job_id: JobID, runner: LeaderRunner) -> None:
        """Have a session stop; whoever waits for that starts."""
        await runner.stop()
        following = self._sessions.gone(job_id, runner)
        if following is not None:
            following.start()


def _log_taken_over(graph: JobGraph, state: JobState | None) -> None:
    if state is not None and state.timestamps_ms:
        text = "job %s (%s): taken over, %s, with %d attempts that may run"
        values = (graph.job_id, graph.name, state.status.value, len(state.deployed))
        logger.info(text, *values, extra=about(graph.job_id))
