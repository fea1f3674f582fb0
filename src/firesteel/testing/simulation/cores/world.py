"""The simulated world, level A: all cores of a cluster on one event heap, with one seed.

Nothing here is asynchronous and nothing is real: time is a number, the network, the store and Spark
are contracts. Each cause of chance has a random stream of its own, so that a draw in one place does
not shift another.
"""

import hashlib
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from firesteel.core.dispatcher.requests import JobsLoaded, SubmitJob
from firesteel.core.effects import (
    Effect,
    Event,
    LeaderChanged,
    PeerLost,
    Received,
    Send,
    SetTimer,
    Started,
    Timer,
    TimerFired,
)
from firesteel.core.machine import Core
from firesteel.core.requests import Asked, Reply
from firesteel.core.taskexecutor.workeffects import UnwatchLeader, WatchLeader
from firesteel.model.ids import Address, FencingToken
from firesteel.model.messages import Envelope, Leader, SubmitTasks
from firesteel.testing.simulation.faults import Faults
from firesteel.testing.simulation.mishaps import Mishaps

STORY_LINES = 200
"""Last events of a run that a failure prints."""

EVENTS_MAX = 300_000
"""Events of one run; a run that needs more goes in circles."""

LINE_LENGTH_MAX = 400
"""Characters of one of its lines."""

START_MS = 1_000_000
"""When a run begins."""


@dataclass(slots=True)
class SimulatedEndpoint:
    """A core at an address, on a node. Dead endpoints get and say nothing."""

    core: Core
    node: str
    interpret: Callable[["SimulatedEndpoint", Effect], None]
    """Does what the world does not know: the component's own effects."""
    alive: bool = True
    timers: dict[Timer, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Clock:
    """What a node takes for the time."""

    offset_ms: int
    rate: float

    def now_ms(self, world_ms: int) -> int:
        return START_MS + self.offset_ms + int((world_ms - START_MS) * self.rate)


class World:
    """Time, endpoints, network and the register of leaders. `check` runs after every event."""

    def __init__(self, seed: int, faults: Faults, only: Iterable[str] | None = None, *, tell_all: bool = False) -> None:
        self.seed, self.faults = seed, faults
        self.mishaps = Mishaps(seed, only, rare=faults.rare)
        self.stream = self.mishaps.stream
        self.now_ms = START_MS
        self.endpoints: dict[Address, SimulatedEndpoint] = {}
        self.leaders: dict[str, Leader | None] = {}
        self.on_reply: Callable[[SimulatedEndpoint, int, object], None] = lambda endpoint, request_id, value: None
        self.story: deque[tuple[int, str, object]] = deque(maxlen=None if tell_all else STORY_LINES)
        self.digest = hashlib.blake2b(digest_size=8) if tell_all else None
        """Hash of the whole story, when all of it is told."""
        self.check: Callable[[SimulatedEndpoint, Event, list[Effect]], None] = lambda endpoint, event, effects: None
        self.events = 0
        self.cuts: dict[tuple[str, str], int] = {}
        """From where nothing gets to where, until when."""
        self.stalls: dict[str, int] = {}
        """Nodes whose processes stand still, until when."""
        self._unread: dict[str, list[tuple[SimulatedEndpoint, Event]]] = {}
        """What has come to them meanwhile."""
        self.disturbed: dict[str, None] = {}
        """Nodes that something has happened to: they, or what they say to another one, may be taken for lost."""
        self._clocks: dict[str, Clock] = {}
        self._watchers: dict[str, dict[Address, None]] = {}
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._epoch = 0

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
        heap = self._heap
        while heap and heap[0][0] <= until_ms:
            self.now_ms, _, action = heapq.heappop(heap)
            action()
        self.now_ms = max(self.now_ms, until_ms)

    def clock_of(self, node: str) -> Clock:
        """The clock of a node; all of them go right in a calm world."""
        known = self._clocks.get(node)
        if known is None:
            chance, far, drift = self.stream(f"clock:{node}"), self.faults.clock_offset_ms_max, self.faults.clock_drift
            known = self._clocks[node] = Clock(chance.randint(-far, far), 1.0 + chance.uniform(-drift, drift))
        return known

    def note(self, subject: str, what: object) -> None:
        """Add a line to the story of the run."""
        self.story.append((self.now_ms, subject, what))
        if self.digest is not None:
            self.digest.update(line_of(self.story[-1]).encode())

    # ── endpoints ────────────────────────────────────────────────────────────────────────────
    def add(self, core: Core, node: str, interpret: Callable[[SimulatedEndpoint, Effect], None]) -> SimulatedEndpoint:
        """Bring up a core; it gets Started first."""
        assert core.address not in self.endpoints, f"{core.address} is taken"
        endpoint = self.endpoints[core.address] = SimulatedEndpoint(core, node, interpret)
        self.give(endpoint, Started())
        return endpoint

    def remove(self, address: Address, reason: str) -> None:
        """A power cut for one endpoint: it says nothing more; peers may notice the broken connection."""
        endpoint = self.endpoints.pop(address, None)
        if endpoint is None:
            return
        endpoint.alive = False
        self.disturbed[endpoint.node] = None
        self.note(address, f"is gone: {reason}")
        for watchers in self._watchers.values():
            watchers.pop(address, None)
        if self.faults.connection_loss_noticed:
            for other in self.endpoints.values():
                if other.node != endpoint.node:
                    self._later(other, PeerLost(address, reason))

    def break_connection(self, one: str, other: str) -> None:
        """Two nodes lose their connection and what is under way on it; both notice, and find one another again."""
        self.disturbed.update({one: None, other: None})
        for here, there in ((one, other), (other, one)):
            self.cuts[here, there] = max(self.cuts.get((here, there), 0), self.now_ms + self.faults.delay_ms_max)
            lost = [endpoint.core.address for endpoint in self.endpoints.values() if endpoint.node == there]
            for endpoint in [known for known in self.endpoints.values() if known.node == here]:
                for address in lost:
                    self._later(endpoint, PeerLost(address, "the connection broke"))

    def cut(self, here: str, there: str, until_ms: int) -> None:
        """Nothing gets from one node to another for a while."""
        self.disturbed.update({here: None, there: None})
        self.cuts[here, there] = until_ms

    def stall(self, node: str, until_ms: int) -> None:
        """The processes of a node stand still."""
        self.disturbed[node] = None
        self.stalls[node] = max(until_ms, self.stalls.get(node, 0))
        self.after(self.stalls[node] - self.now_ms, partial(self._go_on, node))

    def end_stalls(self) -> None:
        """Who stands still goes on."""
        for node, until_ms in self.stalls.items():
            self.stalls[node] = min(until_ms, self.now_ms)
            self._go_on(node)

    def _go_on(self, node: str) -> None:
        """Its processes read what lies unread, in the order it came."""
        if not self.is_stalled(node):
            for endpoint, event in self._unread.pop(node, ()):
                self.give(endpoint, event)

    def is_stalled(self, node: str) -> int:
        """Until when a node stands still; 0 when it does not."""
        until_ms = self.stalls.get(node, 0)
        return until_ms if until_ms > self.now_ms else 0

    def give(self, endpoint: SimulatedEndpoint, event: Event) -> None:
        """Let a core answer an event, then do what it wants."""
        if not endpoint.alive:
            return
        if self.is_stalled(endpoint.node):
            self._unread.setdefault(endpoint.node, []).append((endpoint, event))
            return
        self.events += 1
        assert self.events < EVENTS_MAX, "the run does not come to an end"
        core = endpoint.core
        self.note(core.address, event)
        effects = core.handle(event, self.clock_of(endpoint.node).now_ms(self.now_ms))
        for effect in effects:
            self._interpret(endpoint, effect)
        self.check(endpoint, event, effects)

    def _later(self, endpoint: SimulatedEndpoint, event: Event) -> None:
        self.after(self._local_ms(endpoint), partial(self.give, endpoint, event))

    def _local_ms(self, endpoint: SimulatedEndpoint) -> int:
        return self.stream(f"local:{endpoint.core.address}").randint(0, self.faults.local_delay_ms_max)

    def _interpret(self, endpoint: SimulatedEndpoint, effect: Effect) -> None:
        match effect:
            case Send():
                self._send(endpoint, effect.envelope)
            case SetTimer():
                self._set_timer(endpoint, effect)
            case Reply():
                self.on_reply(endpoint, effect.request_id, effect.value)
            case WatchLeader():
                self._watchers.setdefault(effect.component, {})[endpoint.core.address] = None
                if effect.component in self.leaders:
                    leader = self.leaders[effect.component]
                    news = partial(self._announce_leader, endpoint, effect.component, leader)
                    self.after(self._local_ms(endpoint), news)
            case UnwatchLeader():
                self._watchers.get(effect.component, {}).pop(endpoint.core.address, None)
            case _:
                endpoint.interpret(endpoint, effect)

    def _set_timer(self, endpoint: SimulatedEndpoint, effect: SetTimer) -> None:
        order = endpoint.timers[effect.timer] = next(self._order)
        clock = self.clock_of(endpoint.node)
        delay_ms = max(0, effect.at_ms - clock.now_ms(self.now_ms)) / clock.rate
        if self.mishaps.sometimes("timer-late"):
            delay_ms += self.stream("timer-late:by").randint(1, 5_000)

        def fire() -> None:
            if endpoint.alive and endpoint.timers.get(effect.timer) == order:
                del endpoint.timers[effect.timer]
                self.give(endpoint, TimerFired(effect.timer))

        self.after(round(delay_ms), fire)

    # ── network ──────────────────────────────────────────────────────────────────────────────
    def _send(self, sender: SimulatedEndpoint, envelope: Envelope) -> None:
        recipient = self.endpoints.get(envelope.recipient)
        if recipient is None:
            if self.mishaps.sometimes("nobody-there"):
                self._later(sender, PeerLost(envelope.recipient, "nobody is there"))
            return
        if recipient.node == sender.node:
            self.after(0, partial(self.give, recipient, Received(envelope)))
            return
        link, faults = f"{sender.node}>{recipient.node}", self.faults
        kinds = (("loss", faults.loss), ("duplicate", faults.duplicate), ("slow", faults.slow))
        kind = self.mishaps.one_of(link, kinds)
        if kind in ("loss", "slow"):
            self.disturbed.update({sender.node: None, recipient.node: None})
        if kind == "loss":
            return
        chance = self.stream(f"delay:{link}")
        delay_ms = chance.randint(0, faults.delay_ms_max)
        if kind == "slow":
            delay_ms += chance.randint(0, faults.slow_ms_max)
        self.after(delay_ms, partial(self._deliver, sender.node, envelope))
        if kind == "duplicate":
            again_ms = chance.randint(0, 4 * faults.delay_ms_max)
            self.after(again_ms, partial(self._deliver, sender.node, envelope))

    def _deliver(self, sender_node: str, envelope: Envelope) -> None:
        recipient = self.endpoints.get(envelope.recipient)
        if recipient is not None and not self.is_cut(sender_node, recipient.node):
            self.give(recipient, Received(envelope))

    def is_cut(self, source: str, target: str) -> bool:
        """Whether nothing gets from one node to another just now."""
        return bool(self.cuts) and self.cuts.get((source, target), 0) > self.now_ms

    # ── leaders ──────────────────────────────────────────────────────────────────────────────
    def publish(self, component: str, leader: Leader) -> None:
        """Change who leads a component, and tell those who watch it."""
        known = self.leaders.get(component)
        if known is None or known.token < leader.token:
            self._announce(component, leader)

    def withdraw(self, component: str) -> None:
        """Nobody leads a component any more."""
        if self.leaders.get(component) is not None:
            self._announce(component, None)

    def _announce(self, component: str, leader: Leader | None) -> None:
        self.leaders[component] = leader
        for address in list(self._watchers.get(component, ())):
            endpoint = self.endpoints.get(address)
            if endpoint is None:
                continue
            news = partial(self._announce_leader, endpoint, component, leader)
            if self.mishaps.sometimes("leader-told-late"):
                self.disturbed[endpoint.node] = None
                self.after(30_000, news)
                continue
            self.after(self._local_ms(endpoint), news)
            if self.mishaps.sometimes("leader-told-twice"):
                self.after(self.stream("leader-told-twice:by").randint(1, 20_000), news)

    def _announce_leader(self, endpoint: SimulatedEndpoint, component: str, leader: Leader | None) -> None:
        """The newest leader counts, by its token; news that nobody leads has none, and never comes after a later leader.

        A component of a master hears of leaders in its own process only.
        """
        own = endpoint.core.token
        if leader is not None and own is not None and leader.token.leader != own.leader:
            return
        if leader is not None or self.leaders.get(component) is None:
            self.give(endpoint, LeaderChanged(component, leader))

    def watch(self, endpoint: SimulatedEndpoint, component: str) -> None:
        """Subscribe an endpoint from outside its core."""
        self._interpret(endpoint, WatchLeader(component))


def line_of(told: tuple[int, str, object]) -> str:
    """A part of the story on one line; graphs are left out."""
    at_ms, subject, what = told
    match what:
        case Received(envelope=Envelope(sender=sender, body=SubmitTasks(job=job, deployments=deployments))):
            text = f"<- SubmitTasks({job.graph.job_id}, {deployments}) of {sender}"
        case Received(envelope=envelope):
            text = f"<- {envelope.body} of {envelope.sender}"
        case Asked(request_id=number, request=SubmitJob(graph=graph)):
            text = f"<- request {number}: SubmitJob({graph.job_id}, {graph.name})"
        case JobsLoaded(graphs=graphs, results=results):
            text = f"<- JobsLoaded({[graph.job_id for graph in graphs]}, {results})"
        case Event():
            text = f"<- {what}"
        case _:
            text = str(what)
    return f"{at_ms} {subject} {text}"[:LINE_LENGTH_MAX]
