"""MiniCluster: master and workers in one Python process, with in-process RPC and a real Spark JVM.

The third wiring of the same endpoints, beside real processes and the simulator. `firesteel run`
without a master uses it, and tests do, with hooks to end workers and to change leaders.
"""

import asyncio
import contextlib
import logging
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.blob.uploads import BlobUploads
from firesteel.adapters.ha.embedded import EmbeddedLeaderElection, InMemoryJobStore
from firesteel.adapters.rpc.inproc import InProcessRpc
from firesteel.core.dispatcher import requests as r
from firesteel.core.dispatcher.dispatcher import DispatcherCore
from firesteel.core.effects import DISPATCHER, RESOURCE_MANAGER
from firesteel.core.execution.topology import Topology
from firesteel.core.resourcemanager import ResourceManagerCore
from firesteel.core.taskexecutor import TaskExecutorCore
from firesteel.model import options
from firesteel.model.ids import Address, FencingToken, JobID, ResourceID
from firesteel.model.jobgraph import InvalidJobGraph, JobGraph
from firesteel.model.messages import Leader
from firesteel.model.options import Configuration
from firesteel.model.views import ClusterOverview, JobResult, JobView
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.clock import SystemClock
from firesteel.runtime.dispatcher import DispatcherEndpoint
from firesteel.runtime.endpoint import Endpoint, EndpointStopped
from firesteel.runtime.leadership import LeaderRunner, Service
from firesteel.runtime.ports import TaskBackend
from firesteel.runtime.resourcemanager import ResourceManagerEndpoint, resource_manager_settings
from firesteel.runtime.services import Clock, JobStore
from firesteel.runtime.taskexecutor import TaskExecutorEndpoint, task_executor_settings

RESULTS_MAX = 1_000
"""Ended jobs a mini cluster remembers."""

LEADER_WAIT_S, LEADER_RETRY_S = 60.0, 0.01
"""How long a client of the mini cluster waits for a leader, and how often it looks."""

WORKER_RESTARTS_MAX = 3
"""Workers that broke a mini cluster replaces; it goes on without later ones."""

E = TypeVar("E", bound=Endpoint)

BackendFactory = Callable[[Configuration, Path, LocalBlobStore], TaskBackend]

logger = logging.getLogger(__name__)


class NoLeader(ConnectionError):
    """Nobody leads the component that was asked; it may in a moment."""


class ClusterLost(ConnectionError):
    """Our bug, or a lost store: a component has failed too often and will not be started again."""


class AssertionsDisabled(RuntimeError):
    """The caller's fault: Python was told to drop the assertions that guard the cluster's invariants."""

    def __init__(self) -> None:
        super().__init__("firesteel checks itself with assertions: run Python without -O and PYTHONOPTIMIZE")


class MiniCluster:
    """`async with MiniCluster(Configuration()) as cluster: await cluster.client.submit_job(...)`.

    `backend` makes each worker's TaskBackend, a real Spark by default; the clock is the machine's and
    the store in memory. Raises AssertionsDisabled under `python -O`.
    """

    def __init__(
        self,
        config: Configuration | None = None,
        *,
        workers: int = 1,
        backend: BackendFactory | None = None,
        clock: Clock | None = None,
        store: JobStore | None = None,
    ) -> None:
        if not __debug__:
            raise AssertionsDisabled
        self.config = config or Configuration()
        self.election = EmbeddedLeaderElection("minicluster")
        self.store: JobStore = store or InMemoryJobStore()
        self.rpc = InProcessRpc()
        self.client = MiniClusterClient(self)
        self.workers: dict[ResourceID, TaskExecutorEndpoint] = {}
        self._backends: dict[ResourceID, TaskBackend] = {}
        self._make_backend = backend or _spark_backend
        self._initial_workers = workers
        self._worker_restarts = 0
        self._clock = clock or SystemClock()
        self._configured_dir = self.config.get_option(options.WORK_DIR)
        self._runners: dict[str, LeaderRunner] = {}
        self._lost: dict[str, Exception] = {}
        self._tasks = BackgroundTasks(lambda error: logger.error("a worker was not replaced", exc_info=error))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Bring everything up. Spark goes on starting in the background; attempts wait for it.

        Raises what a backend's start raises (no Java, no disk space); nothing is left behind then.
        """
        try:
            await asyncio.to_thread(self._open_work_dir)
            for _ in range(self._initial_workers):
                await self.start_task_executor()
            for component, serve in ((RESOURCE_MANAGER, self._resource_manager), (DISPATCHER, self._dispatcher)):
                self._contend(component, serve)
        except BaseException:
            await self.close()
            raise

    def _open_work_dir(self) -> None:
        self._work_dir = Path(self._configured_dir or tempfile.mkdtemp(prefix="firesteel-"))
        self.blobs = LocalBlobStore(self._work_dir / "blobs")
        self.uploads = BlobUploads(self.blobs)

    @property
    def work_dir(self) -> Path:
        """Where the cluster keeps its files, once it is started."""
        return self._work_dir

    def _delete_work_dir(self) -> None:
        """A directory that the user named stays."""
        if not self._configured_dir and hasattr(self, "_work_dir"):
            shutil.rmtree(self._work_dir, ignore_errors=True)

    async def close(self) -> None:
        """End everything, in the order master, workers, Spark; delete what this cluster wrote for itself.

        Each step is done whatever became of those before it.
        """
        async with contextlib.AsyncExitStack() as last_first:
            last_first.push_async_callback(asyncio.to_thread, self._delete_work_dir)
            last_first.push_async_callback(self._end_workers)
            last_first.push_async_callback(self._stop_masters)

    async def _stop_masters(self) -> None:
        self._tasks.cancel()
        await self._tasks.join()
        async with self._limited("the masters"):
            for component in (DISPATCHER, RESOURCE_MANAGER):
                if component in self._runners:
                    await self._runners[component].stop()
        self._runners.clear()

    async def _end_workers(self) -> None:
        ends = (self._end_worker(name, "the cluster stops") for name in tuple(self.workers))
        for error in await asyncio.gather(*ends, return_exceptions=True):
            if isinstance(error, BaseException):
                raise error

    async def _end_worker(self, resource_id: ResourceID, goodbye: str = "") -> None:
        """Its attempts end with it; those that do not within the limit do when their backend has gone."""
        worker, backend = self.workers[resource_id], self._backends[resource_id]
        async with self._limited(resource_id):
            await (worker.shut_down(goodbye) if goodbye else worker.stop())
        await backend.close()
        await worker.stop()
        del self.workers[resource_id], self._backends[resource_id]

    @contextlib.asynccontextmanager
    async def _limited(self, what: str) -> AsyncIterator[None]:
        limit_ms = self.config.get_option(options.SHUTDOWN_TIMEOUT)
        try:
            async with asyncio.timeout(limit_ms / 1000):
                yield
        except TimeoutError:
            logger.warning("stopping %s takes more than %d ms: ending what is left", what, limit_ms)

    # ── hooks ────────────────────────────────────────────────────────────────────────────────
    async def start_task_executor(self) -> ResourceID:
        """Start one more worker."""
        resource_id = ResourceID(f"worker-{uuid.uuid4().hex[:8]}")
        backend = self._make_backend(self.config, self._work_dir / resource_id, self.blobs)
        core = TaskExecutorCore(resource_id, task_executor_settings(self.config), Address(resource_id))
        worker = TaskExecutorEndpoint(
            core,
            self.rpc,
            self._clock,
            leaders=self.election,
            backend=backend,
            on_broken=lambda error: self._worker_broke(resource_id),
        )
        try:
            await backend.start()
        except BaseException:
            await backend.close()
            raise
        self._backends[resource_id], self.workers[resource_id] = backend, worker
        worker.start()
        return resource_id

    async def terminate_task_executor(self, resource_id: ResourceID) -> None:
        """End a worker without a goodbye, and its Spark with it."""
        await self._end_worker(resource_id)

    def revoke_leadership(self, component: str) -> None:
        """Take leadership of `dispatcher`, `resource_manager` or a job (by its id) away."""
        self.election.revoke(component)

    def grant_leadership(self, component: str) -> None:
        self.election.grant(component)

    async def call(self, entry_point: str, payload: bytes) -> bytes:
        """Run `module:function(bytes) -> bytes` in a process of the first worker that has PySpark loaded."""
        backend = next(iter(self._backends.values()))
        call: Callable[[str, bytes], Awaitable[bytes]] = backend.call  # type: ignore[attr-defined]
        return await call(entry_point, payload)

    def resource_manager(self) -> ResourceManagerEndpoint:
        """The leading ResourceManager. Raises NoLeader, or ClusterLost."""
        service = self._service(RESOURCE_MANAGER)
        assert isinstance(service, ResourceManagerEndpoint), "its runner runs nothing else"
        return service

    def dispatcher(self) -> DispatcherEndpoint:
        """The leading Dispatcher. Raises NoLeader, or ClusterLost."""
        service = self._service(DISPATCHER)
        assert isinstance(service, DispatcherEndpoint), "its runner runs nothing else"
        return service

    # ── services ─────────────────────────────────────────────────────────────────────────────
    def _service(self, component: str) -> Service:
        if component in self._lost:
            error = self._lost[component]
            raise ClusterLost(f"the {component} has failed for good: {type(error).__name__}: {error}") from error
        service = self._runners[component].service if component in self._runners else None
        if service is None:
            raise NoLeader(f"no {component} leads at the moment")
        return service

    def _contend(self, component: str, serve: Callable[[FencingToken], Awaitable[Service]]) -> None:
        def lost(error: Exception) -> None:
            self._lost[component] = error

        runner = self._runners[component] = LeaderRunner(component, self.election, serve, on_lost=lost)
        runner.start()

    async def _resource_manager(self, token: FencingToken) -> ResourceManagerEndpoint:
        me = Leader(Address(f"resourcemanager@{token.epoch}"), token)
        core = ResourceManagerCore(resource_manager_settings(self.config), me)
        endpoint = ResourceManagerEndpoint(core, self.rpc, self._clock, self._runners[RESOURCE_MANAGER].fail)
        endpoint.start()
        return endpoint

    async def _dispatcher(self, token: FencingToken) -> DispatcherEndpoint:
        me = Leader(Address(f"dispatcher@{token.epoch}"), token)
        endpoint = DispatcherEndpoint(
            DispatcherCore(me, RESULTS_MAX),
            self.rpc,
            self._clock,
            config=self.config,
            election=self.election,
            store=self.store,
            delete_blobs=self.uploads.delete_unused,
            on_broken=self._runners[DISPATCHER].fail,
        )
        endpoint.start()
        try:
            await endpoint.recovered.wait()
        except BaseException:
            await endpoint.stop()
            raise
        return endpoint

    def _worker_broke(self, resource_id: ResourceID) -> None:
        """Its jobs go elsewhere; here another one takes its place."""
        if self._worker_restarts < WORKER_RESTARTS_MAX:
            self._worker_restarts += 1
            self._tasks.start(self._replace(resource_id), f"replace {resource_id}")

    async def _replace(self, resource_id: ResourceID) -> None:
        await self.terminate_task_executor(resource_id)
        await self.start_task_executor()


class MiniClusterClient:
    """A runtime.client.ClusterClient for the cluster in this process."""

    def __init__(self, cluster: MiniCluster) -> None:
        self._cluster = cluster

    async def submit_job(self, graph: JobGraph, artifacts: Mapping[str, Path]) -> JobID:
        missing = [artifact.name for artifact in graph.artifacts if artifact.sha256 not in artifacts]
        if missing:
            raise InvalidJobGraph(f"artifacts are missing: {', '.join(missing)}")
        Topology(graph)
        files = {artifact.sha256: artifacts[artifact.sha256] for artifact in graph.artifacts}
        async with self._cluster.uploads.put(files):
            return await self._submit(graph)

    async def _submit(self, graph: JobGraph) -> JobID:
        """A Dispatcher that stopped before its answer may have stored the job: then its successor has it."""
        dispatcher = await self._dispatcher()
        with contextlib.suppress(EndpointStopped):
            answer: JobID = await dispatcher.ask(r.SubmitJob(graph))
            return answer
        try:
            answer = await self._ask(r.SubmitJob(graph))
        except r.DuplicateJob:
            return graph.job_id
        return answer

    async def request_job(self, job_id: JobID) -> JobView:
        return (await self._dispatcher()).view(job_id)

    async def list_jobs(self) -> list[JobView]:
        return (await self._dispatcher()).views()

    async def request_job_result(self, job_id: JobID) -> JobResult:
        answer: JobResult = await self._ask(r.AwaitJobResult(job_id))
        return answer

    async def cancel_job(self, job_id: JobID) -> None:
        await self._ask(r.CancelJobRequest(job_id))

    async def request_cluster_overview(self) -> ClusterOverview:
        workers = (await self._leading(self._cluster.resource_manager)).task_managers()
        jobs: dict[str, int] = {}
        for view in (await self._dispatcher()).views():
            jobs[view.status.value] = jobs.get(view.status.value, 0) + 1
        return ClusterOverview(
            task_managers=len(workers),
            slots_total=sum(worker.slots for worker in workers),
            slots_free=sum(worker.free_slots for worker in workers),
            jobs=jobs,
        )

    async def _dispatcher(self) -> DispatcherEndpoint:
        return await self._leading(self._cluster.dispatcher)

    async def _leading(self, find: Callable[[], E]) -> E:
        """The leader that `find` finds, waiting a while for one. Raises NoLeader, or ClusterLost."""
        until_s = asyncio.get_running_loop().time() + LEADER_WAIT_S
        while asyncio.get_running_loop().time() < until_s:
            with contextlib.suppress(NoLeader):
                return find()
            await asyncio.sleep(LEADER_RETRY_S)
        return find()

    async def _ask(self, request: r.Request) -> Any:
        """Ask the leading Dispatcher; a request it could not answer before it went is asked of the next."""
        while True:
            dispatcher = await self._dispatcher()
            try:
                return await dispatcher.ask(request)
            except EndpointStopped:
                await asyncio.sleep(LEADER_RETRY_S)


def _spark_backend(config: Configuration, work_dir: Path, blobs: LocalBlobStore) -> TaskBackend:
    from firesteel.adapters.spark.backend import SparkTaskBackend

    ephemeral = None if config.get_option(options.WORK_DIR) else work_dir.parent
    return SparkTaskBackend(config, work_dir, blobs, ephemeral=ephemeral)
