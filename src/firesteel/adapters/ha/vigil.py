"""Whether the process of a leader is there, seen from a standby: by a connection to it that is kept.

When a process dies its connections break at once, and nobody listens at its port any more. Both together say
more, and sooner, than signs of life that fail to come.
"""

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable

from firesteel.adapters.rpc.channel import Channel, Way
from firesteel.adapters.rpc.frames import ClusterOver, Frame, ProtocolError, Refused
from firesteel.adapters.rpc.refusals import HandshakeFailed
from firesteel.adapters.rpc.settings import NetworkSettings
from firesteel.adapters.rpc.stream import PeerStream
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.register import Registered

VIGIL = "vigil"
"""Purpose of connections on which nothing is said, but that the cluster is over."""

LOOK_AGAIN_S = 0.05
"""Time between a connection that broke and the next one."""

NO_WAY = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.ENETUNREACH)
"""Errors of an address of IPv6 on a machine that has none, or only to itself."""

logger = logging.getLogger(__name__)


class Company:
    """The standbys that keep such a connection to this master."""

    def __init__(self) -> None:
        self._channels: dict[int, tuple[Channel, PeerStream]] = {}

    async def serve(self, stream: PeerStream) -> str:
        """Serve a connection to its end; returns why it ended."""
        channel = Channel(stream, lambda way, frame: None)
        self._channels[channel.number] = channel, stream
        try:
            return await channel.run()
        finally:
            del self._channels[channel.number]

    def names(self) -> list[str]:
        """Their processes, for people."""
        return sorted(stream.peer.node for _, stream in self._channels.values())

    async def dismiss(self) -> None:
        """Tell them all that the cluster is over. Who misses it takes over, and is told when it is asked to end, too."""
        for channel, stream in list(self._channels.values()):
            with contextlib.suppress(OSError):
                channel.send(stream.encode(ClusterOver()))
                await channel.close()


class Vigil:
    """Watches one leader after the other: calls `on_lost` when the connection to it breaks, and `on_gone` with its
    epoch when nobody listens where it did; `on_over` when it says that the cluster has ended with it.

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
        on_over: Callable[[], None],
    ) -> None:
        self._settings, self._on_lost, self._on_gone, self._on_over = settings, on_lost, on_gone, on_over
        self._retry_s, self._suspicion_s = retry_s, suspicion_s
        self._tasks = BackgroundTasks()
        self._epoch = self._told = 0

    def watch(self, leader: Registered) -> None:
        """Watch this leader from now on; idempotent."""
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
            except (OSError, ProtocolError) as error:
                if await self._is_refused(leader, error):
                    refused_since_s = refused_since_s or now_s()
                    if was_reached or now_s() - refused_since_s >= self._suspicion_s:
                        self._on_gone(leader.epoch)
                else:
                    if isinstance(error, Refused | HandshakeFailed):
                        self._announce(leader, error)
                    refused_since_s = 0.0
                await asyncio.sleep(self._retry_s)
            else:
                was_reached, refused_since_s = True, 0.0
                await Channel(stream, self._on_frame).run()
                self._on_lost()
                await asyncio.sleep(LOOK_AGAIN_S)

    async def _is_refused(self, leader: Registered, error: Exception) -> bool:
        """Of a host with several addresses asyncio raises one error, which does not say what each of them was."""
        if type(error) is not OSError or error.errno is not None:
            return isinstance(error, ConnectionRefusedError)
        try:
            async with asyncio.timeout(self._settings.connect_timeout_s):
                return await _all_refuse(leader.record.host, leader.record.port)
        except OSError:
            return False

    def _announce(self, leader: Registered, refusal: Refused | HandshakeFailed) -> None:
        """Tell of a refusal, once a leader."""
        if self._told != leader.epoch:
            self._told = leader.epoch
            hint = " (do two clusters share a storage?)" if isinstance(refusal, Refused) else ""
            text = f"the leader in epoch %d, at %s:%d, is none that this master can follow: %s{hint}"
            logger.warning(text, leader.epoch, leader.record.host, leader.record.port, refusal)

    def _on_frame(self, way: Way, frame: Frame) -> None:
        if isinstance(frame, ClusterOver):
            self._on_over()


async def _all_refuse(host: str, port: int) -> bool:
    """Whether all addresses of the host do, but for those of a kind that this machine has no way to. Raises OSError."""
    loop, refused = asyncio.get_running_loop(), 0
    for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        try:
            with socket.socket(family, kind, protocol) as connection:
                connection.setblocking(False)
                await loop.sock_connect(connection, address)
                return False
        except ConnectionRefusedError:
            refused += 1
        except OSError as error:
            if error.errno not in NO_WAY:
                raise
    return refused > 0
