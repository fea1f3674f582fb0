"""A master: Dispatcher, ResourceManager and JobMasters on whatever transport, election and store they are given."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from firesteel.adapters.blob.uploads import BlobUploads
from firesteel.adapters.history.archive import History, NoHistory
from firesteel.core.dispatcher.dispatcher import DispatcherCore
from firesteel.core.effects import DISPATCHER, RESOURCE_MANAGER
from firesteel.core.resourcemanager.inquiries import AskTaskManager
from firesteel.core.resourcemanager.resourcemanager import ResourceManagerCore
from firesteel.core.scheduler.backoff import restart_strategy
from firesteel.model import options
from firesteel.model.ids import FencingToken, ResourceID
from firesteel.model.inquiries import AnyAnswer, AnyInquiry
from firesteel.model.messages import Leader
from firesteel.model.options import Configuration
from firesteel.model.views import JobResult, JobView
from firesteel.runtime.admission import admission
from firesteel.runtime.client import ClusterLost, NoLeader
from firesteel.runtime.dispatcher import DispatcherEndpoint
from firesteel.runtime.endpoint import EndpointStopped
from firesteel.runtime.leadership import LeaderRunner, Service
from firesteel.runtime.leading import LeadingEndpoint
from firesteel.runtime.registration import registration_timeouts
from firesteel.runtime.resourcemanager import ResourceManagerEndpoint, resource_manager_settings
from firesteel.runtime.services import AnnounceStatus, Clock, JobArchive, JobStore, LeaderElection, Rpc

SETTLE_LIMIT_S, SETTLE_LOOK_S = 15.0, 0.02
"""Time that jobs which have ended have to be archived when their cluster ends, and between two looks."""


class Master:
    """Contends for Dispatcher and ResourceManager, and serves what it leads.

    `on_lost` is told which component has failed too often to be started again, and of what.
    """

    def __init__(
        self,
        config: Configuration,
        *,
        rpc: Rpc,
        clock: Clock,
        election: LeaderElection,
        store: JobStore,
        archive: JobArchive,
        history: History,
        announce_status: AnnounceStatus,
        announce_archived: Callable[[JobView, JobResult], None] = lambda view, result: None,
        uploads: BlobUploads,
        on_lost: Callable[[str, Exception], None] = lambda component, error: None,
    ) -> None:
        restart_strategy(config, {})  # What does not fit together is refused before anything starts.
        registration_timeouts(config)
        self.config, self.uploads = config, uploads
        self._rpc, self._clock, self._election, self._store = rpc, clock, election, store
        self._archive, self.history, self._announce_status = archive, history, announce_status
        self._announce_archived, self._on_lost = announce_archived, on_lost
        self._runners: dict[str, LeaderRunner] = {}
        self._lost: dict[str, Exception] = {}

    def start(self) -> None:
        """Take part in the elections."""
        for component, serve in (
            (RESOURCE_MANAGER, self._serve_resource_manager),
            (DISPATCHER, self._serve_dispatcher),
        ):
            self._contend(component, serve)

    async def stop(self) -> None:
        """End what it serves, the Dispatcher first. Idempotent."""
        async with contextlib.AsyncExitStack() as last_first:
            for component in (RESOURCE_MANAGER, DISPATCHER):
                if component in self._runners:
                    last_first.push_async_callback(self._runners[component].stop)
        self._runners.clear()

    async def settle(self) -> None:
        """For a cluster that ends for good: wait until the jobs that have ended are archived, for a limited time."""
        if isinstance(self.history, NoHistory):
            return
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(SETTLE_LIMIT_S):
                while True:
                    if not self.dispatcher().cleans_up():
                        return
                    await asyncio.sleep(SETTLE_LOOK_S)

    def resource_manager(self) -> ResourceManagerEndpoint:
        """The ResourceManager that leads here. Raises NoLeader, or ClusterLost."""
        service = self._service(RESOURCE_MANAGER)
        assert isinstance(service, ResourceManagerEndpoint), "its runner runs nothing else"
        return service

    def dispatcher(self) -> DispatcherEndpoint:
        """The Dispatcher that leads here. Raises NoLeader, or ClusterLost."""
        service = self._service(DISPATCHER)
        assert isinstance(service, DispatcherEndpoint), "its runner runs nothing else"
        return service

    def mailbox_length(self) -> int:
        """Number of events that wait at all that it serves."""
        services = (runner.service for runner in self._runners.values())
        return sum(each.mailbox_length for each in services if isinstance(each, LeadingEndpoint))

    # ── workers, as the archive of jobs asks them ────────────────────────────────────────────
    def ids(self) -> list[ResourceID]:
        """The registered workers. Raises NoLeader."""
        return [worker.resource_id for worker in self.resource_manager().task_managers()]

    async def ask(self, resource_id: ResourceID, inquiry: AnyInquiry, limit_s: float) -> AnyAnswer:
        """What a worker answers. Raises UnknownTaskManager, NoAnswer or NoLeader."""
        request = AskTaskManager(resource_id, inquiry, round(limit_s * 1_000))
        try:
            return await self.resource_manager().ask(request)
        except EndpointStopped:
            raise NoLeader("the ResourceManager went before the worker answered") from None

    def _service(self, component: str) -> Service:
        if component in self._lost:
            error = self._lost[component]
            raise ClusterLost(f"the {component} has failed for good: {type(error).__name__}: {error}") from error
        runner = self._runners.get(component)
        if runner is None or runner.service is None:
            why = (runner.trouble if runner is not None else "") or self._election.trouble
            raise NoLeader(f"no {component} leads at the moment", why)
        return runner.service

    def _contend(self, component: str, serve: Callable[[FencingToken], Awaitable[Service]]) -> None:
        def lost(error: Exception) -> None:
            self._lost[component] = error
            self._on_lost(component, error)

        runner = self._runners[component] = LeaderRunner(component, self._election, serve, on_lost=lost)
        runner.start()

    async def _serve_resource_manager(self, token: FencingToken) -> ResourceManagerEndpoint:
        me = Leader(self._rpc.address(f"resourcemanager@{token.epoch}"), token)
        core = ResourceManagerCore(resource_manager_settings(self.config), me)
        endpoint = ResourceManagerEndpoint(core, self._rpc, self._clock, self._runners[RESOURCE_MANAGER].fail)
        endpoint.start()
        endpoint.follow(self._election, DISPATCHER)
        return endpoint

    async def _serve_dispatcher(self, token: FencingToken) -> DispatcherEndpoint:
        me = Leader(self._rpc.address(f"dispatcher@{token.epoch}"), token)
        endpoint = DispatcherEndpoint(
            DispatcherCore(
                me,
                self.config.get_option(options.JOBSTORE_MAX_CAPACITY),
                admission(self.config),
                retention_ms=self.config.get_option(options.JOBSTORE_EXPIRATION_TIME),
                retryable_max=self.config.get_option(options.JOBSTORE_RETRYABLE_MAX),
            ),
            self._rpc,
            self._clock,
            config=self.config,
            election=self._election,
            store=self._store,
            archive=self._archive,
            archive_job=self._archive_job,
            announce_status=self._announce_status,
            delete_blobs=self.uploads.delete_unused,
            delete_output=self.uploads.outputs.delete,
            sweep=self.uploads.sweep,
            on_hindered=self._runners[DISPATCHER].hindered,
            on_broken=self._runners[DISPATCHER].fail,
        )
        endpoint.start()
        try:
            await endpoint.recovered.wait()
        except BaseException:
            await endpoint.stop()
            raise
        return endpoint

    async def _archive_job(self, view: JobView, result: JobResult) -> None:
        """Raises OSError, and is tried again then: so what is told is told last."""
        await self.history.put(view, result, self, self.uploads.outputs)
        self._announce_archived(view, result)
