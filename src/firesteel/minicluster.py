"""MiniCluster: master and workers in one Python process, with in-process RPC and a real Spark JVM.

The third wiring of the same endpoints, beside real processes and the simulator. `firesteel run`
without a master uses it, and tests do, with hooks to end workers and to change leaders.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from firesteel.adapters.blob.local import BlobSource, LocalBlobStore
from firesteel.adapters.blob.uploads import BlobUploads
from firesteel.adapters.ha.embedded import EmbeddedLeaderElection, InMemoryJobStore
from firesteel.adapters.ha.jobarchive import MemoryJobArchive
from firesteel.adapters.inspection.desk import WorkerDesk
from firesteel.adapters.notifications.notifier import Notifier
from firesteel.adapters.rpc.inproc import InProcessRpc
from firesteel.adapters.spark.jvm.supervisor import EMBEDDED_MARK
from firesteel.adapters.storage.resultsprobe import probe_results
from firesteel.adapters.storage.s3settings import hadoop_settings
from firesteel.assembly.client import MasterClient
from firesteel.assembly.history import configured_history
from firesteel.assembly.master import Master
from firesteel.assembly.worker import BackendFactory, Worker, limited, spark_backend
from firesteel.core.scheduler.backoff import restart_strategy
from firesteel.model import options
from firesteel.model.ids import ResourceID
from firesteel.model.options import Configuration
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.clock import SystemClock
from firesteel.runtime.dispatcher import DispatcherEndpoint
from firesteel.runtime.metrics import MetricRegistry
from firesteel.runtime.ports import TaskBackend
from firesteel.runtime.registration import registration_timeouts
from firesteel.runtime.resourcemanager import ResourceManagerEndpoint
from firesteel.runtime.services import Clock, JobStore

WORKER_RESTARTS_MAX = 3
"""Workers that broke a mini cluster replaces; it goes on without later ones."""

logger = logging.getLogger(__name__)


class AssertionsDisabled(RuntimeError):
    """The caller's fault: Python was told to drop the assertions that guard the cluster's invariants."""

    def __init__(self) -> None:
        super().__init__("firesteel checks itself with assertions: run Python without -O and PYTHONOPTIMIZE")


class MiniCluster:
    """`async with MiniCluster(Configuration()) as cluster: await cluster.client.submit_job(...)`.

    `backend` makes each worker's TaskBackend, a real Spark by default; the clock is the machine's and
    the store in memory. Raises AssertionsDisabled under `python -O`.
    """

    goodbye = "closing the cluster"

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
        # It has a job at once, or is a test's.
        defaults = {options.RESOURCE_START_UP_TIME.key: "0", options.SPARK_WARM_UP.key: "false"}
        self.config = Configuration({**defaults, **(config or {})})
        restart_strategy(self.config, {})  # What does not fit together is refused before anything starts.
        registration_timeouts(self.config)
        self.election = EmbeddedLeaderElection("minicluster")
        self.store: JobStore = store or InMemoryJobStore()
        self.rpc = InProcessRpc()
        self.workers: dict[ResourceID, Worker] = {}
        self._make_backend = backend or self._spark_backend
        self._initial_workers = workers
        self._worker_restarts = 0
        self._clock = clock or SystemClock()
        self._notifier = Notifier(self.config, self._clock)
        self._configured_dir = self.config.get_option(options.WORK_DIR)
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
            if self.config.get_option(options.RESULTS_DIR):
                await asyncio.to_thread(probe_results, self.config, "this cluster", os.environ)
            await asyncio.to_thread(self._open_work_dir)
            for _ in range(self._initial_workers):
                await self.start_task_executor()
            self._open_master()
        except BaseException:
            await self.close()
            raise

    def _open_work_dir(self) -> None:
        self._work_dir = Path(self._configured_dir or tempfile.mkdtemp(prefix="firesteel-"))
        if not self._configured_dir:
            (self._work_dir / EMBEDDED_MARK).touch()
        self.blobs = LocalBlobStore(self._work_dir / "blobs")

    def _open_master(self) -> None:
        self._notifier.start()
        self._history = configured_history(self.config, self._clock, self._work_dir)
        self.master = Master(
            self.config,
            rpc=self.rpc,
            clock=self._clock,
            election=self.election,
            store=self.store,
            archive=MemoryJobArchive(),
            history=self._history,
            announce_status=self._notifier.job_status_changed,
            announce_archived=self._notifier.job_archived,
            uploads=BlobUploads(
                self.blobs,
                self.config.get_option(options.BLOB_FREE_MIN) << 20,
                self.config.get_option(options.BLOB_STORAGE_MAX) << 20,
            ),
        )
        self.client = MasterClient(self.master)
        self.master.start()

    @property
    def work_dir(self) -> Path:
        """Directory for the cluster's files, once it is started."""
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
            last_first.push_async_callback(self._stop_master)

    async def _stop_master(self) -> None:
        self._tasks.cancel()
        await self._tasks.join()
        if hasattr(self, "master"):
            async with limited(self.config, "the master"):
                await self.master.settle()
                await self.master.stop()
            self._history.close()
        await self._notifier.close()

    async def _end_workers(self) -> None:
        ends = (self._end_worker(name, "the cluster stops") for name in tuple(self.workers))
        for error in await asyncio.gather(*ends, return_exceptions=True):
            if isinstance(error, BaseException):
                raise error

    async def _end_worker(self, resource_id: ResourceID, goodbye: str = "") -> None:
        await self.workers[resource_id].end(goodbye)
        del self.workers[resource_id]

    # ── hooks ────────────────────────────────────────────────────────────────────────────────
    async def start_task_executor(self, options: Mapping[str, str] | None = None) -> ResourceID:
        """Start one more worker, with these options on top of the cluster's."""
        config = self.config.merged(options or {})
        resource_id = ResourceID(f"worker-{uuid.uuid4().hex[:8]}")
        work_dir = self._work_dir / resource_id
        backend = self._make_backend(config, work_dir, self.blobs)
        worker = Worker(
            resource_id,
            config,
            rpc=self.rpc,
            clock=self._clock,
            leaders=self.election,
            backend=backend,
            desk=WorkerDesk(work_dir, backend, self.blobs, storage=hadoop_settings(config, os.environ)),
            registry=MetricRegistry(),
            on_broken=lambda error: self._worker_broke(resource_id),
        )
        await worker.start()
        self.workers[resource_id] = worker
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
        return await next(iter(self.workers.values())).backend.call(entry_point, payload)

    def resource_manager(self) -> ResourceManagerEndpoint:
        """The leading ResourceManager. Raises NoLeader, or ClusterLost."""
        return self.master.resource_manager()

    def dispatcher(self) -> DispatcherEndpoint:
        """The leading Dispatcher. Raises NoLeader, or ClusterLost."""
        return self.master.dispatcher()

    # ── workers ──────────────────────────────────────────────────────────────────────────────
    def _spark_backend(self, config: Configuration, work_dir: Path, blobs: BlobSource) -> TaskBackend:
        return spark_backend(config, work_dir, blobs, ephemeral=None if self._configured_dir else self._work_dir)

    def _worker_broke(self, resource_id: ResourceID) -> None:
        """A worker broke: its jobs go elsewhere; here another one takes its place."""
        if self._worker_restarts < WORKER_RESTARTS_MAX:
            self._worker_restarts += 1
            self._tasks.start(self._replace(resource_id), f"replace {resource_id}")

    async def _replace(self, resource_id: ResourceID) -> None:
        await self.terminate_task_executor(resource_id)
        await self.start_task_executor()
