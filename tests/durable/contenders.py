"""Masters as far as elections go: who contends in a register, whose port takes connections."""

import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from firesteel.adapters.ha.election import RegisterElection
from firesteel.adapters.rpc.settings import network_settings
from firesteel.model.ids import FencingToken
from firesteel.model.options import Configuration
from firesteel.runtime.clock import SystemClock
from firesteel.runtime.register import LeaderRecord, LeaderRegister
from tests.network.processes import until


def record(name: str, port: int = 1) -> LeaderRecord:
    return LeaderRecord(name=name, node=name, host="127.0.0.1", port=port)


@dataclass
class Service:
    """A contender that notes what it is told."""

    tokens: list[FencingToken] = field(default_factory=list)
    leads: bool = False

    def on_granted(self, token: FencingToken) -> None:
        self.tokens.append(token)
        self.leads = True

    def on_revoked(self) -> None:
        self.leads = False


@contextlib.asynccontextmanager
async def contending(
    register: LeaderRegister, name: str, *, lease_ms: int, retry_ms: int, renew_deadline_ms: int | None = None
) -> AsyncIterator[tuple[RegisterElection, Service]]:
    """One who does, in a register that is open."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        election = RegisterElection(
            register,
            name,
            SystemClock(),
            network=network_settings(Configuration(), name),
            lease_ms=lease_ms,
            retry_ms=retry_ms,
            renew_deadline_ms=renew_deadline_ms,
        )
        service = Service()
        election.contend("it", service)
        await election.start(record(name, listening.getsockname()[1]))
        try:
            yield election, service
        finally:
            await election.close()


async def until_it_leads(service: Service, expected: bool = True) -> None:
    async def is_so() -> bool:
        return service.leads is expected

    await until(is_so)
