"""The simulated world, level A: all cores of a cluster on one event heap, with one seed.

Nothing here is asynchronous and nothing is real: time is a number, the network, the store and Spark
are contracts. Each cause of chance has a random stream of its own, so that a draw in one place does
not shift another.
"""

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from firesteel.core.effects import (
    Effect,
    Event,
    LeaderChanged,
    PeerLost,
    Received,
    Reply,
    Send,
    SetTimer,
    Started,
    Timer,
    TimerFired,
)
from firesteel.core.machine import Core
from firesteel.core.workeffects import UnwatchLeader, WatchLeader
from firesteel.model.ids import Address, FencingToken
from firesteel.model.messages import Envelope, Leader
from firesteel.testing.simulation.faults import Faults

STORY_LINES = 200
"""Last events of a run that a failure prints."""

EVENTS_MAX = 300_000
"""Events of one run; a run that needs more goes in circles."""


@dataclass(slots=True)
class Endpoint:
    """A core at an address, on a node. Dead endpoints get and say nothing."""

    core: Core
    node: str
    interpret: Callable[["Endpoint", Effect], None]
    """Does what the world does not know: the component's own effects."""
    alive: bool = True
    timers: dict[Timer, int] = field(default_factory=dict)


class World:
    """Time, endpoints, network and the register of leaders. `check` runs after every event."""

    def __init__(self, seed: int, faults: Faults) -> None:
        self.seed, self.faults = seed, faults
        self.now_ms = 1_000_000
        self.endpoints: dict[Address, Endpoint] = {}
        self.leaders: dict[str, Leader] = {}
        self.replies: dict[int, object] = {}
        self.story: list[str] = []
        self.check: Callable[[Endpoint, Event, list[Effect]], None] = lambda endpoint, event, effects: None
        self.events = 0
        self._watchers: dict[str, dict[Address, None]] = {}
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._streams: dict[str, random.Random] = {}
        self._epoch = 0

    def stream(self, name: str) -> random.Random:
        """The random stream of one cause."""
        if name not in self._streams:
            self._streams[name] = random.Random(f"{self.seed}:{name}")
        return self._streams[name]

    def next_token(self, leader: str) -> FencingToken:
        """A token newer than all before."""
        self._epoch += 1
        return FencingToken(self._epoch, leader)

    # ── time ─────────────────────────────────────────────────────────────────────────────────
    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self._heap, (self.now_ms + delay_ms, next(self._order), action))

    def run(self, until_ms: int) -> None:
        """Let time pass."""
        while self._heap and self._heap[0][0] <= until_ms:
            self.now_ms, _, action = heapq.heappop(self._heap)
            action()
        self.now_ms = max(self.now_ms, until_ms)

    def tell(self, line: str) -> None:
        """Add a line to the story of the run."""
        self.story.append(f"{self.now_ms} {line}")
        del self.story[:-STORY_LINES]

    # ── endpoints ────────────────────────────────────────────────────────────────────────────
    def add(self, core: Core, node: str, interpret: Callable[[Endpoint, Effect], None]) -> Endpoint:
        """Bring up a core; it gets Started first."""
        assert core.address not in self.endpoints, f"{core.address} is taken"
        endpoint = self.endpoints[core.address] = Endpoint(core, node, interpret)
        self.give(endpoint, Started())
        return endpoint

    def remove(self, address: Address, reason: str) -> None:
        """A power cut for one endpoint: it says nothing more; peers may notice the broken connection."""
        endpoint = self.endpoints.pop(address, None)
        if endpoint is None:
            return
        endpoint.alive = False
        self.tell(f"{address} is gone: {reason}")
        for watchers in self._watchers.values():
            watchers.pop(address, None)
        if self.faults.connection_loss_noticed:
            for other in list(self.endpoints.values()):
                if other.node != endpoint.node:
                    self._later(other, PeerLost(address, reason))

    def give(self, endpoint: Endpoint, event: Event) -> None:
        """Let a core answer an event, then do what it wants."""
        if not endpoint.alive:
            return
        if self.faults.stalls.get(endpoint.node, 0) > self.now_ms:
            self.after(self.faults.stalls[endpoint.node] - self.now_ms, lambda: self.give(endpoint, event))
            return
        self.events += 1
        assert self.events < EVENTS_MAX, "the run does not come to an end"
        self.tell(f"{endpoint.core.address} <- {describe(event)}")
        effects = endpoint.core.handle(event, self.now_ms)
        for effect in effects:
            self._interpret(endpoint, effect)
        self.check(endpoint, event, effects)

    def _later(self, endpoint: Endpoint, event: Event) -> None:
        delay_ms = self.stream(f"local:{endpoint.core.address}").randint(0, self.faults.local_delay_ms_max)
        self.after(delay_ms, lambda: self.give(endpoint, event))

    def _interpret(self, endpoint: Endpoint, effect: Effect) -> None:
        match effect:
            case Send():
                self._send(endpoint, effect.envelope)
            case SetTimer():
                self._set_timer(endpoint, effect)
            case Reply():
                assert effect.request_id not in self.replies, "a request is answered once"
                self.replies[effect.request_id] = effect.value
            case WatchLeader():
                self._watchers.setdefault(effect.component, {})[endpoint.core.address] = None
                if effect.component in self.leaders:
                    self._later(endpoint, LeaderChanged(effect.component, self.leaders[effect.component]))
            case UnwatchLeader():
                self._watchers.get(effect.component, {}).pop(endpoint.core.address, None)
            case _:
                endpoint.interpret(endpoint, effect)

    def _set_timer(self, endpoint: Endpoint, effect: SetTimer) -> None:
        order = endpoint.timers[effect.timer] = next(self._order)

        def fire() -> None:
            if endpoint.alive and endpoint.timers.get(effect.timer) == order:
                del endpoint.timers[effect.timer]
                self.give(endpoint, TimerFired(effect.timer))

        self.after(max(0, effect.at_ms - self.now_ms), fire)

    # ── network ──────────────────────────────────────────────────────────────────────────────
    def _send(self, sender: Endpoint, envelope: Envelope) -> None:
        recipient = self.endpoints.get(envelope.recipient)
        if recipient is not None and recipient.node == sender.node:
            self.after(0, lambda: self.give(recipient, Received(envelope)))
            return
        target_node = recipient.node if recipient is not None else "nowhere"
        chance = self.stream(f"net:{sender.node}->{target_node}")
        for _ in range(self.faults.copies(chance)):
            delay_ms = self.faults.delay_ms(chance)
            self.after(delay_ms, lambda: self._deliver(sender.node, envelope))

    def _deliver(self, sender_node: str, envelope: Envelope) -> None:
        recipient = self.endpoints.get(envelope.recipient)
        if recipient is None or self.faults.is_cut(sender_node, recipient.node, self.now_ms):
            return
        self.give(recipient, Received(envelope))

    # ── leaders ──────────────────────────────────────────────────────────────────────────────
    def publish(self, component: str, leader: Leader) -> None:
        """Change who leads a component, and tell those who watch it."""
        known = self.leaders.get(component)
        if known is None or known.token < leader.token:
            self.leaders[component] = leader
            for address in list(self._watchers.get(component, ())):
                if address in self.endpoints:
                    self._later(self.endpoints[address], LeaderChanged(component, leader))

    def watch(self, endpoint: Endpoint, component: str) -> None:
        """Subscribe an endpoint from outside its core."""
        self._interpret(endpoint, WatchLeader(component))


def describe(event: Event) -> str:
    """An event on one line."""
    if isinstance(event, Received):
        return f"{event.envelope.body} of {event.envelope.sender}"[:400]
    return str(event)[:400]
