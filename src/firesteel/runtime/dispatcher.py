"""The Dispatcher's endpoint: its store, its JobMasters, and the clients that wait."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from itertools import chain
from typing import TypeVar, assert_never

from firesteel.core.dispatcher import requests as r
from firesteel.core.dispatcher.admission import Admission
from firesteel.core.dispatcher.dispatcher import DispatcherCore
from firesteel.core.dispatcher.jobentry import JobEntry, JobStage
from firesteel.core.dispatcher.shown import last_known_view, shown_summary, teller_of, view_at_hand
from firesteel.core.effects import RESOURCE_MANAGER, Effect, Event, Received
from firesteel.core.heartbeat import HeartbeatMonitor
from firesteel.core.jobmaster.jobmaster import JobMasterCore
from firesteel.core.jobmaster.jobrelease import JobReleaseCore
from firesteel.core.machine import Core
from firesteel.core.scheduler.commit import undeleted
from firesteel.model import options
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import FencingToken, JobID, ResourceID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.messages import Envelope, JobClosed, JobStatusChanged, JobTerminated, Leader
from firesteel.model.options import Configuration
from firesteel.model.refusals import UnknownJob
from firesteel.model.views import JobSummary, JobView, SubtaskView, VertexView
from firesteel.runtime.changes import JobChanges
from firesteel.runtime.jobmaster import JobMasterEndpoint, job_master_settings
from firesteel.runtime.leadership import LeaderRunner, Service
from firesteel.runtime.leading import LeadingEndpoint
from firesteel.runtime.orphans import Named, Sweep, swept
from firesteel.runtime.services import Clock, JobArchive, JobStore, LeaderElection, Rpc, StaleLeader

STORE_RETRY_DELAY_S, STORE_RETRY_DELAY_MAX_S = 0.1, 5.0
"""Time between two tries at a store that fails: the first, doubled each time up to the second."""

STORE_ERRORS = (OSError, StaleLeader)
"""What a JobStore raises: it may pass, and is nobody's bug."""

JobService = Callable[[FencingToken, Callable[[Exception], None]], Awaitable[Service]]
"""Starts what leads a job, under a token; the second is told when it breaks."""

DeleteBlobs = Callable[[tuple[str, ...], Callable[[], Collection[str]]], Awaitable[None]]
"""Deletes the first but for the second, which is asked when nothing can change any more."""


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
        delete_blobs: DeleteBlobs,
        delete_output: Callable[[JobID], Awaitable[None]],
        sweep: Sweep,
        on_broken: Callable[[Exception], None],
    ) -> None:
        super().__init__(core, rpc, clock, on_broken)
        self._config, self._election, self._store = config, election, store
        self._archive = archive
        self._delete_blobs, self._delete_output, self._sweep = delete_blobs, delete_output, sweep
        self.changes = JobChanges()
        self._runners: dict[JobID, LeaderRunner] = {}
        self._leaving: dict[JobID, list[LeaderRunner]] = {}
        """Runners that are being stopped: the next one of a job waits for them."""
        self.recovered = asyncio.Event()
        """Set once all stored jobs are known: before that, `view` does not know them."""

    async def stop(self) -> None:
        """Its JobMasters go with it: their jobs are suspended, until another Dispatcher takes them over."""
        self._halt()
        self.changes.stop()
        runners = [*self._runners.values(), *(runner for known in self._leaving.values() for runner in known)]
        await asyncio.gather(*(runner.stop() for runner in runners))
        await super().stop()

    async def view(self, job_id: JobID) -> JobView:
        """A known job as it is now. Raises UnknownJob."""
        job = self._known(job_id)
        known = view_at_hand(job, self._leads(job)) or (await self._archived(job_id) if job.has_ended else None)
        return known or last_known_view(job)

    def views(self) -> list[JobView]:
        """Every known job, newest first; of those that are archived, no more than a line."""
        jobs = reversed(self.core.jobs.values())
        return [view_at_hand(job, self._leads(job)) or last_known_view(job) for job in jobs]

    def summary(self, job_id: JobID) -> JobSummary:
        """A known job's line in an overview. Raises UnknownJob."""
        job = self._known(job_id)
        return shown_summary(job, self._leads(job))

    def summaries(self) -> list[JobSummary]:
        """A line for every known job, newest first."""
        return [shown_summary(job, self._leads(job)) for job in reversed(self.core.jobs.values())]

    async def subtasks(self, job_id: JobID, vertex: VertexView) -> tuple[SubtaskView, ...]:
        """The current or last attempts of a vertex's subtasks, as far as they are known. Raises UnknownJob."""
        job = self._known(job_id)
        core = teller_of(job, self._leads(job))
        if core is not None:
            return core.views.subtasks(vertex.id)
        view = job.view or await self._archived(job_id)
        return next((each.subtasks for each in view.vertices if each.id == vertex.id), ()) if view is not None else ()

    async def delete_unused_blobs(self, names: Iterable[str]) -> None:
        """Delete those that only jobs have which were refused, or need them no more."""
        if unused := tuple(names):
            await self._delete_blobs(unused, self._used_blobs)

    def _used_blobs(self) -> Collection[str]:
        gone = (JobStage.CLEANING, JobStage.DONE)
        graphs = [job.graph for job in self.core.jobs.values() if job.graph is not None and job.stage not in gone]
        results = [job.result for job in self.core.jobs.values() if job.result is not None]
        artifacts = {artifact.sha256 for graph in graphs for artifact in graph.artifacts}
        return artifacts | {rows.sha256 for result in results for rows in result.returned}

    def _named(self) -> Named | None:
        """None while the JobMaster of some job has not read yet what its attempts have staged."""
        running = [job for job in self.core.jobs.values() if job.stage is JobStage.RUNNING]
        staged = [core.views.returned_blobs() for job in running if (core := teller_of(job, self._leads(job)))]
        is_complete = len(staged) == len(running)
        return Named({*self._used_blobs(), *chain(*staged)}, self.core.jobs) if is_complete else None

    def _known(self, job_id: JobID) -> JobEntry:
        if job_id not in self.core.jobs:
            raise UnknownJob(f"no job {job_id} is known here")
        return self.core.jobs[job_id]

    def _leads(self, job: JobEntry) -> Core | None:
        """What leads a job at the moment."""
        runner = self._runners.get(job.job_id)
        return runner.service.core if runner is not None and isinstance(runner.service, LeadingEndpoint) else None

    async def _archived(self, job_id: JobID) -> JobView | None:
        try:
            return await self._archive.get(job_id)
        except OSError as error:
            logger.warning("job %s is shown without its vertices: its archive can't be read (%s)", job_id, error)
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
                self.background(self._clean_up(effect.job_id))
            case r.ForgetResult():
                self.background(self._forget(effect))
            case r.StartJobMaster():
                self._lead(effect.graph.job_id, partial(self._job_master, effect))
            case r.ReleaseJob():
                self._lead(effect.job_id, partial(self._release, effect.job_id))
            case r.StopJobMaster():
                self._stop_job_master(effect.job_id)
            case _:
                assert_never(effect)

    def handled(self, event: Event) -> None:
        match event:
            case r.JobGraphStored() | r.JobResultStored() | r.JobCleanedUp() | r.JobMasterBroke():
                self.changes.notify(event.job_id)
            case Received(envelope=Envelope(body=JobStatusChanged(job_id=job_id) | JobClosed(job_id=job_id))):
                self.changes.notify(job_id)
            case Received(envelope=Envelope(body=JobTerminated(result=result))):
                self.changes.notify(result.job_id)
            case _:
                pass  # nothing that a view shows

    async def _load(self) -> None:
        graphs, results = await self._retried("reading the stored jobs", lambda: self._store.load(self.leader.token))
        text = "leading in epoch %d: %d stored jobs go on, %d have ended"
        logger.info(text, self.leader.token.epoch, len(graphs), len(results))
        self.tell(r.JobsLoaded(graphs, results))
        await self.catch_up()
        await self._retried("looking through the archive", lambda: self._archive.keep(self.core.jobs))
        self.recovered.set()
        sweep = partial(self._sweep, self._clock.now_ms(), self._named)
        grace_s = self._config.get_option(options.BLOB_ORPHANS_GRACE) / 1000
        self.background(swept(partial(self._retried, "deleting orphans", sweep), grace_s))

    async def _store_graph(self, graph: JobGraph) -> None:
        """What a failing store has of it is not known: whoever asks again, under the same id, will know."""
        try:
            await self._store.put_graph(graph, self.leader.token)
        except OSError as error:
            text = f"the job may be stored or not, so submit it again under the same id ({error})"
            self.tell(r.JobGraphStored(graph.job_id, text))
        else:
            owner = f" by {graph.owner}" if graph.owner else ""
            logger.info("job %s (%s): submitted%s", graph.job_id, graph.name, owner)
            self.tell(r.JobGraphStored(graph.job_id))

    async def _store_result(self, effect: r.StoreJobResult) -> None:
        result = effect.result
        await self._retried(
            f"storing the result of job {result.job_id}", lambda: self._store.put_result(result, self.leader.token)
        )
        self.tell(r.JobResultStored(result.job_id))

    async def _clean_up(self, job_id: JobID) -> None:
        """The store's part is the last one: before it, a successor does all of this again."""
        await self._gone(job_id)
        job, what = self.core.jobs[job_id], f"cleaning up job {job_id}"
        graph = job.graph
        if job.view is not None:
            await self._put_away(job.view)
        blobs = [artifact.sha256 for artifact in graph.artifacts] if graph is not None else []
        await self._retried(what, lambda: self.delete_unused_blobs(blobs))
        await self._retried(what, lambda: self._store.clean_up(job_id, self.leader.token))
        self.tell(r.JobCleanedUp(job_id))

    async def _put_away(self, view: JobView) -> None:
        """Before the journal goes, from which a successor could show it. A full disk holds up no clean-up."""
        try:
            await self._archive.put(view)
        except OSError as error:
            logger.warning("job %s is not archived, only how it ended is known (%s)", view.job_id, error)

    async def _forget(self, effect: r.ForgetResult) -> None:
        """Blobs first: who comes after a crash in between finds the result and does it again."""
        what = f"forgetting job {effect.job_id}"
        self.changes.notify(effect.job_id)
        await self._retried(what, lambda: self.delete_unused_blobs(effect.blobs))
        await self._retried(what, lambda: self._delete_output(effect.job_id))
        await self._retried(what, lambda: self._archive.delete(effect.job_id))
        await self._retried(what, lambda: self._store.forget_result(effect.job_id, self.leader.token))

    async def _retried(self, what: str, work: Callable[[], Awaitable[T]]) -> T:
        """Until the store does it, or this leadership ends: nothing here may be given up."""
        delay_s = STORE_RETRY_DELAY_S
        while True:
            try:
                return await work()
            except OSError as error:
                logger.warning("%s failed, again in %.1f s (%s: %s)", what, delay_s, type(error).__name__, error)
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, STORE_RETRY_DELAY_MAX_S)

    # ── JobMasters ───────────────────────────────────────────────────────────────────────────
    def _lead(self, job_id: JobID, service: JobService) -> None:
        """Contend for a job, with what starts a session of it."""

        async def start(token: FencingToken) -> Service:
            return await service(token, runner.fail)

        runner = self._runners[job_id] = LeaderRunner(
            job_id,
            self._election,
            start,
            on_lost=lambda error: self._job_master_broke(job_id, error),
            may_pass=lambda error: isinstance(error, STORE_ERRORS),
        )
        if job_id in self._leaving:
            self.background(self._start_after(job_id, runner))
        else:
            runner.start()

    async def _job_master(
        self, effect: r.StartJobMaster, token: FencingToken, on_broken: Callable[[Exception], None]
    ) -> LeadingEndpoint:
        """A JobMaster's session, from the job's journal.

        A journal that does not know of the end that is stored is of a JobMaster that broke for good, under a former
        Dispatcher: the job must not go on.
        """
        graph = effect.graph
        state = await self._store.claim_journal(graph.job_id, token)
        if self.core.jobs[graph.job_id].result is not None and not state.status.is_globally_terminal:
            return await self._release(graph.job_id, token, on_broken)
        if state.timestamps_ms:
            text = "job %s (%s): taken over, %s, with %d attempts that may run"
            logger.info(text, graph.job_id, graph.name, state.status.value, len(state.deployed))
        me = Leader(self._rpc.address(f"jobmaster/{graph.job_id}@{token.epoch}"), token)
        core = JobMasterCore(
            graph, state, job_master_settings(self._config, graph), me, self.leader, doom=effect.failure
        )
        endpoint = JobMasterEndpoint(
            core,
            self._rpc,
            self._clock,
            self._store,
            on_broken=on_broken,
            on_change=lambda: self.changes.notify(graph.job_id),
        )
        endpoint.start()
        endpoint.follow(self._election, RESOURCE_MANAGER)
        return endpoint

    async def _release(
        self, job_id: JobID, token: FencingToken, on_broken: Callable[[Exception], None]
    ) -> LeadingEndpoint:
        """A session that has workers let go of a job."""
        me = Leader(self._rpc.address(f"jobmaster/{job_id}@{token.epoch}"), token)
        timeout_ms = self._config.get_option(options.RECONCILIATION_TIMEOUT)
        left: tuple[str, ...] | None = None
        with contextlib.suppress(StaleLeader):  # without its journal, workers still let go of what they know themselves
            left = undeleted(await self._store.claim_journal(job_id, token))
        heartbeats: HeartbeatMonitor[ResourceID] = HeartbeatMonitor(
            self._config.get_option(options.HEARTBEAT_INTERVAL), self._config.get_option(options.HEARTBEAT_TIMEOUT)
        )
        core = JobReleaseCore(job_id, timeout_ms, me, self.leader, heartbeats=heartbeats, undeleted=left)
        endpoint = LeadingEndpoint(core, self._rpc, self._clock, on_broken)
        endpoint.start()
        endpoint.follow(self._election, RESOURCE_MANAGER)
        return endpoint

    async def _start_after(self, job_id: JobID, runner: LeaderRunner) -> None:
        await self._gone(job_id)
        runner.start()

    def _stop_job_master(self, job_id: JobID) -> None:
        runner = self._runners.pop(job_id, None)
        if runner is not None:
            self._leaving.setdefault(job_id, []).append(runner)
            self.background(self._gone(job_id))

    async def _gone(self, job_id: JobID) -> None:
        """Wait until the former JobMasters of a job have stopped."""
        waited = tuple(self._leaving.get(job_id, ()))
        await asyncio.gather(*(runner.stop() for runner in waited))
        left = [runner for runner in self._leaving.pop(job_id, ()) if runner not in waited]
        if left:
            self._leaving[job_id] = left

    def _job_master_broke(self, job_id: JobID, error: Exception) -> None:
        """What broke one JobMaster for good ends its job, not the process."""
        name = type(error).__name__
        if isinstance(error, STORE_ERRORS):
            text = f"the job's journal could not be read or written ({name}: {error})"
        else:
            text = f"firesteel's own JobMaster failed ({name}: {error}); please report it with the log"
        failure = FailureInfo(kind=FailureKind.NON_RECOVERABLE, message=text, exception=name)
        self.tell(r.JobMasterBroke(job_id, failure))


def admission(config: Configuration) -> Admission:
    """The cluster's limits on submissions."""
    queues: dict[str, int] = config.get_option(options.QUEUES)
    return Admission(queues=tuple(queues), unfinished_max=config.get_option(options.MAX_UNFINISHED_JOBS))
