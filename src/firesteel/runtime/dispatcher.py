"""The Dispatcher's endpoint: its store, its JobMasters, and the clients that wait."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TypeVar

import msgspec

from firesteel.core.dispatcher import requests as r
from firesteel.core.dispatcher.admission import Admission
from firesteel.core.dispatcher.dispatcher import DispatcherCore, JobEntry, JobStage
from firesteel.core.effects import Effect
from firesteel.core.jobmaster import JobMasterCore
from firesteel.core.scheduler.view import subtask_views
from firesteel.model import options
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import FencingToken, JobID
from firesteel.model.jobgraph import JobGraph, JobType
from firesteel.model.messages import Leader
from firesteel.model.options import Configuration
from firesteel.model.views import JobSummary, JobView, SubtaskView, VertexView, summary_of
from firesteel.runtime.endpoint import Endpoint
from firesteel.runtime.jobmaster import JobMasterEndpoint, job_master_settings
from firesteel.runtime.leadership import LeaderRunner
from firesteel.runtime.services import Clock, JobStore, LeaderElection, Rpc, StaleLeader

STORE_RETRY_DELAY_S, STORE_RETRY_DELAY_MAX_S = 0.1, 5.0
"""Time between two tries at a store that fails: the first, doubled each time up to the second."""

STORE_ERRORS = (OSError, StaleLeader)
"""What a JobStore raises: it may pass, and is nobody's bug."""

DeleteBlobs = Callable[[tuple[str, ...], Callable[[], Collection[str]]], Awaitable[None]]
"""Deletes the first but for the second, which is asked when nothing can change any more."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


class DispatcherEndpoint(Endpoint):
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
        delete_blobs: DeleteBlobs,
        delete_output: Callable[[JobID], Awaitable[None]],
        on_broken: Callable[[Exception], None],
    ) -> None:
        super().__init__(core, rpc, clock, on_broken)
        self._config, self._election, self._store = config, election, store
        self._delete_blobs, self._delete_output = delete_blobs, delete_output
        self._runners: dict[JobID, LeaderRunner] = {}
        self._leaving: dict[JobID, list[LeaderRunner]] = {}
        """Runners that are being stopped: the next one of a job waits for them."""
        self.recovered = asyncio.Event()
        """Set once all stored jobs are known: before that, `view` does not know them."""

    @property
    def leader(self) -> Leader:
        assert self.core.token is not None, "a leader has a token"
        return Leader(self.core.address, self.core.token)

    async def stop(self) -> None:
        """Its JobMasters go with it: their jobs are suspended, until another Dispatcher takes them over."""
        self._halt()
        runners = [*self._runners.values(), *(runner for known in self._leaving.values() for runner in known)]
        await asyncio.gather(*(runner.stop() for runner in runners))
        await super().stop()

    def view(self, job_id: JobID) -> JobView:
        """A known job as it is now. Raises UnknownJob."""
        return self._view_of(self._known(job_id))

    def views(self) -> list[JobView]:
        """Every known job, newest first."""
        return [self._view_of(job) for job in reversed(self.core.jobs.values())]

    def summary(self, job_id: JobID) -> JobSummary:
        """A known job's line in an overview. Raises UnknownJob."""
        return self._summary_of(self._known(job_id))

    def summaries(self) -> list[JobSummary]:
        """A line for every known job, newest first."""
        return [self._summary_of(job) for job in reversed(self.core.jobs.values())]

    def subtasks(self, job_id: JobID, vertex: VertexView) -> tuple[SubtaskView, ...]:
        """The current or last attempts of a vertex's subtasks, as far as they are known. Raises UnknownJob."""
        job = self._known(job_id)
        regions = range(vertex.first_region, vertex.first_region + vertex.parallelism)
        core = self._job_master_core(job)
        if core is not None:
            return subtask_views(core.scheduler.graph, regions)
        archived = job.view.archived_subtasks[regions.start : regions.stop] if job.view is not None else ()
        return tuple(msgspec.structs.replace(each, subtask=index) for index, each in enumerate(archived))

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

    def _known(self, job_id: JobID) -> JobEntry:
        if job_id not in self.core.jobs:
            raise r.UnknownJob(f"no job {job_id} is known here")
        return self.core.jobs[job_id]

    def _job_master_core(self, job: JobEntry) -> JobMasterCore | None:
        """Of a job of which there is no archived view, while its JobMaster is up.

        But for one that only cleans up after a job that has ended, and has not read yet how.
        """
        runner = self._runners.get(job.job_id)
        if job.view is not None or runner is None or not isinstance(runner.service, JobMasterEndpoint):
            return None
        core = runner.service.core
        return core if job.result is None or core.scheduler.phase.status is job.result.status else None

    def _view_of(self, job: JobEntry) -> JobView:
        core = self._job_master_core(job)
        if core is not None:
            return core.view()
        return job.view or last_known_view(job)

    def _summary_of(self, job: JobEntry) -> JobSummary:
        core = self._job_master_core(job)
        if core is not None:
            return core.summary()
        return job.summary or summary_of(last_known_view(job))

    # ── effects ──────────────────────────────────────────────────────────────────────────────
    def perform(self, effect: Effect) -> None:
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
                self._start_job_master(effect)
            case r.StopJobMaster():
                self._stop_job_master(effect.job_id)
            case _:
                super().perform(effect)

    async def _load(self) -> None:
        graphs, results = await self._retried("reading the stored jobs", lambda: self._store.load(self.leader.token))
        self.tell(r.JobsLoaded(graphs, results))
        await self.catch_up()
        self.recovered.set()

    async def _store_graph(self, graph: JobGraph) -> None:
        """What a failing store has of it is not known: whoever asks again, under the same id, will know."""
        try:
            await self._store.put_graph(graph, self.leader.token)
        except OSError as error:
            text = f"the job may be stored or not, so submit it again under the same id ({error})"
            self.tell(r.JobGraphStored(graph.job_id, text))
        else:
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
        graph, what = self.core.jobs[job_id].graph, f"cleaning up job {job_id}"
        blobs = [artifact.sha256 for artifact in graph.artifacts] if graph is not None else []
        await self._retried(what, lambda: self.delete_unused_blobs(blobs))
        await self._retried(what, lambda: self._store.clean_up(job_id, self.leader.token))
        self.tell(r.JobCleanedUp(job_id))

    async def _forget(self, effect: r.ForgetResult) -> None:
        """Blobs first: who comes after a crash in between finds the result and does it again."""
        what = f"forgetting job {effect.job_id}"
        await self._retried(what, lambda: self.delete_unused_blobs(effect.blobs))
        await self._retried(what, lambda: self._delete_output(effect.job_id))
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
    def _start_job_master(self, effect: r.StartJobMaster) -> None:
        job_id = effect.graph.job_id

        async def start(token: FencingToken) -> JobMasterEndpoint:
            return await self._job_master(effect, token, runner.fail)

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
    ) -> JobMasterEndpoint:
        """A JobMaster's session, from the job's journal."""
        graph = effect.graph
        state = await self._store.claim_journal(graph.job_id, token)
        me = Leader(self._rpc.address(f"jobmaster/{graph.job_id}@{token.epoch}"), token)
        core = JobMasterCore(graph, state, job_master_settings(self._config, graph), me, self.leader)
        core.doom = effect.failure
        endpoint = JobMasterEndpoint(core, self._rpc, self._clock, self._store, on_broken=on_broken)
        endpoint.start()
        endpoint.follow(self._election)
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


def last_known_view(job: JobEntry) -> JobView:
    """A job of which no JobMaster tells: one that starts, changes hands, or ended under a former leader."""
    result = job.result
    return JobView(
        job_id=job.job_id,
        name=job.name,
        status=job.status,
        start_time_ms=job.since_ms,
        end_time_ms=result.end_time_ms if result is not None else -1,
        timestamps_ms={job.status.value: result.end_time_ms} if result is not None else {},
        restarts=result.restarts if result is not None else 0,
        job_type=job.graph.job_type if job.graph is not None else JobType.BATCH,
        owner=job.graph.owner if job.graph is not None else "",
    )


def admission(config: Configuration) -> Admission:
    """The cluster's limits on submissions."""
    queues: dict[str, int] = config.get_option(options.QUEUES)
    return Admission(queues=tuple(queues), unfinished_max=config.get_option(options.MAX_UNFINISHED_JOBS))
