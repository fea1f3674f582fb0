"""Runs a service while its component is led from here: one service a grant, never two at once."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol, assert_never

from firesteel.core.leadership import events as e
from firesteel.core.leadership.candidate import LeaderCandidate
from firesteel.model.ids import FencingToken
from firesteel.model.messages import Leader
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.services import LeaderElection, StaleLeader

logger = logging.getLogger(__name__)


class Service(Protocol):
    """What runs during one leadership."""

    @property
    def leader(self) -> Leader: ...

    async def stop(self) -> None: ...


class LeaderRunner:
    """Contends for `component`; `start_service` brings a service up for a token, ready to be reached.

    When a service does not come up, or breaks (`fail`), a `LeaderCandidate` says when the runner contends again: whoever
    leads next starts under a new token, from what is stored. `on_lost` is told the last error when there is no next
    time; the runner then is done. `called`: what to call the component in words.
    """

    def __init__(
        self,
        component: str,
        election: LeaderElection,
        start_service: Callable[[FencingToken], Awaitable[Service]],
        *,
        on_lost: Callable[[Exception], None],
        outlives_bugs: bool = True,
        called: str = "",
    ) -> None:
        self.component, self._called = component, called or component
        self.service: Service | None = None
        self._election, self._start_service = election, start_service
        self._on_lost = on_lost
        self._candidate = LeaderCandidate(outlives_bugs=outlives_bugs)
        self._tasks = BackgroundTasks(self._broke)
        self._starting: asyncio.Task[None] | None = None
        self._retry: asyncio.Task[None] | None = None
        self._leave: Callable[[], None] = lambda: None
        self._error: Exception | None = None
        """What has failed last, until a service is up again."""

    @property
    def trouble(self) -> str:
        """What keeps its service from coming up, in words; empty when nothing does."""
        return f"the {self._called} can't be led here ({self._error})" if self._error is not None else ""

    def start(self) -> None:
        """Take part in the election; after `stop` it does nothing."""
        self._tell(e.Began())

    async def stop(self) -> None:
        """Give up contending and end the service. May be called again, also while it is under way."""
        self._tell(e.Retired())
        if self._retry is not None:
            self._retry.cancel()
        await self._tasks.join()

    def fail(self, error: Exception) -> None:
        """The service of this session is of no use any more: end it, and try again under a new token."""
        self._error = error
        self._tell(e.SessionFailed(failure_of(error)))

    def hindered(self, error: Exception) -> None:
        """The service that is to come up goes on trying something that has failed."""
        self._error = error

    def on_granted(self, token: FencingToken) -> None:
        self._tell(e.Granted(token))

    def on_revoked(self) -> None:
        self._tell(e.Revoked())

    def _tell(self, event: e.CandidateEvent) -> None:
        for effect in self._candidate.handle(event, round(asyncio.get_running_loop().time() * 1_000)):
            self._perform(effect)

    def _perform(self, effect: e.CandidateEffect) -> None:
        match effect:
            case e.Contend():
                self._leave = self._election.contend(self.component, self)
            case e.Leave():
                self._leave()
            case e.StartService():
                self._starting = self._tasks.start(self._start(effect.token), f"start {self.component}")
            case e.StopService():
                self._tasks.start(self._stop(effect.token), f"stop {self.component}")
            case e.ConfirmLeadership():
                assert self.service is not None, "only a service that is up is confirmed"
                self._election.confirm(self.component, self.service.leader)
            case e.RetryLater():
                self._contend_later(effect.delay_ms / 1_000)
            case e.GiveUp():
                assert self._error is not None, "something has failed"
                self._on_lost(self._error)
            case _:
                assert_never(effect)

    def _contend_later(self, delay_s: float) -> None:
        text, error = "%s: contends again in %.1f s (%s: %s)", self._error
        logger.warning(text, self.component, delay_s, type(error).__name__, error)
        self._retry = self._tasks.start(self._contend_again(delay_s), f"contend for {self.component}")

    async def _contend_again(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        self._tell(e.RetryDue())

    async def _start(self, token: FencingToken) -> None:
        try:
            self.service = await self._start_service(token)
        except (OSError, StaleLeader) as error:
            self.fail(error)
        else:
            self._error = None
            self._tell(e.ServiceStarted(token))

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
            self._tell(e.ServiceStopped(token))

    def _broke(self, error: Exception) -> None:
        logger.error("leading %s failed", self.component, exc_info=error)
        self.fail(error)


def failure_of(error: Exception) -> e.SessionFailure:
    """What an error is, to whoever leads."""
    match error:
        case OSError():
            return e.SessionFailure.STORAGE
        case StaleLeader():
            return e.SessionFailure.STALE
        case _:
            return e.SessionFailure.BUG
