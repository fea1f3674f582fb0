"""The workers a JobMaster has heard of: where each is, and which of its messages are news."""

from dataclasses import dataclass, field

from firesteel.core.heartbeat import HeartbeatMonitor, HeartbeatTick
from firesteel.model.ids import Address, DataSetID, ResourceID
from firesteel.model.tasks import TaskDeployment


@dataclass(slots=True)
class Worker:
    """A TaskExecutor that has reported itself to this JobMaster."""

    address: Address
    sequence: int = -1
    """Number of its newest message."""
    offer_sequence: int = -1
    """Number of its newest report."""
    sent: int = 0
    """Number of the newest AllocatedSlots sent to it."""
    _groups: dict[DataSetID, str] = field(default_factory=dict)
    """Groups of results that were sent to it, by data set."""

    def unsent_groups(self, deployments: list[TaskDeployment], *, afresh: bool) -> list[str]:
        """Groups that these deployments name and that are to be sent with them: with `afresh` all."""
        if afresh:
            self._groups.clear()
        named = {dataset: group for deployment in deployments for dataset, group in deployment.groups}
        unsent = [group for dataset, group in named.items() if self._groups.get(dataset) != group]
        self._groups |= named
        return unsent


class KnownWorkers(dict[ResourceID, Worker]):
    """Learned from reports, never remembered: a worker is known from its first report until it is lost."""

    def __init__(self, heartbeat_interval_ms: int, heartbeat_timeout_ms: int) -> None:
        super().__init__()
        self._lost: dict[ResourceID, int] = {}
        """Newest message seen of workers that were lost: a late one of that time does not bring them back."""
        self._heartbeats: HeartbeatMonitor[ResourceID] = HeartbeatMonitor(heartbeat_interval_ms, heartbeat_timeout_ms)
        self._is_asking, self._held_by = False, 0

    def meet(self, resource_id: ResourceID, address: Address, sequence: int, now_ms: int) -> bool:
        """Know the sender of report number `sequence` from now on; False when it was lost after it had sent that."""
        if resource_id not in self:
            seen = self._lost.pop(resource_id, -1)
            if sequence <= seen:
                self._lost[resource_id] = seen
                return False
            self[resource_id] = Worker(address, seen)
            self._heartbeats.watch(resource_id, now_ms)
        return True

    def is_newer(self, resource_id: ResourceID, sequence: int, now_ms: int) -> bool:
        """Whether a numbered message of a known worker is newer than all seen of it; notes it."""
        known = self.get(resource_id)
        if known is None or sequence <= known.sequence:
            return False
        known.sequence = sequence
        self._heartbeats.heard(resource_id, now_ms)
        return True

    def heard(self, resource_id: ResourceID, now_ms: int) -> None:
        """A sign of life that is no news."""
        self._heartbeats.heard(resource_id, now_ms)

    def lose(self, resource_id: ResourceID) -> bool:
        """Forget a worker; False when it is not known."""
        known = self.pop(resource_id, None)
        if known is not None:
            self._lost[resource_id] = known.sequence
            self._heartbeats.unwatch(resource_id)
        return known is not None

    def at(self, address: Address) -> list[ResourceID]:
        """Those that are reached there."""
        return [resource_id for resource_id, known in self.items() if known.address == address]

    def tick(self, now_ms: int, durable: int) -> HeartbeatTick[ResourceID]:
        """Whom to ask for a report, and who has been silent for too long. Called once an interval, with the number of the
        newest record that is durable: as long as a slow journal holds what they are asked, their silence means nothing."""
        if durable < self._held_by:
            for resource_id in self:
                self._heartbeats.heard(resource_id, now_ms)
        self._is_asking = True
        return self._heartbeats.tick(now_ms)

    def asked(self, sequence: int) -> None:
        """An event has been answered. If it was a tick, who was due is asked when this record is durable."""
        if self._is_asking:
            self._is_asking, self._held_by = False, sequence
