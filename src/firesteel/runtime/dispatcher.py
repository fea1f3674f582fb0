"""The Dispatcher's endpoint: its store, its JobMasters, and the clients that wait."""

import logging
from collections.abc import Awaitable, Callable

from firesteel.core.dispatcher import requests as r
from firesteel.core.dispatcher.dispatcher import DispatcherCore, JobEntry
from firesteel.core.effects import Effect
from firesteel.core.jobmaster import JobMasterCore
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import Address, FencingToken, JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.messages import Leader
from firesteel.model.options import Configuration
from firesteel.model.views import JobView
from firesteel.runtime.endpoint import Endpoint
from firesteel.runtime.jobmaster import JobMasterEndpoint, job_master_settings, replay
from firesteel.runtime.leadership import LeaderRunner
from firesteel.runtime.services import Clock, JobStore, LeaderElection, Rpc, StaleLeader

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
        delete_blobs: Callable[[tuple[str, ...]], Awaitable[None]],
        on_broken: Callable[[Exception], None],
    ) -> None:
        super().__init__(core, rpc, clock, on_broken)
        self._config, self._election, self._store = config, election, store
        self._delete_blobs = delete_blobs
        self._runners: dict[JobID, LeaderRunner] = {}
        self._stopping: dict[JobID, Awaitable[None]] = {}

    @property
    def leader(self) -> Leader:
        assert self.core.token is not None, "a leader has a token"
        return Leader(self.core.address, self.core.token)

    async def stop(self) -> None:
        """Its JobMasters go with it: their jobs are suspended, until another Dispatcher takes them over."""
        for runner in list(self._runners.values()):
            await runner.stop()
        self._runners.clear()
        await super().stop()

    def view(self, job_id: JobID) -> JobView:
        """A known job as it is now. Raises UnknownJob."""
        if job_id not in self.core.jobs:
            raise r.UnknownJob(f"no job {job_id} is known here")
        return self._view_of(self.core.jobs[job_id])

    def views(self) -> list[JobView]:
        """Every known job, newest first."""
        return [self._view_of(job) for job in reversed(self.core.jobs.values())]

    def _view_of(self, job: JobEntry) -> JobView:
        runner = self._runners.get(job.job_id)
        if job.view is None and runner is not None and isinstance(runner.service, JobMasterEndpoint):
            return runner.service.core.view()
        return job.view or JobView(job_id=job.job_id, name=job.name, status=job.status, start_time_ms=job.since_ms)

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
                self.background(self._store.forget_result(effect.job_id, self.leader.token))
            case r.StartJobMaster():
                self._start_job_master(effect)
            case r.StopJobMaster():
                self._stop_job_master(effect.job_id)
            case _:
                super().perform(effect)

    async def _load(self) -> None:
        graphs, results = await self._store.load()
        self.tell(r.JobsLoaded(graphs, results))

    async def _store_graph(self, graph: JobGraph) -> None:
        try:
            await self._store.put_graph(graph, self.leader.token)
        except (StaleLeader, OSError) as error:
            self.tell(r.JobGraphStored(graph.job_id, f"the job could not be stored: {error}"))
        else:
            self.tell(r.JobGraphStored(graph.job_id))

    async def _store_result(self, effect: r.StoreJobResult) -> None:
        await self._store.put_result(effect.result, self.leader.token)
        self.tell(r.JobResultStored(effect.result.job_id))

    async def _clean_up(self, job_id: JobID) -> None:
        stopping = self._stopping.pop(job_id, None)
        if stopping is not None:
            await stopping
        await self._delete_blobs(await self._store.clean_up(job_id, self.leader.token))
        self.tell(r.JobCleanedUp(job_id))

    # ── JobMasters ───────────────────────────────────────────────────────────────────────────
    def _start_job_master(self, effect: r.StartJobMaster) -> None:
        graph = effect.graph

        async def start(token: FencingToken) -> JobMasterEndpoint:
            records = await self._store.claim_journal(graph.job_id, token)
            me = Leader(Address(f"jobmaster/{graph.job_id}@{token.epoch}"), token)
            state = replay(graph.job_id, records, self._config)
            core = JobMasterCore(graph, state, job_master_settings(self._config, graph), me, self.leader)
            core.doom = effect.failure
            endpoint = JobMasterEndpoint(
                core,
                self._rpc,
                self._clock,
                self._store,
                on_broken=lambda error: self._job_master_broke(graph.job_id, error),
            )
            endpoint.start()
            endpoint.follow(self._election)
            return endpoint

        previous = self._stopping.pop(graph.job_id, None)
        runner = self._runners[graph.job_id] = LeaderRunner(graph.job_id, self._election, start)
        if previous is None:
            runner.start()
        else:
            self.background(_start_after(previous, runner))

    def _stop_job_master(self, job_id: JobID) -> None:
        runner = self._runners.pop(job_id, None)
        if runner is not None:
            self._stopping[job_id] = self.background(runner.stop())

    def _job_master_broke(self, job_id: JobID, error: Exception) -> None:
        """A bug ends this job, not the process."""
        text = f"firesteel's own JobMaster failed ({type(error).__name__}: {error}); please report it with the log"
        failure = FailureInfo(kind=FailureKind.NON_RECOVERABLE, message=text, exception=type(error).__name__)
        self.tell(r.JobMasterBroke(job_id, failure))


async def _start_after(previous: Awaitable[None], runner: LeaderRunner) -> None:
    await previous
    runner.start()
