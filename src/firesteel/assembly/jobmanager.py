"""The master as a process of its own: `firesteel jobmanager`."""

import asyncio
import contextlib
import os
import platform
from collections.abc import Callable
from pathlib import Path

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.blob.server import BLOBS, BlobServer
from firesteel.adapters.blob.uploads import BlobUploads
from firesteel.adapters.ha.election import RegisterElection
from firesteel.adapters.ha.jobarchive import FileJobArchive, MemoryJobArchive
from firesteel.adapters.ha.registers import leader_register
from firesteel.adapters.ha.storage import configured_storage
from firesteel.adapters.ha.vigil import VIGIL, Company
from firesteel.adapters.notifications.notifier import Notifier
from firesteel.adapters.rpc.channel import MESSAGES
from firesteel.adapters.rpc.network import NetworkRpc
from firesteel.adapters.rpc.server import PeerServer
from firesteel.adapters.rpc.settings import network_settings
from firesteel.adapters.storage.temporary import temporary_directory
from firesteel.assembly.client import MasterClient
from firesteel.assembly.highavailability import open_high_availability, storage_named
from firesteel.assembly.history import configured_history
from firesteel.assembly.master import Master
from firesteel.assembly.measures import ProcessMeasures
from firesteel.assembly.processlog import process_log
from firesteel.assembly.worker import limited
from firesteel.model import options
from firesteel.model.metrics import MASTER_PROCESS
from firesteel.model.options import Configuration
from firesteel.pipeline.graph import current_environment
from firesteel.rest.server import serve_rest
from firesteel.runtime.admission import admission
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.clock import SystemClock
from firesteel.runtime.journalmeter import MeteredJobStore
from firesteel.runtime.retrieval import LeaderAnnouncer
from firesteel.runtime.services import JobArchive


class JobManager:
    """One master process, on the network. `failed` is set to what it can't go on from."""

    def __init__(self, config: Configuration, *, shut_down: Callable[[], None] | None = None) -> None:
        """Raises ConfigurationError. `shut_down` is to stop this process, for clients who may ask for it."""
        admission(config)  # what is wrong there is told now, and not when this master leads
        self.config, self._shut_down = config, shut_down
        self.host, self.port = config.get_option(options.JOBMANAGER_ADDRESS), config.get_option(options.JOBMANAGER_PORT)
        self.failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._settings = network_settings(config, f"jobmanager {os.getpid()} on {platform.node()}")
        self._rpc = NetworkRpc(self._settings)
        self._storage = configured_storage(config)
        self._register = leader_register(config)
        self._clock = SystemClock()
        self._notifier = Notifier(config, self._clock)
        self._company = Company()
        self._goodbyes = BackgroundTasks()
        self._ends = contextlib.AsyncExitStack()
        self._leadership: RegisterElection | None = None

    def __str__(self) -> str:
        return f"jobmanager at {self.host}:{self.port}, REST at {self.rest.address}"

    async def start(self) -> None:
        """Serve. Raises OSError when the port is taken or the disk is full; then nothing is left."""
        try:
            await self._start()
        except BaseException:
            await self._ends.aclose()
            raise

    async def stop(self) -> None:
        """End everything, within a limit; workers and jobs hear of it by their connections.

        Where another master may lead, it is let to first: REST, which lets go of its clients slowly, comes last.
        """
        if self._leadership is not None:
            await self._stop_master()
            await self._leadership.close()
            await self._server.close()
        await self._ends.aclose()

    async def _start(self) -> None:
        work_dir = await asyncio.to_thread(self._open_work_dir)
        self._log_file = self._ends.enter_context(process_log(work_dir / "log" / "jobmanager.log", self.config))
        bind_host = self.config.get_option(options.JOBMANAGER_BIND_HOST) or self.host
        self._ends.push_async_callback(self._rpc.close)
        with storage_named(self.config):
            blobs = self._storage.blobs(work_dir) if self._storage is not None else LocalBlobStore(work_dir / "blobs")
        blob_server = BlobServer(blobs, self.config.get_option(options.BLOB_SIZE_MAX) << 20)
        handlers = {MESSAGES: self._rpc.serve, BLOBS: blob_server.serve, VIGIL: self._company.serve}
        server = self._server = PeerServer(self._settings, handlers)
        self._ends.push_async_callback(server.close)
        self._ends.push_async_callback(self._goodbyes.close)
        self.port = await server.listen(bind_host, self.port)
        self._rpc.listens_at(self.host, self.port)
        services = await open_high_availability(
            self.config,
            self._clock,
            listens_at=(self.host, self.port),
            network=self._settings,
            storage=self._storage,
            register=self._register,
            ends=self._ends,
            on_over=self._shut_down or (lambda: None),
        )
        self._ends.push_async_callback(self._notifier.close)
        self._notifier.start()
        history = configured_history(self.config, self._clock, work_dir)
        self._ends.callback(history.close)
        store = MeteredJobStore(services.store)
        self.master = Master(
            self.config,
            rpc=self._rpc,
            clock=self._clock,
            election=services.election,
            store=store,
            archive=self._archive(work_dir),
            history=history,
            announce_status=self._notifier.job_status_changed,
            announce_archived=self._notifier.job_archived,
            uploads=BlobUploads(
                blobs,
                self.config.get_option(options.BLOB_FREE_MIN) << 20,
                self.config.get_option(options.BLOB_STORAGE_MAX) << 20,
            ),
            on_lost=self._lost,
        )
        measures = ProcessMeasures(MASTER_PROCESS, self._rpc, self.master.mailbox_length)
        self._registry = self._ends.enter_context(measures).registry
        self._registry.add(store.values)
        self.client = MasterClient(self.master)
        self._ends.push_async_callback(self._stop_master)
        self.master.start()
        announcer = LeaderAnnouncer(self._rpc, services.election)
        self._ends.callback(announcer.stop)
        announcer.start()
        self._leadership = services.shared
        await self._start_rest(work_dir)
        await services.begin(self.rest.address_for(self.host))

    async def _start_rest(self, work_dir: Path) -> None:
        """Serve REST; clients are told when nobody leads, rather than kept waiting."""
        self.rest = serve_rest(
            MasterClient(self.master, leader_wait_s=0.0, environment=current_environment()),
            self.config,
            work_dir=work_dir,
            jar_files=self._storage.files("jars", work_dir) if self._storage is not None else None,
            log_file=self._log_file,
            clock=self._clock,
            shut_down=self._end_cluster if self._shut_down is not None else None,
            leadership=self._leadership,
            standbys=self._company.names,
            registry=self._registry,
        )
        self._ends.push_async_callback(self.rest.stop)
        await self.rest.start()

    def _end_cluster(self) -> None:
        """End this master, and those who stand by. Workers wait for another one, as they do without any master."""

        async def end() -> None:
            await self._company.dismiss()
            assert self._shut_down is not None, "else it is not offered"
            self._shut_down()

        self._goodbyes.start(end(), "the end of the cluster")

    async def _stop_master(self) -> None:
        async with limited(self.config, "the master"):
            await self.master.stop()

    def _archive(self, work_dir: Path) -> JobArchive:
        if self.config.get_option(options.JOBSTORE_TYPE) == "Memory":
            return MemoryJobArchive()
        cache_bytes = self.config.get_option(options.JOBSTORE_CACHE_SIZE) << 20
        storage = self._storage
        return FileJobArchive(storage.archive(work_dir) if storage is not None else work_dir / "archive", cache_bytes)

    def _open_work_dir(self) -> Path:
        configured = self.config.get_option(options.WORK_DIR)
        if configured:
            return Path(configured)
        return self._ends.enter_context(temporary_directory("firesteel-jobmanager-"))

    def _lost(self, component: str, error: Exception) -> None:
        if not self.failed.done():
            self.failed.set_result(error)
