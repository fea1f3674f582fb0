"""In-process transport: every endpoint lives on one event loop, messages are handed over as they are."""

from firesteel.core.effects import PeerLost, Received
from firesteel.model.ids import Address
from firesteel.model.messages import Envelope
from firesteel.runtime.services import Mailbox


class InProcessRpc:
    """Delivers at once, in order. Who has talked to an endpoint that goes is told PeerLost."""

    def __init__(self) -> None:
        self._mailboxes: dict[Address, Mailbox] = {}
        self._peers: dict[Address, dict[Address, None]] = {}

    def address(self, name: str) -> Address:
        return Address(name)

    def register(self, address: Address, mailbox: Mailbox) -> None:
        assert address not in self._mailboxes, f"{address} is taken"
        self._mailboxes[address] = mailbox

    def unregister(self, address: Address) -> None:
        if self._mailboxes.pop(address, None) is None:
            return
        for peer in self._peers.pop(address, {}):
            self._peers.get(peer, {}).pop(address, None)
            if peer in self._mailboxes:
                self._mailboxes[peer].tell(PeerLost(address, "it has stopped"))

    def send(self, envelope: Envelope) -> None:
        sender, recipient = envelope.sender, envelope.recipient
        mailbox = self._mailboxes.get(recipient)
        if mailbox is None:
            if sender in self._mailboxes:
                self._mailboxes[sender].tell(PeerLost(recipient, "nobody is there"))
            return
        self._peers.setdefault(recipient, {})[sender] = None
        self._peers.setdefault(sender, {})[recipient] = None
        mailbox.tell(Received(envelope))
