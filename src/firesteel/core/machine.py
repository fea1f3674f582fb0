"""What every core is: a machine with one door, and a story to tell when it goes wrong.

A core decides and touches nothing. `handle(event, now_ms)` takes an event with the time in it and
returns effects; `view()` gives a frozen snapshot; `validate()` checks the core's invariants.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

from firesteel.core.effects import Effect, Event, Persist, Persisted, PersistFailed, Received, Send, SetTimer, Timer
from firesteel.core.journal.records import JournalRecord
from firesteel.core.requests import Reply
from firesteel.model.ids import Address, FencingToken
from firesteel.model.messages import AnyMessage, Envelope, Leader

STORY_LENGTH = 64
"""Events a core remembers of itself, for the text of its errors."""

S = TypeVar("S", bound=Enum)


class InvalidTransition(Exception):
    """Our bug: a state was to change in a way its table does not have. Carries the story."""

    def __init__(self, what: str, story: tuple[str, ...] = ()) -> None:
        super().__init__("\n  ".join((what, *story)))
        self.what, self.story = what, story


class TransitionTable(Generic[S]):
    """The moves a state may make, each with the sentence that says when."""

    def __init__(self, edges: Mapping[tuple[S, S], str]) -> None:
        self.edges = dict(edges)

    def check(self, source: S, target: S, what: str, story: tuple[str, ...] = ()) -> None:
        """Raises InvalidTransition when the table has no such edge."""
        if (source, target) not in self.edges:
            raise InvalidTransition(f"{what}: invalid transition [{source.name} -> {target.name}]", story)


class Core(ABC):
    """A pure state machine. Subclasses answer events in `_on` and speak through `_send` and its kin."""

    def __init__(self, address: Address, token: FencingToken | None) -> None:
        self.address, self.token = address, token
        self.now_ms = 0
        self.story: deque[str] = deque(maxlen=STORY_LENGTH)
        self._effects: list[Effect] = []

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        """The one door. `now_ms` is milliseconds since the epoch and never goes back."""
        self.now_ms = max(now_ms, self.now_ms)
        self._effects = []
        if isinstance(event, Received) and not self._admits(event.envelope):
            self._narrate(f"refused {type(event.envelope.body).__name__} of {event.envelope.sender}: stale token")
            return []
        self._on(event)
        return self._effects

    @abstractmethod
    def _on(self, event: Event) -> None:
        """Answer an event that was admitted."""

    @abstractmethod
    def validate(self) -> None:
        """Assert the core's invariants."""

    def _admits(self, envelope: Envelope) -> bool:
        """Fencing: a leader takes only what was meant for its own session."""
        return self.token is None or envelope.recipient_token == self.token

    def _send(self, recipient: Address, body: AnyMessage, recipient_token: FencingToken | None = None) -> None:
        self._effects.append(
            Send(
                Envelope(
                    sender=self.address,
                    recipient=recipient,
                    sender_token=self.token,
                    recipient_token=recipient_token,
                    body=body,
                )
            )
        )

    def _send_leader(self, leader: Leader, body: AnyMessage) -> None:
        self._send(leader.address, body, leader.token)

    def _reply(self, request_id: int, value: object) -> None:
        self._effects.append(Reply(request_id, value))

    def _set_timer(self, timer: Timer, delay_ms: int) -> None:
        self._effects.append(SetTimer(timer, self.now_ms + delay_ms))

    def _misdirected(self, envelope: Envelope) -> None:
        """It is for a core of another kind: nothing is done."""
        self._narrate(f"refused {type(envelope.body).__name__} of {envelope.sender}: it is not for {self.address}")

    def _narrate(self, line: str) -> None:
        self.story.append(f"{self.now_ms} {line}")


class JournaledCore(Core):
    """A core whose state is a fold over its journal.

    What it says to others leaves only when everything it has decided before is durable: sends are
    held while a record is not persisted, and go out in order when `Persisted` comes.
    """

    def __init__(self, address: Address, token: FencingToken | None) -> None:
        super().__init__(address, token)
        self._unsealed: list[JournalRecord] = []
        self._sequence = 0
        self._durable = 0
        self._held: deque[tuple[int, Effect]] = deque()

    def handle(self, event: Event, now_ms: int) -> list[Effect]:
        effects = super().handle(event, now_ms)
        out = self._release()
        for effect in effects:
            if self._durable < self._sequence and isinstance(effect, Send | Reply):
                self._held.append((self._sequence, effect))
            else:
                out.append(effect)
        if self._unsealed:
            out.append(Persist(self._sequence, tuple(self._unsealed)))
            self._unsealed.clear()
        return out

    def _journal(self, record: JournalRecord) -> None:
        """Add a record. Whoever calls applies it to the state before it returns to its caller."""
        self._unsealed.append(record)
        self._sequence += 1

    def _on_persisted(self, event: Persisted) -> None:
        self._durable = max(self._durable, event.sequence)

    @property
    def _is_durable(self) -> bool:
        """Whether all that was decided is in the journal, and so has been said."""
        return self._durable == self._sequence

    def _on_persist_failed(self, event: PersistFailed) -> None:
        """The journal can't be written: nothing more may be said. The supervisor ends this session."""
        self._narrate(f"journal failed: {event.reason}")
        self._held.clear()

    def _release(self) -> list[Effect]:
        ready: list[Effect] = []
        while self._held and self._held[0][0] <= self._durable:
            ready.append(self._held.popleft()[1])
        return ready
