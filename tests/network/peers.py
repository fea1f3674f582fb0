"""Processes in miniature: endpoints that keep what they are told, on real connections over loopback."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TypeVar

from firesteel.adapters.rpc.channel import MESSAGES
from firesteel.adapters.rpc.network import NetworkRpc
from firesteel.adapters.rpc.server import PeerServer
from firesteel.adapters.rpc.settings import NetworkSettings, network_settings
from firesteel.core.effects import Event, PeerLost, Received
from firesteel.model import messages as m
from firesteel.model.ids import Address
from firesteel.model.options import Configuration

HOST = "127.0.0.1"
LIMIT_S = 300.0
"""Nothing here takes that long, but on a machine that is busy with other things."""

E = TypeVar("E", bound=Event)


class Box:
    """An endpoint's mailbox."""

    def __init__(self, node: "Node", name: str) -> None:
        self.node, self.address = node, node.rpc.address(name)
        self.events: list[Event] = []
        self._told = asyncio.Event()
        node.rpc.register(self.address, self)

    def tell(self, event: Event) -> None:
        self.events.append(event)
        self._told.set()

    def send(self, recipient: Address, text: str) -> None:
        body = m.FollowLeader(component=text)
        self.node.rpc.send(m.Envelope(sender=self.address, recipient=recipient, body=body))

    @property
    def texts(self) -> list[str]:
        """What was received, in order."""
        return [e.envelope.body.component for e in self.events if isinstance(e, Received)]  # type: ignore[union-attr]

    @property
    def lost(self) -> list[PeerLost]:
        return [event for event in self.events if isinstance(event, PeerLost)]

    async def until(self, holds: Callable[["Box"], object]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not holds(self):
                self._told.clear()
                await self._told.wait()


class Node:
    """One side. `serve` has it listen."""

    def __init__(self, options: Mapping[str, str] | None = None, name: str = "node") -> None:
        self.settings: NetworkSettings = network_settings(Configuration(options), name)
        self.refusals: list[Exception] = []
        self.rpc = NetworkRpc(self.settings, self.refusals.append)
        self.server = PeerServer(self.settings, {MESSAGES: self.rpc.serve})
        self.port = 0

    async def listen(self, port: int = 0) -> None:
        self.port = await self.server.listen(HOST, port)
        self.rpc.listens_at(HOST, self.port)

    async def close(self) -> None:
        await self.server.close()
        await self.rpc.close()


@contextlib.asynccontextmanager
async def nodes(
    options: Mapping[str, str] | None = None, others: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[Node, Node]]:
    """One that listens, and one that does not; no task is left in the end."""
    before = asyncio.all_tasks()
    here, there = Node(options, "here"), Node(options if others is None else others, "there")
    await here.listen()
    try:
        yield here, there
    finally:
        await there.close()
        await here.close()
    async with asyncio.timeout(LIMIT_S):
        while asyncio.all_tasks() - before:
            await asyncio.sleep(0)
