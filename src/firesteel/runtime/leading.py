"""The endpoint of whatever leads: Dispatcher, ResourceManager, and what leads a job."""

from collections.abc import Callable

from firesteel.core.effects import LeaderChanged
from firesteel.core.machine import Core
from firesteel.model.messages import Leader
from firesteel.runtime.endpoint import Endpoint
from firesteel.runtime.services import Clock, LeaderRetrieval, Rpc


class LeadingEndpoint(Endpoint):
    """Serves one leadership of one component."""

    def __init__(self, core: Core, rpc: Rpc, clock: Clock, on_broken: Callable[[Exception], None]) -> None:
        super().__init__(core, rpc, clock, on_broken)
        self._unwatch: Callable[[], None] = lambda: None

    @property
    def leader(self) -> Leader:
        assert self.core.token is not None, "a leader has a token"
        return Leader(self.core.address, self.core.token)

    def follow(self, leaders: LeaderRetrieval, component: str) -> None:
        """Learn who leads another component."""
        self._unwatch = leaders.watch(component, lambda found: self.tell(LeaderChanged(component, found)))

    async def stop(self) -> None:
        self._unwatch()
        await super().stop()
