"""Leader election by a register in a directory that several masters share: one of them leads, in everything."""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from firesteel.adapters.ha.embedded import EmbeddedLeaderElection
from firesteel.adapters.ha.register import LeaderRecord, LeaderRegister, Registered
from firesteel.core.leadership.lease import LeaseWatch, Liveness
from firesteel.model.messages import Leader
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.services import Clock, Contender

GRANT_BITS = 30
"""Of a token's epoch, for the grants within one leadership of the process; the others are the register's epoch."""

MISSED_SIGNS_SUSPECT = 2
"""Times of retry that a leader may be silent before others look whether it can be reached."""

logger = logging.getLogger(__name__)


class FileLeaderElection:
    """A LeaderElection whose components are all led by the process that leads. `record` is this one's."""

    def __init__(
        self, register: LeaderRegister, record: LeaderRecord, clock: Clock, *, lease_ms: int, retry_ms: int
    ) -> None:
        self._register, self._record, self._clock = register, record, clock
        self._retry_s = retry_ms / 1000
        self._watch = LeaseWatch(MISSED_SIGNS_SUSPECT * retry_ms, lease_ms)
        self._components = EmbeddedLeaderElection(record.name, is_open=False)
        self._epoch = 0
        """In which this process leads; 0 while it does not."""
        self._tasks = BackgroundTasks()

    async def start(self) -> None:
        """Take part. Raises OSError when the register can't be read or written."""
        await self._look()
        self._tasks.start(self._keep_looking(), "leader election")

    async def close(self) -> None:
        """Let others lead; what is led from here has been stopped by now."""
        await self._tasks.close()
        if self._epoch:
            epoch, self._epoch = self._epoch, 0
            self._components.close()
            with contextlib.suppress(OSError):
                await asyncio.to_thread(self._register.give_up, epoch)

    # ── LeaderElection ───────────────────────────────────────────────────────────────────────
    def contend(self, component: str, contender: Contender) -> Callable[[], None]:
        return self._components.contend(component, contender)

    def confirm(self, component: str, leader: Leader) -> None:
        self._components.confirm(component, leader)

    def watch(self, component: str, listener: Callable[[Leader | None], None]) -> Callable[[], None]:
        return self._components.watch(component, listener)

    # ── the process ──────────────────────────────────────────────────────────────────────────
    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(self._retry_s)
            try:
                await self._look()
            except OSError as error:
                logger.warning("the register of the leader can't be used, again in %g s (%s)", self._retry_s, error)

    async def _look(self) -> None:
        if self._epoch:
            if not await asyncio.to_thread(self._register.touch, self._epoch):
                self._depose()
            return
        known = await asyncio.to_thread(self._register.newest)
        if known is None or await self._may_challenge(known):
            after = known.epoch if known is not None else 0
            epoch = await asyncio.to_thread(self._register.claim, self._record, after)
            if epoch is not None:
                logger.info("%s leads, in epoch %d", self._record.name, epoch)
                self._epoch = epoch
                self._components.open(epoch << GRANT_BITS)

    def _depose(self) -> None:
        logger.warning("%s leads no more: another master has taken over from epoch %d", self._record.name, self._epoch)
        self._epoch = 0
        self._components.close()

    async def _may_challenge(self, known: Registered) -> bool:
        """Whether the leader is gone, as far as can be told; one whose port is this process's own is."""
        there, here = known.record, self._record
        if (there.node, there.host, there.port) == (here.node, here.host, here.port):
            return True
        liveness = self._watch.look(known.sign, self._clock.now_ms())
        return liveness is Liveness.DEAD or (liveness is Liveness.SUSPECT and await self._refuses(there))

    async def _refuses(self, leader: LeaderRecord) -> bool:
        """Whether nobody listens where the leader did."""
        try:
            async with asyncio.timeout(self._retry_s):
                _, writer = await asyncio.open_connection(leader.host, leader.port)
        except ConnectionRefusedError:
            return True
        except (OSError, TimeoutError):
            return False
        writer.transport.abort()
        return False
