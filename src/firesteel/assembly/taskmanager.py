"""A worker as a process of its own: `firesteel taskmanager`."""

import asyncio
import contextlib
import logging
import os
import platform
import shutil
import tempfile
import uuid
from pathlib import Path

from firesteel.adapters.blob.local import BlobSource, LocalBlobStore
from firesteel.adapters.blob.remote import TRIES_MAX_WITH_SUCCESSORS, RemoteBlobs
from firesteel.adapters.ha.registers import election_times, leader_register
from firesteel.adapters.inspection.desk import WorkerDesk
from firesteel.adapters.rpc.network import NetworkRpc, address_at
from firesteel.adapters.rpc.settings import network_settings
from firesteel.adapters.spark.worker.inheritance import DeadWorkers
from firesteel.adapters.spark.worker.workdirs import TEMPORARY, open_own
from firesteel.adapters.storage.resultsprobe import probe_results
from firesteel.adapters.storage.s3settings import hadoop_settings
from firesteel.assembly.measures import ProcessMeasures
from firesteel.assembly.processlog import process_log
from firesteel.assembly.worker import BackendFactory, Worker, spark_backend
from firesteel.model import options
from firesteel.model.ids import ResourceID
from firesteel.model.metrics import WORKER_PROCESS
from firesteel.model.options import Configuration
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.clock import SystemClock
from firesteel.runtime.ports import TaskBackend
from firesteel.runtime.register import LeaderRegister
from firesteel.runtime.retrieval import ANNOUNCER, RemoteLeaders

logger = logging.getLogger(__name__)


class TaskManager:
    """One worker process, which finds its master by the configuration. `failed` is set to what it can't go on from."""

    def __init__(self, config: Configuration, backend: BackendFactory | None = None) -> None:
        """Raises ConfigurationError."""
        self.config = _with_grace(config)
        name = config.get_option(options.TASKMANAGER_RESOURCE_ID) or f"{platform.node()}-{uuid.uuid4().hex[:8]}"
        self.resource_id = ResourceID(name)
        self.failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._make_backend = backend or self._spark_backend
        self._settings = network_settings(config, f"taskmanager {name}")
        self._rpc = NetworkRpc(self._settings, on_refused=self._fail)
        self._register = leader_register(config)
        self._tasks = BackgroundTasks()
        self._log, self._ends = contextlib.ExitStack(), contextlib.AsyncExitStack()
        self._is_temporary = not config.get_option(options.WORK_DIR)
        self._dead_workers: DeadWorkers | None = None

    def __str__(self) -> str:
        return f"taskmanager {self.resource_id}"

    async def start(self) -> None:
        """Look for the master, and offer slots once it is found.

        Raises what the backend's start raises (no Java, no disk space), or ResultsUnusable; nothing is left behind then.
        """
        self._work_dir = await asyncio.to_thread(self._open_work_dir)
        try:
            results = await asyncio.to_thread(probe_results, self.config, str(self), os.environ)
        except BaseException:
            await asyncio.to_thread(self._clean_up)
            raise
        self._measures = self._log.enter_context(
            ProcessMeasures(WORKER_PROCESS, self._rpc, lambda: self.worker.endpoint.mailbox_length)
        )
        self._log.enter_context(process_log(self._work_dir / "logs" / "taskmanager.log", self.config))
        logger.info("taskmanager %s in %s", self.resource_id, self._work_dir)
        host, port = self.config.get_option(options.JOBMANAGER_ADDRESS), self.config.get_option(options.JOBMANAGER_PORT)
        self._leaders = RemoteLeaders(self._rpc, self.resource_id, address_at(host, port, ANNOUNCER))
        cache = LocalBlobStore(self._work_dir / "blobs")
        blobs = self._blobs = RemoteBlobs(
            cache, (host, port), self._settings, self.config.get_option(options.BLOB_SIZE_MAX) << 20
        )
        backend = self._make_backend(self.config, self._work_dir, blobs)
        if self._dead_workers is not None:
            self._dead_workers.discard = backend.discard
        self.worker = Worker(
            self.resource_id,
            self.config,
            rpc=self._rpc,
            clock=SystemClock(),
            leaders=self._leaders,
            backend=backend,
            desk=WorkerDesk(self._work_dir, backend, blobs, storage=hadoop_settings(self.config, os.environ)),
            inheritance=self._dead_workers,
            results=results,
            registry=self._measures.registry,
            on_broken=self._fail,
        )
        self._leaders.start()
        try:
            await self._start_reporter()
            if self._register is not None:
                await self._register.open()
                self._blobs.tries_max = TRIES_MAX_WITH_SUCCESSORS
                self._tasks.start(self._follow(self._register), "follow the leader's register")
            await self.worker.start()
        except BaseException:
            await self._close()
            raise

    async def _start_reporter(self) -> None:
        """Loads what serves HTTP only where that is asked for."""
        if self.config.get_option(options.PROMETHEUS_PORT):
            from firesteel.rest.reporter import PrometheusReporter

            self.reporter = PrometheusReporter(self._measures.registry, self.config, self.resource_id)
            await self.reporter.start()
            self._ends.push_async_callback(self.reporter.stop)

    async def stop(self) -> None:
        """Say goodbye, and end everything that runs here."""
        async with contextlib.AsyncExitStack() as last_first:
            last_first.push_async_callback(self._close)
            last_first.push_async_callback(self.worker.end, "it is being stopped")

    async def _follow(self, register: LeaderRegister) -> None:
        """Turn to the master that leads: the one that is configured may be another, or gone."""
        retry_s, trouble = election_times(self.config).retry_ms / 1000, ""
        while True:
            try:
                leader = await register.newest()
            except OSError as error:
                if str(error) != trouble:
                    logger.warning("the register of the leader can't be read (%s)", error)
                trouble = str(error)
            else:
                trouble = ""
                if leader is not None:
                    self._blobs.server = (leader.record.host, leader.record.port)
                    self._leaders.ask_at(address_at(*self._blobs.server, ANNOUNCER))
            await register.changed(retry_s)

    async def _close(self) -> None:
        await self._tasks.close()
        await self._ends.aclose()
        if self._register is not None:
            await self._register.close()
        self._leaders.stop()
        await self._rpc.close()
        self._log.close()
        await asyncio.to_thread(self._clean_up)

    def _clean_up(self) -> None:
        """Delete own files; logs and stored results stay in a directory that the user named: others may read them."""
        own = [self._work_dir] if self._is_temporary else [self._work_dir / name for name in ("blobs", "artifacts")]
        for directory in own:
            shutil.rmtree(directory, ignore_errors=True)
        if self._dead_workers is not None:
            self._dead_workers.close()

    def _open_work_dir(self) -> Path:
        """Lock it, so that others see that this worker lives, and clear what an earlier process of its name has left."""
        if self._is_temporary:
            made, pattern = Path(tempfile.mkdtemp(prefix=TEMPORARY)), f"{TEMPORARY}*"
        else:
            made, pattern = Path(self.config.get_option(options.WORK_DIR)) / self.resource_id, "*"
        own = open_own(made, self.resource_id, _cluster(self.config))
        if own.path != made:
            logger.warning("another process has %s: worker %s is in %s", made, self.resource_id, own.path)
        own.clear_scratch()
        self._dead_workers = DeadWorkers(own, pattern, hadoop_settings(self.config, os.environ))
        return own.path

    def _spark_backend(self, config: Configuration, work_dir: Path, blobs: BlobSource) -> TaskBackend:
        ephemeral = work_dir if self._is_temporary else None
        return spark_backend(config, work_dir, blobs, ephemeral=ephemeral, has_peers=True)

    def _fail(self, error: Exception) -> None:
        if not self.failed.done():
            self.failed.set_result(error)


def _cluster(config: Configuration) -> str:
    """Tells this cluster from others on the host: by where its jobs are kept, or by its only master."""
    if config.get_option(options.HA_TYPE) == "none":
        return f"{config.get_option(options.JOBMANAGER_ADDRESS)}:{config.get_option(options.JOBMANAGER_PORT)}"
    return f"{config.get_option(options.HA_STORAGE_DIR)}#{config.get_option(options.CLUSTER_ID)}"


def _with_grace(config: Configuration) -> Configuration:
    """No other master takes over the jobs of one that keeps them in its memory: once it must have given this worker up,
    nobody asks for its attempts any more."""
    if config.get_option(options.HA_TYPE) != "none":
        return config
    given_up_ms = config.get_option(options.HEARTBEAT_TIMEOUT)
    return Configuration({options.MASTER_GRACE.key: f"{given_up_ms} ms", **config})
