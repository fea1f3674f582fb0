"""The ResourceManager's endpoint: nothing but its core, its mailbox and its session."""

from firesteel.core.resourcemanager import ResourceManagerCore, ResourceManagerSettings
from firesteel.model import options
from firesteel.model.ids import JobID
from firesteel.model.options import Configuration
from firesteel.model.views import QueuePlace, TaskManagerView
from firesteel.runtime.leading import LeadingEndpoint


class ResourceManagerEndpoint(LeadingEndpoint):
    """Serves one leadership of the ResourceManager."""

    core: ResourceManagerCore

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
    )
