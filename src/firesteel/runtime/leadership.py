"""Runs a service while its component is led from here: one service a grant, never two at once."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol, assert_never

from firesteel.core.leadership.contender import (
    ConfirmLeadership,
    ContenderEffect,
    ContenderEvent,
    Granted,
    LeaderContender,
    Revoked,
    ServiceStarted,
    ServiceStopped,
    StartService,
    StopService,
)
from firesteel.model.ids import FencingToken
from firesteel.model.messages import Leader
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.services import LeaderElection, StaleLeader

FAILURES_MAX = 8
"""Sessions of one component that may fail in a row; then it is lost."""

RETRY_DELAY_S, RETRY_DELAY_MAX_S = 0.1, 5.0
"""Time between a failure and the next session: the first, doubled each time up to the second."""

STABLE_S = 60.0
"""A session that lasted this long was a good one: failures are counted from nought again."""

logger = logging.getLogger(__name__)


class Service(Protocol):
    """What runs during one leadership."""

    @property
    def leader(self) -> Leader: ...

    async def stop(self) -> None: ...


class LeaderRunner:
    """Contends for `component`; `start_service` brings a service up for a token, ready to be reached.

    When a service does not come up, or breaks (`fail`), the runner gives its leadership up and
    contends again after a delay: whoever leads next starts under a new token, from what is stored.
    `on_lost` is told the last error when that has failed FAILURES_MAX times in a row, or at once
    for an error that `may_pass` denies; the runner then is done. An OSError is nobody's mistake here:
    a disk that is full is waited for.
    """

    def __init__(
        self,
        component: str,
        election: LeaderElection,
        start_service: Callable[[FencingToken], Awaitable[Service]],
        *,
        on_lost: Callable[[Exception], None],
        may_pass: Callable[[Exception], bool] = lambda error: True,
    ) -> None:
        self.component = component
        self.service: Service | None = None
        self._election, self._start_service = election, start_service
        self._on_lost, self._may_pass = on_lost, may_pass
        self._contender = LeaderContender()
        self._tasks = BackgroundTasks(self._broke)
        self._starting: asyncio.Task[None] | None = None
        self._retry: asyncio.Task[None] | None = None
        self._leave: Callable[[], None] = lambda: None
        self._contending = self._stopped = False
        self._failures = 0
        self._since_s = 0.0

    def start(self) -> None:
        """Take part in the election; after `stop` it does nothing."""
        if not self._stopped:
            self._contending = True
            self._leave = self._election.contend(self.component, self)

    async def stop(self) -> None:
        """Give up contending and end the service. May be called again, also while it is under way."""
        if not self._stopped:
            self._stopped = True
            self._step_down()
            if self._retry is not None:
                self._retry.cancel()
        await self._tasks.join()

    def fail(self, error: Exception) -> None:
        """The service of this session is of no use any more: end it, and try again under a new token."""
        if self._stopped or not self._contending:
            return
        self._step_down()
        stable = asyncio.get_running_loop().time() - self._since_s >= STABLE_S
        self._failures = 1 if stable else self._failures + 1
        is_lost = self._failures > FAILURES_MAX and not isinstance(error, OSError)
        if is_lost or not self._may_pass(error):
            self._stopped = True
            self._on_lost(error)
            return
        delay_s = min(RETRY_DELAY_S * 2 ** min(self._failures - 1, FAILURES_MAX), RETRY_DELAY_MAX_S)
        logger.warning("%s: contends again in %.1f s (%s: %s)", self.component, delay_s, type(error).__name__, error)
        self._retry = self._tasks.start(self._contend_again(delay_s), f"contend for {self.component}")

    def on_granted(self, token: FencingToken) -> None:
        if self._contending:
            self._tell(Granted(token))

    def on_revoked(self) -> None:
        self._tell(Revoked())

    def _step_down(self) -> None:
        if self._contending:
            self._contending = False
            self._leave()
        self._tell(Revoked())

    async def _contend_again(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        self.start()

    def _tell(self, event: ContenderEvent) -> None:
        for effect in self._contender.handle(event):
            self._perform(effect)

    def _perform(self, effect: ContenderEffect) -> None:
        match effect:
            case StartService():
                self._since_s = asyncio.get_running_loop().time()
                self._starting = self._tasks.start(self._start(effect.token), f"start {self.component}")
            case StopService():
                self._tasks.start(self._stop(effect.token), f"stop {self.component}")
            case ConfirmLeadership():
                assert self.service is not None, "only a service that is up is confirmed"
                self._election.confirm(self.component, self.service.leader)
            case _:
                assert_never(effect)

    async def _start(self, token: FencingToken) -> None:
        try:
            self.service = await self._start_service(token)
        except (OSError, StaleLeader) as error:
            self.fail(error)
        else:
            self._tell(ServiceStarted(token))

    async def _stop(self, token: FencingToken) -> None:
        """A service that comes up meanwhile is not waited for: its start is cancelled."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        service, self.service = self.service, None
        try:
            if service is not None:
                await service.stop()
        finally:
            self._tell(ServiceStopped(token))

    def _broke(self, error: Exception) -> None:
        logger.error("leading %s failed", self.component, exc_info=error)
        self.fail(error)
