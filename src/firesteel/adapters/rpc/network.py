"""The network transport: envelopes to endpoints in this and in other processes.

A process that listens gives its endpoints addresses that say where: `firesteel://host:port/name`.
Whoever has such an address connects to it. Endpoints of a process that does not listen are reached
over the connection which their own messages came on: a worker needs no open port. All endpoints of
two processes share one connection.
"""

import logging
from collections.abc import Callable
from urllib.parse import urlsplit

from firesteel.adapters.rpc.channel import Channel, Link, Way
from firesteel.adapters.rpc.frames import Absent, Frame, FrameTooLarge, Ping, Refused, Superseded, encode_frame
from firesteel.adapters.rpc.settings import NetworkSettings
from firesteel.adapters.rpc.stream import PeerStream
from firesteel.core.effects import PeerLost, Received
from firesteel.model.ids import Address
from firesteel.model.messages import Envelope
from firesteel.runtime.services import Mailbox

SCHEME = "firesteel"

logger = logging.getLogger(__name__)


def address_at(host: str, port: int, name: str) -> Address:
    """The address of an endpoint of a process that listens there."""
    return Address(f"{SCHEME}://{f'[{host}]' if ':' in host else host}:{port}/{name}")


class NetworkRpc:
    """Implements runtime.services.Rpc. `serve` is what a PeerServer hands connections for messages to.

    `on_refused` is told when a process that this one has to talk to is none it may talk to.
    """

    def __init__(self, settings: NetworkSettings, on_refused: Callable[[Refused], None] = lambda error: None) -> None:
        self._settings, self._on_refused = settings, on_refused
        self.frames_in = self.frames_out = 0
        """Frames from and to other processes, by now."""
        self._listens_at: tuple[str, int] | None = None
        self._mailboxes: dict[Address, Mailbox] = {}
        self._links: dict[tuple[str, int], Link] = {}
        self._channels: dict[Channel, None] = {}
        self._routes: dict[Address, Way] = {}
        """Where senders in processes that do not listen were heard of last."""
        self._peers: dict[Address, dict[Address, Way | None]] = {}
        """Whom an endpoint here has talked to, and over what; None is this process."""

    # ── Rpc ──────────────────────────────────────────────────────────────────────────────────
    def address(self, name: str) -> Address:
        return Address(name) if self._listens_at is None else address_at(*self._listens_at, name)

    def register(self, address: Address, mailbox: Mailbox) -> None:
        assert address not in self._mailboxes, f"{address} is taken"
        self._mailboxes[address] = mailbox

    def unregister(self, address: Address) -> None:
        if self._mailboxes.pop(address, None) is None:
            return
        told: dict[Way, None] = {}
        for peer, way in self._peers.pop(address, {}).items():
            if way is None:
                self._lose(peer, address, "it has stopped")
            elif way not in told:
                told[way] = None
                self._say(way, Absent(address, "it has stopped"))

    def send(self, envelope: Envelope) -> None:
        sender, recipient = envelope.sender, envelope.recipient
        mailbox = self._mailboxes.get(recipient)
        if mailbox is not None:
            self._note(recipient, sender, None)
            self._note(sender, recipient, None)
            mailbox.tell(Received(envelope))
            return
        way = self._way_to(recipient)
        if way is None:
            self._lose(sender, recipient, "nobody is there")
            return
        self._note(sender, recipient, way)
        try:
            way.send(encode_frame(envelope, self._settings.frame_limit_bytes))
            self.frames_out += 1
        except FrameTooLarge as error:
            logger.error("%s can't be sent to %s: %s", type(envelope.body).__name__, recipient, error)  # noqa: TRY400
            self._lose(sender, recipient, str(error))

    @property
    def connections(self) -> int:
        """Connections with other processes, also those that are being made."""
        return len(self._links) + len(self._channels)

    # ── connections ──────────────────────────────────────────────────────────────────────────
    def listens_at(self, host: str, port: int) -> None:
        """Endpoints that are made from now on have addresses there."""
        self._listens_at = (host, port)

    async def serve(self, stream: PeerStream) -> None:
        """Carry the messages of a connection that somebody has made to here."""
        channel = Channel(stream, self._on_frame)
        self._channels[channel] = None
        reason = "this process stops"
        try:
            reason = await channel.run()
        finally:
            del self._channels[channel]
            self._on_lost(channel, reason)
            logger.info("the connection from %s ended: %s", stream.peer.node, reason)

    async def close(self) -> None:
        """End all connections, after what was sent has left."""
        for link in self._links.values():
            await link.close()
        self._links.clear()
        for channel in list(self._channels):
            await channel.close()

    def _way_to(self, address: Address) -> Way | None:
        target = _target(address)
        if target is None:
            return self._routes.get(address)
        if target == self._listens_at:
            return None
        if target not in self._links:
            self._links[target] = Link(
                *target, self._settings, on_frame=self._on_frame, on_lost=self._on_lost, on_failed=self._on_failed
            )
        return self._links[target]

    def _on_failed(self, error: Exception) -> None:
        if isinstance(error, Refused):
            self._on_refused(error)

    def _on_frame(self, way: Way, frame: Frame) -> None:
        self.frames_in += 1
        match frame:
            case Envelope():
                self._deliver(way, frame)
            case Absent():
                if (
                    self._routes.get(frame.address, way) is way
                ):  # one who was replaced knows nothing of who came after him
                    self._on_absent(frame)
            case Superseded():
                self._on_refused(Refused(f"{frame.node} has come later, under the same name: give each another one"))
            case Ping():
                pass
            case _:
                logger.warning("ignored a %s among messages", type(frame).__name__)

    def _deliver(self, way: Way, envelope: Envelope) -> None:
        recipient = self._here(envelope.recipient)
        mailbox = self._mailboxes.get(recipient)
        if mailbox is None:
            self._say(way, Absent(envelope.recipient, "nobody is there"))
            return
        if _target(envelope.sender) is None and self._routes.get(envelope.sender) is not way:
            if self._is_superseded(envelope.sender, way):
                return
            self._replace_route(envelope.sender, way)
        self._note(recipient, envelope.sender, way)
        mailbox.tell(Received(envelope))

    def _is_superseded(self, sender: Address, way: Way) -> bool:
        """Whether a newer process has its name: of two only one can be heard, and the older one may not know yet."""
        known = self._routes.get(sender)
        if not isinstance(known, Channel) or not isinstance(way, Channel):
            return False
        if known.peer.process == way.peer.process or known.number < way.number:
            return False
        self._say(way, Superseded(sender, known.peer.node))
        return True

    def _replace_route(self, sender: Address, way: Way) -> None:
        """It has come back before the loss of its old connection was noticed; what was said over that is lost.

        Or it is another process with the same name. The older one is told, in case it is still there.
        """
        old = self._routes.get(sender)
        if old is not None:
            self._on_absent(Absent(sender, "it has made another connection"))
        self._routes[sender] = way
        if isinstance(old, Channel) and isinstance(way, Channel) and old.peer.process != way.peer.process:
            logger.warning("%s: %s takes the place of %s", sender, way.peer.node, old.peer.node)
            self._say(old, Superseded(sender, way.peer.node))

    def _here(self, address: Address) -> Address:
        """An address as this process writes it: the same host has several names, and connections find it by any."""
        if address in self._mailboxes or self._listens_at is None or _target(address) is None:
            return address
        return address_at(*self._listens_at, urlsplit(address).path.removeprefix("/"))

    def _on_absent(self, frame: Absent) -> None:
        self._routes.pop(frame.address, None)
        for here, peers in self._peers.items():
            if frame.address in peers:
                self._lose(here, frame.address, frame.reason)

    def _on_lost(self, way: Way, reason: str) -> None:
        """Tell everybody who has talked over it. A peer that came back on another way is not lost."""
        for address in [address for address, known in self._routes.items() if known is way]:
            del self._routes[address]
        for here, peers in self._peers.items():
            for peer in [peer for peer, known in peers.items() if known is way]:
                self._lose(here, peer, reason)

    def _note(self, here: Address, peer: Address, way: Way | None) -> None:
        if here in self._mailboxes:
            self._peers.setdefault(here, {})[peer] = way

    def _lose(self, here: Address, peer: Address, reason: str) -> None:
        self._peers.get(here, {}).pop(peer, None)
        if here in self._mailboxes:
            self._mailboxes[here].tell(PeerLost(peer, reason))

    def _say(self, way: Way, frame: Frame) -> None:
        way.send(encode_frame(frame, self._settings.frame_limit_bytes))


def _target(address: Address) -> tuple[str, int] | None:
    """Host and port at which the process of an address listens; None when it does not say any."""
    if not address.startswith(f"{SCHEME}://"):
        return None
    try:
        parts = urlsplit(address)
        return (parts.hostname, parts.port) if parts.hostname and parts.port else None
    except ValueError:
        return None
