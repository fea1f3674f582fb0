"""Messages that more than one component takes."""

from firesteel.model.ids import ResourceID
from firesteel.model.message import Message


class DisconnectTaskExecutor(Message, frozen=True):
    """Goodbye of a TaskExecutor, to the ResourceManager and to JobMasters."""

    resource_id: ResourceID
    reason: str


class HeartbeatRequest(Message, frozen=True, omit_defaults=True):
    """Question for a sign of life, of the ResourceManager to whom it watches."""

    backends: int = 0
    """To a JobMaster: Spark backends that the registered workers can have."""
