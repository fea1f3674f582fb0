"""MiniCluster: master and workers in one Python process, with in-process RPC and a real Spark JVM.

The third wiring of the same endpoints, beside real processes and the simulator. `firesteel run`
without a master uses it, and tests do, with hooks to end workers and to change leaders.
"""

import asyncio
import contextlib
import shutil
import tempfile
import uuid
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from firesteel.adapters.blob.local import LocalBlobStore
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
from firesteel.runtime.clock import SystemClock
from firesteel.runtime.dispatcher import DispatcherEndpoint
from firesteel.runtime.endpoint import Endpoint, EndpointStopped
from firesteel.runtime.leadership import LeaderRunner
from firesteel.runtime.ports import TaskBackend
from firesteel.runtime.resourcemanager import ResourceManagerEndpoint, resource_manager_settings
from firesteel.runtime.taskexecutor import TaskExecutorEndpoint, task_executor_settings

RESULTS_MAX = 1_000
"""Ended jobs a mini cluster remembers."""

LEADER_TRIES_MAX, LEADER_RETRY_S = 600, 0.01
"""How long a client of the mini cluster waits for a leader."""

E = TypeVar("E", bound=Endpoint)

BackendFactory = Callable[[Configuration, Path, LocalBlobStore], TaskBackend]


class NoLeader(ConnectionError):
    """Nobody leads the component that was asked; it may in a moment."""


class MiniCluster:
    """`async with MiniCluster(Configuration()) as cluster: await cluster.client.submit_job(...)`.

    `backend` makes each worker's TaskBackend; a real Spark by default.
    """

    def __init__(
        self,
        config: Configuration | None = None,
        *,
        workers: int = 1,
        backend: BackendFactory | None = None,
    ) -> None:
        self.config = config or Configuration()
        self.election = EmbeddedLeaderElection("minicluster")
        self.store = InMemoryJobStore()
        self.rpc = InProcessRpc()
        self.client = MiniClusterClient(self)
        self.workers: dict[ResourceID, TaskExecutorEndpoint] = {}
        self._backends: dict[ResourceID, TaskBackend] = {}
        self._make_backend = backend or _spark_backend
        self._initial_workers = workers
        self._clock = SystemClock()
        self._work_dir, self._owns_work_dir = _work_dir(self.config)
        self.blobs = LocalBlobStore(self._work_dir / "blobs")
        self._runners: dict[str, LeaderRunner] = {}

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Bring everything up. Spark goes on starting in the background; attempts wait for it."""
        try:
            for _ in range(self._initial_workers):
                await self.start_task_executor()
            self._runners[RESOURCE_MANAGER] = LeaderRunner(RESOURCE_MANAGER, self.election, self._resource_manager)
            self._runners[DISPATCHER] = LeaderRunner(DISPATCHER, self.election, self._dispatcher)
            for runner in self._runners.values():
                runner.start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End everything, in the order master, workers, Spark; delete what this cluster wrote for itself."""
        limit = self.config.get_option(options.SHUTDOWN_TIMEOUT) / 1000
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                for name in (DISPATCHER, RESOURCE_MANAGER):
                    if name in self._runners:
                        await self._runners.pop(name).stop()
                await asyncio.gather(*(worker.shut_down("the cluster stops") for worker in self.workers.values()))
        self.workers.clear()
        await asyncio.gather(*(backend.close() for backend in self._backends.values()))
        self._backends.clear()
        if self._owns_work_dir:
            await asyncio.to_thread(shutil.rmtree, self._work_dir, ignore_errors=True)

    # ── hooks ────────────────────────────────────────────────────────────────────────────────
    async def start_task_executor(self) -> ResourceID:
        """Start one more worker."""
        resource_id = ResourceID(f"worker-{uuid.uuid4().hex[:8]}")
        backend = self._make_backend(self.config, self._work_dir / resource_id, self.blobs)
        self._backends[resource_id] = backend
        core = TaskExecutorCore(resource_id, task_executor_settings(self.config), Address(resource_id))
        worker = TaskExecutorEndpoint(
            core, self.rpc, self._clock, leaders=self.election, backend=backend, on_broken=lambda error: None
        )
        self.workers[resource_id] = worker
        await backend.start()
        worker.start()
        return resource_id

    async def terminate_task_executor(self, resource_id: ResourceID) -> None:
        """End a worker without a goodbye, and its Spark with it."""
        await self.workers.pop(resource_id).stop()
        await self._backends.pop(resource_id).close()

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
        """The leading ResourceManager. Raises NoLeader."""
        service = self._runners[RESOURCE_MANAGER].service if RESOURCE_MANAGER in self._runners else None
        if not isinstance(service, ResourceManagerEndpoint):
            raise NoLeader("no ResourceManager leads at the moment")
        return service

    def dispatcher(self) -> DispatcherEndpoint:
        """The leading Dispatcher. Raises NoLeader."""
        service = self._runners[DISPATCHER].service if DISPATCHER in self._runners else None
        if not isinstance(service, DispatcherEndpoint):
            raise NoLeader("no Dispatcher leads at the moment")
        return service

    # ── services ─────────────────────────────────────────────────────────────────────────────
    async def _resource_manager(self, token: FencingToken) -> ResourceManagerEndpoint:
        me = Leader(Address(f"resourcemanager@{token.epoch}"), token)
        core = ResourceManagerCore(resource_manager_settings(self.config), me)
        return _started(
            ResourceManagerEndpoint(core, self.rpc, self._clock, lambda error: self._again(RESOURCE_MANAGER))
        )

    async def _dispatcher(self, token: FencingToken) -> DispatcherEndpoint:
        me = Leader(Address(f"dispatcher@{token.epoch}"), token)
        endpoint = DispatcherEndpoint(
            DispatcherCore(me, RESULTS_MAX),
            self.rpc,
            self._clock,
            config=self.config,
            election=self.election,
            store=self.store,
            delete_blobs=self._delete_blobs,
            on_broken=lambda error: self._again(DISPATCHER),
        )
        return _started(endpoint)

    def _again(self, component: str) -> None:
        """A component broke: its next session starts from what is stored."""
        self.election.grant(component)

    async def _delete_blobs(self, names: tuple[str, ...]) -> None:
        for name in names:
            await asyncio.to_thread(self.blobs.delete, name)


class MiniClusterClient:
    """A runtime.client.ClusterClient for the cluster in this process."""

    def __init__(self, cluster: MiniCluster) -> None:
        self._cluster = cluster

    async def submit_job(self, graph: JobGraph, artifacts: Mapping[str, Path]) -> JobID:
        missing = [artifact.name for artifact in graph.artifacts if artifact.sha256 not in artifacts]
        if missing:
            raise InvalidJobGraph(f"artifacts are missing: {', '.join(missing)}")
        Topology(graph)
        for artifact in graph.artifacts:
            await asyncio.to_thread(self._cluster.blobs.put, artifacts[artifact.sha256], artifact.sha256)
        answer: JobID = await self._ask(r.SubmitJob(graph))
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
        workers = self._cluster.resource_manager().task_managers()
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
        """The leading Dispatcher, waiting a while for one. Raises NoLeader."""
        for _ in range(LEADER_TRIES_MAX):
            with contextlib.suppress(NoLeader):
                return self._cluster.dispatcher()
            await asyncio.sleep(LEADER_RETRY_S)
        return self._cluster.dispatcher()

    async def _ask(self, request: r.Request) -> Any:
        """Ask the leading Dispatcher; a request it could not answer before it went is asked of the next."""
        while True:
            dispatcher = await self._dispatcher()
            try:
                return await dispatcher.ask(request)
            except EndpointStopped:
                await asyncio.sleep(LEADER_RETRY_S)


def _started(endpoint: E) -> E:
    endpoint.start()
    return endpoint


def _work_dir(config: Configuration) -> tuple[Path, bool]:
    """The directory to work in, and whether it is ours to delete."""
    configured = config.get_option(options.WORK_DIR)
    if configured:
        Path(configured).mkdir(parents=True, exist_ok=True)
        return Path(configured), False
    return Path(tempfile.mkdtemp(prefix="firesteel-")), True


def _spark_backend(config: Configuration, work_dir: Path, blobs: LocalBlobStore) -> TaskBackend:
    from firesteel.adapters.spark.backend import SparkTaskBackend

    return SparkTaskBackend(config, work_dir, blobs)
