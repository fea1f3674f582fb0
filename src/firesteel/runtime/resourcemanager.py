"""The ResourceManager's endpoint: nothing but its core, its mailbox and its session."""

import logging

from firesteel.core.effects import Event, PeerLost, Received, TimerFired
from firesteel.core.resourcemanager.resourcemanager import ResourceManagerCore
from firesteel.core.settings import ResourceManagerSettings
from firesteel.model import options
from firesteel.model.ids import JobID, ResourceID
from firesteel.model.messages import DisconnectTaskExecutor, Envelope, RegisterTaskExecutor
from firesteel.model.options import Configuration
from firesteel.model.views import QueuePlace, TaskManagerView
from firesteel.runtime.leading import LeadingEndpoint

logger = logging.getLogger(__name__)


class ResourceManagerEndpoint(LeadingEndpoint):
    """Serves one leadership of the ResourceManager."""

    core: ResourceManagerCore
    _told: tuple[ResourceID, ...] = ()
    """The workers that the log says are here."""

    def handled(self, event: Event) -> None:
        match event:
            case Received(envelope=Envelope(body=RegisterTaskExecutor() | DisconnectTaskExecutor())):
                self._narrate()
            case PeerLost() | TimerFired():
                self._narrate()
            case _:
                pass  # it brings no worker and takes none away

    def _narrate(self) -> None:
        here = self.core.workers
        if here == self._told:
            return
        for worker in (each for each in here if each not in self._told):
            logger.info("worker %s is here: %d in all", worker, len(here))
        for worker in (each for each in self._told if each not in here):
            logger.info("worker %s is gone: %d are left", worker, len(here))
        self._told = here

    def task_managers(self) -> tuple[TaskManagerView, ...]:
        return self.core.task_managers()

    def queue(self) -> dict[JobID, QueuePlace]:
        """The jobs that wait for slots, in the order in which they are served."""
        return self.core.queue()


def resource_manager_settings(config: Configuration) -> ResourceManagerSettings:
    queue_slots: dict[str, int] = config.get_option(options.QUEUES)
    return ResourceManagerSettings(
        heartbeat_interval_ms=config.get_option(options.HEARTBEAT_INTERVAL),
        heartbeat_timeout_ms=config.get_option(options.HEARTBEAT_TIMEOUT),
        spread_slots=config.get_option(options.LOAD_BALANCE_MODE) == "SLOTS",
        queue_slots=queue_slots,
        start_up_ms=config.get_option(options.RESOURCE_START_UP_TIME),
        slot_request_timeout_ms=config.get_option(options.SLOT_REQUEST_TIMEOUT),
    )
