"""Whether the process of a leader is there, seen from a standby: by a connection to it that is kept.

When a process dies its connections break at once, and nobody listens at its port any more. Both together say
more, and sooner, than signs of life that fail to come.
"""

import asyncio
from collections.abc import Callable

from firesteel.adapters.rpc.channel import Channel
from firesteel.adapters.rpc.frames import ProtocolError
from firesteel.adapters.rpc.settings import NetworkSettings
from firesteel.adapters.rpc.stream import PeerStream
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.register import Registered

VIGIL = "vigil"
"""Purpose of connections on which nothing is said."""

LOOK_AGAIN_S = 0.05
"""Between a connection that broke and the next one."""


async def keep_company(stream: PeerStream) -> str:
    """Serve such a connection to its end, at either side; returns why it ended."""
    return await Channel(stream, lambda way, frame: None).run()


class Vigil:
    """Watches one leader after the other: calls `on_lost` when the connection to it breaks, and `on_gone` with its
    epoch when nobody listens where it did.

    At once if it could be reached in this epoch; else after `suspicion_s`, since a firewall refuses too.
    """

    def __init__(
        self,
        settings: NetworkSettings,
        *,
        retry_s: float,
        suspicion_s: float,
        on_lost: Callable[[], None],
        on_gone: Callable[[int], None],
    ) -> None:
        self._settings, self._on_lost, self._on_gone = settings, on_lost, on_gone
        self._retry_s, self._suspicion_s = retry_s, suspicion_s
        self._tasks = BackgroundTasks()
        self._epoch = 0

    def watch(self, leader: Registered) -> None:
        """From now on this one; idempotent."""
        if leader.epoch != self._epoch:
            self.end()
            self._epoch = leader.epoch
            self._tasks.start(self._watch(leader), "vigil over the leader")

    def end(self) -> None:
        self._epoch = 0
        self._tasks.cancel()

    async def close(self) -> None:
        await self._tasks.close()

    async def _watch(self, leader: Registered) -> None:
        was_reached, refused_since_s = False, 0.0
        now_s = asyncio.get_running_loop().time
        while True:
            try:
                stream = await PeerStream.connect(leader.record.host, leader.record.port, VIGIL, self._settings)
            except ConnectionRefusedError:
                refused_since_s = refused_since_s or now_s()
                if was_reached or now_s() - refused_since_s >= self._suspicion_s:
                    self._on_gone(leader.epoch)
                await asyncio.sleep(self._retry_s)
            except (OSError, ProtocolError):
                refused_since_s = 0.0
                await asyncio.sleep(self._retry_s)
            else:
                was_reached, refused_since_s = True, 0.0
                await keep_company(stream)
                self._on_lost()
                await asyncio.sleep(LOOK_AGAIN_S)
