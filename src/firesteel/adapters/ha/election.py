"""Leader election by a register that several masters share: one of them leads, in everything."""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from firesteel.adapters.ha.embedded import EmbeddedLeaderElection
from firesteel.adapters.ha.vigil import Vigil
from firesteel.adapters.rpc.settings import NetworkSettings
from firesteel.core.leadership.grants import grants_from
from firesteel.core.leadership.lease import LeaseWatch, Sign
from firesteel.model.messages import Leader
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.register import LeaderRecord, LeaderRegister, Registered
from firesteel.runtime.services import Clock, Contender

MISSED_SIGNS_SUSPECT = 2
"""Times of retry for which a leader must refuse connections before it counts as gone, when it took none before."""

logger = logging.getLogger(__name__)


class RegisterElection:
    """A LeaderElection whose components are all led by the process that leads. `name` is this one's.

    A leader that can't reach the register, or waits for its answer, is suspended: it runs on, and `certain` is cleared, which holds back what
    must not be done by one who may have been replaced. After the deadline it takes itself for replaced.
    """

    def __init__(
        self,
        register: LeaderRegister,
        name: str,
        clock: Clock,
        *,
        network: NetworkSettings,
        lease_ms: int,
        retry_ms: int,
        renew_deadline_ms: int | None = None,
        on_over: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_over` is called when the leader says that the cluster has ended. The deadline is the lease unless it is given."""
        self._register, self._name, self._clock = register, name, clock
        self._retry_s = retry_ms / 1000
        self._renew_deadline_ms = lease_ms if renew_deadline_ms is None else renew_deadline_ms
        self._watch = LeaseWatch(lease_ms)
        suspicion_s = MISSED_SIGNS_SUSPECT * self._retry_s
        self._news = asyncio.Event()
        self._vigil = Vigil(
            network,
            retry_s=self._retry_s,
            suspicion_s=suspicion_s,
            on_lost=self._news.set,
            on_gone=self._leader_gone,
            on_over=on_over,
        )
        self._components = EmbeddedLeaderElection(name, is_open=False)
        self._epoch = 0
        """In which this process leads; 0 while it does not."""
        self._confirmed_ms = 0
        """When the register said so last."""
        self._gone = 0
        """An epoch whose leader refuses connections."""
        self._lost_after: int | None = None
        """The epoch after which it has claimed last in vain."""
        self._trouble = ""
        self._leader: Registered | None = None
        self._told = 0
        """The epoch of the leader that listeners were told of last."""
        self._listeners: list[Callable[[Registered], None]] = []
        self.certain = asyncio.Event()
        """Set unless this process leads and can't tell whether it still does."""
        self.certain.set()
        self._tasks = BackgroundTasks()
        self._touching: asyncio.Task[bool] | None = None
        """The sign of life that is under way."""
        self._touching_since_ms = 0
        self._touches = BackgroundTasks(on_error=lambda error: None)  # who waits for one is told

    @property
    def leads(self) -> bool:
        """Whether this process does, as far as it knows."""
        return self._epoch > 0

    @property
    def leader(self) -> Registered | None:
        """The leader by the newest entry of the register that was seen; None when it has given up or is gone."""
        return self._leader

    @property
    def trouble(self) -> str:
        return f"the register of the leader can't be used ({self._trouble})" if self._trouble else ""

    def watch_leader(self, listener: Callable[[Registered], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def start(self, record: LeaderRecord) -> None:
        """Take part, under this record."""
        self._record = record
        await self._try_to_look()
        self._tasks.start(self._listen(), "news of the register")
        self._tasks.start(self._keep_looking(), "leader election")

    async def close(self) -> None:
        """Let others lead; what is led from here has been stopped by now. Idempotent."""
        await self._tasks.close()
        await self._touches.close()
        await self._vigil.close()
        if self._epoch:
            epoch = self._epoch
            self._stop_leading()
            with contextlib.suppress(OSError):
                await self._register.give_up(epoch)

    # ── LeaderElection ───────────────────────────────────────────────────────────────────────
    def contend(self, component: str, contender: Contender) -> Callable[[], None]:
        return self._components.contend(component, contender)

    def confirm(self, component: str, leader: Leader) -> None:
        self._components.confirm(component, leader)

    def watch(self, component: str, listener: Callable[[Leader | None], None]) -> Callable[[], None]:
        return self._components.watch(component, listener)

    # ── the process ──────────────────────────────────────────────────────────────────────────
    async def _listen(self) -> None:
        while True:
            await self._register.changed(self._retry_s)
            self._news.set()

    async def _keep_looking(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            await self._try_to_look()

    async def _try_to_look(self) -> None:
        """Look at the register; what is wrong with it is told once."""
        try:
            await self._look()
        except OSError as error:
            known, self._trouble = self._trouble, str(error)
            if self._trouble != known:
                logger.warning("%s", self.trouble)
        else:
            self._trouble = ""

    async def _look(self) -> None:
        if self._epoch:
            await self._lead_on()
            return
        known = await self._register.newest()
        if known is None or self._may_challenge(known):
            self._leader = None
            await self._challenge(known.epoch if known is not None else 0)
        else:
            self._follow(known)
            self._vigil.watch(known)

    async def _lead_on(self) -> None:
        try:
            is_newest = await self._touch()
        except OSError:
            self.certain.clear()
            if self._clock.now_ms() - self._confirmed_ms >= self._renew_deadline_ms:
                logger.warning(
                    "%s leads no more: it could not reach the register for %g s",
                    self._name,
                    self._renew_deadline_ms / 1000,
                )
                self._stop_leading()
            raise
        self._confirmed_ms = self._touching_since_ms
        self.certain.set()
        if not is_newest:
            logger.warning("%s leads no more: another master has taken over from epoch %d", self._name, self._epoch)
            self._stop_leading()

    async def _touch(self) -> bool:
        """Give a sign of life, or wait on for the one that is under way: more of them would only take more threads.

        Raises OSError, also when there is no answer by the time of retry.
        """
        if self._touching is None:
            self._touching_since_ms = self._clock.now_ms()
            self._touching = self._touches.start(self._register.touch(self._epoch), "sign of life")
        done, _ = await asyncio.wait((self._touching,), timeout=self._retry_s)
        if not done:
            raise TimeoutError(f"it has not answered for {self._retry_s:g} s or more")
        touched, self._touching = self._touching, None
        return touched.result()

    async def _challenge(self, after: int) -> None:
        began_ms = self._clock.now_ms()
        epoch = await self._register.claim(self._record, after)
        if epoch is None:
            if after != self._lost_after:  # else nobody seems to have been first: not before the time of retry
                self._news.set()
            self._lost_after = after
            return
        logger.info("%s leads, in epoch %d", self._name, epoch)
        self._epoch, self._confirmed_ms = epoch, began_ms
        self._touching = None  # it was of an older epoch
        self._vigil.end()
        self._components.open(grants_from(epoch))
        self._follow(Registered(epoch, self._record, Sign(epoch, began_ms)))

    def _follow(self, leader: Registered) -> None:
        """Note a sign of life of the leader; whoever listens is told of a leader of another epoch."""
        is_known, self._leader = leader.epoch == self._told, leader
        self._told = leader.epoch
        for listener in () if is_known else tuple(self._listeners):
            listener(leader)

    def _stop_leading(self) -> None:
        """What waits to be certain is of no use any more, or refused by the storage."""
        self._epoch, self._leader = 0, None
        self._components.close()
        asyncio.get_running_loop().call_soon(self.certain.set)

    def _leader_gone(self, epoch: int) -> None:
        self._gone = epoch
        self._news.set()

    def _may_challenge(self, known: Registered) -> bool:
        """Whether the leader is gone, as far as can be told; one whose port is this process's own is."""
        there, here = known.record, self._record
        if (there.node, there.host, there.port) == (here.node, here.host, here.port) or known.epoch == self._gone:
            return True
        return self._watch.is_over(known.sign, self._clock.now_ms())
