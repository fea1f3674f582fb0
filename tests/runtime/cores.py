"""A core that records events, and answers them as the test says."""

from collections.abc import Callable

from firesteel.core.effects import Effect, Event
from firesteel.core.machine import Core
from firesteel.model.ids import Address, FencingToken
from firesteel.model.messages import Envelope, HeartbeatRequest, Leader


class RecordingCore(Core):
    def __init__(self, address: str = "it", react: Callable[[Event], list[Effect]] = lambda event: []) -> None:
        super().__init__(Address(address), FencingToken(1, address))
        self.events: list[Event] = []
        self._react = react

    def _on(self, event: Event) -> None:
        self.events.append(event)
        self._effects += self._react(event)

    def validate(self) -> None:
        pass

    def seen(self, *kinds: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kinds)]


def envelope(sender: str, recipient: str) -> Envelope:
    return Envelope(
        sender=Address(sender),
        recipient=Address(recipient),
        recipient_token=FencingToken(1, recipient),
        body=HeartbeatRequest(),
    )


def leader(address: str, epoch: int = 1) -> Leader:
    return Leader(Address(address), FencingToken(epoch, address))
