"""Events that go into cores and effects that come out: frozen data, compared by tests as values.

An effect that starts work is answered by exactly one event. Effects and events that only one component knows stand in
that component's module. Each core has closed unions of the events, timers, requests and own effects it knows; it refuses
what is in none of them, and matches all that is.
"""

from dataclasses import dataclass

from firesteel.core.journal.records import JournalRecord
from firesteel.model.messages import Envelope, Leader


class Event:
    """Something that happened."""


class Effect:
    """Something to be done."""


class Timer:
    """Names a timer. Setting an equal one again replaces it; it carries what it belongs to."""


# ── events every core may get ────────────────────────────────────────────────────────────────
@dataclass(frozen=True, slots=True)
class Started(Event):
    """The endpoint is up and can be reached."""


@dataclass(frozen=True, slots=True)
class Received(Event):
    envelope: Envelope


@dataclass(frozen=True, slots=True)
class TimerFired(Event):
    timer: Timer


@dataclass(frozen=True, slots=True)
class Persisted(Event):
    """All records up to `sequence` are durable, and this session still is the leader."""

    sequence: int


@dataclass(frozen=True, slots=True)
class PersistFailed(Event):
    reason: str


@dataclass(frozen=True, slots=True)
class PeerLost(Event):
    """The connection to a peer broke; it may live."""

    address: str
    reason: str


@dataclass(frozen=True, slots=True)
class LeadershipLost(Event):
    """This core does not lead any more, and is told nothing after this."""


@dataclass(frozen=True, slots=True)
class LeaderChanged(Event):
    """Who leads a component changed; `leader` is None while nobody does."""

    component: str
    leader: Leader | None


# ── effects every core may have ──────────────────────────────────────────────────────────────
@dataclass(frozen=True, slots=True)
class Send(Effect):
    envelope: Envelope


@dataclass(frozen=True, slots=True)
class SetTimer(Effect):
    timer: Timer
    at_ms: int


@dataclass(frozen=True, slots=True)
class Persist(Effect):
    """Make `records` durable, all or none of them and after all earlier ones; answered by Persisted or PersistFailed."""

    sequence: int
    records: tuple[JournalRecord, ...]


RESOURCE_MANAGER = "resource_manager"
DISPATCHER = "dispatcher"
"""Names of the components that are led, for LeaderChanged; a job's is its id."""
