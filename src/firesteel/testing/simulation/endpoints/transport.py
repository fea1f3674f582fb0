"""The transport between simulated processes: what `adapters.rpc.network` promises, and nothing more.

Messages between two processes arrive in order, or not at all once their connection has broken; then both ends are
told, of every endpoint that has talked over it. An endpoint that is not there is told of, too.
"""

import contextvars
import random
from collections.abc import Callable
from functools import partial

from firesteel.core.effects import PeerLost, Received
from firesteel.model.ids import Address
from firesteel.model.messages import Envelope
from firesteel.runtime.services import Mailbox
from firesteel.testing.simulation.endpoints.loop import Process, SimulatedLoop


class SimulatedNetwork:
    """All processes and the connections between them."""

    def __init__(self, loop: SimulatedLoop, chance: random.Random, delay_s_max: float) -> None:
        self.loop, self._chance = loop, chance
        self.delay_s_max = delay_s_max
        self.rpcs: dict[str, SimulatedRpc] = {}
        self.note: Callable[[str], None] = lambda line: None
        """Told of every message that arrives."""
        self._free_at_s: dict[tuple[str, str], float] = {}
        """When the last message on its way arrives."""
        self._breaks: dict[frozenset[str], int] = {}
        self._cut_until_s: dict[frozenset[str], float] = {}

    def join(self, process: Process) -> "SimulatedRpc":
        rpc = self.rpcs[process.name] = SimulatedRpc(self, process)
        return rpc

    def leave(self, process: Process) -> None:
        """The process is gone: who has talked to it notices, sooner or later."""
        del self.rpcs[process.name]
        for other in list(self.rpcs):
            self._break(other, process.name, self._chance.uniform(0.0, 2 * self.delay_s_max))

    def break_connection(self, one: str, other: str) -> None:
        """What is under way is lost; both notice, and may connect again at once."""
        self._breaks[frozenset((one, other))] = self._breaks.get(frozenset((one, other)), 0) + 1
        self._break(one, other, 0.0)
        self._break(other, one, self._chance.uniform(0.0, self.delay_s_max))

    def cut(self, one: str, other: str, until_s: float) -> None:
        """Nothing gets through for a while; the connection holds."""
        self._cut_until_s[frozenset((one, other))] = until_s

    def heal(self) -> None:
        self._cut_until_s.clear()

    def carry(self, source: Process, target: str, action: Callable[["SimulatedRpc"], None]) -> None:
        """Do something at another process, after all that was sent there before; or not, when the connection breaks."""
        pair, link = frozenset((source.name, target)), (source.name, target)
        arrives_s = max(self._free_at_s.get(link, 0.0), self._cut_until_s.get(pair, 0.0))
        arrives_s = max(arrives_s, self.loop.time() + self._chance.uniform(0.0, self.delay_s_max))
        self._free_at_s[link] = arrives_s
        breaks = self._breaks.get(pair, 0)

        def arrive() -> None:
            rpc = self.rpcs.get(target)
            if rpc is not None and self._breaks.get(pair, 0) == breaks:
                rpc.process.context.copy().run(partial(self._soon, rpc, action))
            elif rpc is None and source.name in self.rpcs:
                self._break(source.name, target, self.delay_s_max)

        self.loop.call_at(arrives_s, arrive, context=contextvars.Context())

    def _soon(self, rpc: "SimulatedRpc", action: Callable[["SimulatedRpc"], None]) -> None:
        self.loop.call_soon(action, rpc)

    def _break(self, here: str, there: str, after_s: float) -> None:
        def notice() -> None:
            rpc = self.rpcs.get(here)
            if rpc is not None:
                rpc.process.context.copy().run(partial(self._soon, rpc, lambda found: found.lose(there)))

        self.loop.call_later(after_s, notice, context=contextvars.Context())


class SimulatedRpc:
    """One process's part. Implements runtime.services.Rpc."""

    def __init__(self, network: SimulatedNetwork, process: Process) -> None:
        self.process, self._network = process, network
        self.mailboxes: dict[Address, Mailbox] = {}
        self._peers: dict[Address, dict[Address, None]] = {}

    def address(self, name: str) -> Address:
        return Address(f"{self.process.name}/{name}")

    def register(self, address: Address, mailbox: Mailbox) -> None:
        assert address not in self.mailboxes, f"{address} is taken"
        self.mailboxes[address] = mailbox

    def unregister(self, address: Address) -> None:
        if self.mailboxes.pop(address, None) is None:
            return
        for peer in self._peers.pop(address, {}):
            self._report_absent(peer, address, "it has stopped")

    def send(self, envelope: Envelope) -> None:
        target = process_of(envelope.recipient)
        self._peers.setdefault(envelope.sender, {})[envelope.recipient] = None
        if target == self.process.name:
            self.deliver(envelope)
        else:
            self._network.carry(self.process, target, lambda rpc: rpc.deliver(envelope))

    def deliver(self, envelope: Envelope) -> None:
        mailbox = self.mailboxes.get(envelope.recipient)
        if mailbox is None:
            self._report_absent(envelope.sender, envelope.recipient, "nobody is there")
            return
        self._peers.setdefault(envelope.recipient, {})[envelope.sender] = None
        self._network.note(f"{envelope.recipient} <- {type(envelope.body).__name__} of {envelope.sender}")
        mailbox.tell(Received(envelope))

    def absent(self, peer: Address, reason: str) -> None:
        """Somebody elsewhere, or here, is not there."""
        for here, peers in list(self._peers.items()):
            if peer in peers:
                del peers[peer]
                if here in self.mailboxes:
                    self.mailboxes[here].tell(PeerLost(peer, reason))

    def lose(self, process: str) -> None:
        """The connection to another process is lost."""
        talked = dict.fromkeys(peer for peers in self._peers.values() for peer in peers if process_of(peer) == process)
        for peer in talked:
            self.absent(peer, "the connection is lost")

    def _report_absent(self, listener: Address, address: Address, reason: str) -> None:
        target = process_of(listener)
        if target == self.process.name:
            self.absent(address, reason)
        else:
            self._network.carry(self.process, target, lambda rpc: rpc.absent(address, reason))


def process_of(address: Address) -> str:
    """The name of the process that an endpoint is in."""
    return address.split("/", 1)[0]
