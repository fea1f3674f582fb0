"""Whether a leader is gone, seen by who connects to it."""

import asyncio
import socket
from typing import Any

import pytest

from firesteel.adapters.ha.vigil import Vigil
from firesteel.adapters.rpc.settings import network_settings
from firesteel.core.leadership.lease import Sign
from firesteel.model.options import Configuration
from firesteel.runtime.register import LeaderRecord, Registered
from tests.network.processes import until

NO_FAMILY = 4711
"""What no machine has an address of."""

REFUSES = (socket.AF_INET, socket.IPPROTO_TCP, "127.0.0.1")
REFUSES_TOO = (socket.AF_INET, socket.IPPROTO_TCP, "127.0.0.2")
FAILS = (socket.AF_INET, socket.IPPROTO_UDP, "127.0.0.3")
NO_WAY = (NO_FAMILY, socket.IPPROTO_TCP, "::1")


@pytest.mark.parametrize(
    ("addresses", "is_gone"),
    [
        ((REFUSES, REFUSES_TOO), True),
        ((REFUSES, FAILS), False),
        ((NO_WAY, REFUSES), True),
        ((NO_WAY, FAILS), False),
    ],
)
def test_a_host_with_several_addresses_refuses_when_all_do(
    addresses: tuple[tuple[int, int, str], ...], is_gone: bool
) -> None:
    looked_up = 0
    gone: list[int] = []

    async def story(port: int) -> None:
        async def look_up(*_: object, **__: object) -> list[Any]:
            nonlocal looked_up
            looked_up += 1
            return [(family, socket.SOCK_STREAM, protocol, "", (host, port)) for family, protocol, host in addresses]

        asyncio.get_running_loop().getaddrinfo = look_up  # type: ignore[method-assign]
        vigil = Vigil(
            network_settings(Configuration(), "standby"),
            retry_s=0.01,
            suspicion_s=0,
            on_lost=lambda: None,
            on_gone=gone.append,
            on_over=lambda: None,
        )
        vigil.watch(Registered(7, LeaderRecord(name="a", node="a", host="several.test", port=port), Sign(7, 1)))

        async def has_tried() -> bool:
            return looked_up >= 6

        await until(has_tried)
        await vigil.close()

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        asyncio.run(story(silent.getsockname()[1]))
    assert set(gone) == ({7} if is_gone else set())
