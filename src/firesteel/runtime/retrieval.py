"""Who leads, for processes that take part in no election: they ask one that does, and are told of changes.

Both ends are mailboxes on the transport. A lost connection loses what was asked, so the follower asks
for everything again.
"""

import asyncio
from collections.abc import Callable

from firesteel.core.effects import Event, PeerLost, Received
from firesteel.model import messages as m
from firesteel.model.ids import Address
from firesteel.runtime.services import LeaderRetrieval, Rpc

ANNOUNCER = "leaders"
"""Name of the endpoint that is asked."""

ASK_AGAIN_S = 0.2
"""Time until everything is asked again, after the one who was asked was lost."""

Listener = Callable[[m.Leader | None], None]


class LeaderAnnouncer:
    """Tells other processes who leads, as the elections of this one know."""

    def __init__(self, rpc: Rpc, leaders: LeaderRetrieval) -> None:
        self.address = rpc.address(ANNOUNCER)
        self._rpc, self._leaders = rpc, leaders
        self._followers: dict[Address, dict[str, Callable[[], None]]] = {}

    def start(self) -> None:
        self._rpc.register(self.address, self)

    def stop(self) -> None:
        self._rpc.unregister(self.address)
        for follower in list(self._followers):
            self._forget(follower)

    def tell(self, event: Event) -> None:
        match event:
            case Received(envelope=m.Envelope(sender=sender, body=m.FollowLeader(component=component))):
                self._follow(sender, component)
            case Received(envelope=m.Envelope(sender=sender, body=m.UnfollowLeader(component=component))):
                self._followers.get(sender, {}).pop(component, lambda: None)()
            case PeerLost():
                self._forget(Address(event.address))
            case _:
                pass  # nothing else is meant for here

    def _follow(self, follower: Address, component: str) -> None:
        followed = self._followers.setdefault(follower, {})
        followed.pop(component, lambda: None)()

        def announce(leader: m.Leader | None) -> None:
            body = m.LeaderIs(component=component, leader=leader)
            self._rpc.send(m.Envelope(sender=self.address, recipient=follower, body=body))

        followed[component] = self._leaders.watch(component, announce)

    def _forget(self, follower: Address) -> None:
        for unwatch in self._followers.pop(follower, {}).values():
            unwatch()


class RemoteLeaders:
    """A LeaderRetrieval that asks the LeaderAnnouncer at `announcer`; `name` is this process's own there."""

    def __init__(self, rpc: Rpc, name: str, announcer: Address) -> None:
        self.address = rpc.address(f"{ANNOUNCER}/{name}")
        self._rpc, self._announcer = rpc, announcer
        self._former: dict[Address, None] = {}
        self._listeners: dict[str, list[Listener]] = {}
        self._known: dict[str, m.Leader] = {}
        self._again: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._rpc.register(self.address, self)

    def ask_at(self, announcer: Address) -> None:
        """From now on another process knows who leads; what the former ones say does not count."""
        if announcer != self._announcer:
            self._former[self._announcer] = None
            self._former.pop(announcer, None)
            self._announcer = announcer
            if self._again is not None:
                self._again.cancel()
            self._ask_again()

    def stop(self) -> None:
        self._rpc.unregister(self.address)
        if self._again is not None:
            self._again.cancel()

    def watch(self, component: str, listener: Listener) -> Callable[[], None]:
        listeners = self._listeners.setdefault(component, [])
        listeners.append(listener)
        if component in self._known:
            listener(self._known[component])
        if len(listeners) == 1:
            self._ask(m.FollowLeader(component=component))

        def end() -> None:
            listeners.remove(listener)
            if not listeners and self._listeners.get(component) is listeners:
                del self._listeners[component]
                self._known.pop(component, None)
                self._ask(m.UnfollowLeader(component=component))

        return end

    def tell(self, event: Event) -> None:
        match event:
            case Received(envelope=m.Envelope(sender=sender, body=m.LeaderIs() as body)) if sender not in self._former:
                self._learn(body.component, body.leader)
            case PeerLost() if self._again is None:
                self._again = asyncio.get_running_loop().call_later(ASK_AGAIN_S, self._ask_again)
            case _:
                pass  # nothing else is meant for here

    def _learn(self, component: str, leader: m.Leader | None) -> None:
        if component not in self._listeners:
            return
        if leader is None:
            self._known.pop(component, None)
        else:
            self._known[component] = leader
        for listener in list(self._listeners[component]):
            listener(leader)

    def _ask_again(self) -> None:
        self._again = None
        for component in self._listeners:
            self._ask(m.FollowLeader(component=component))

    def _ask(self, body: m.FollowLeader | m.UnfollowLeader) -> None:
        self._rpc.send(m.Envelope(sender=self.address, recipient=self._announcer, body=body))
