"""Runs a service while its component is led from here: one service a grant, never two at once."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from firesteel.core.effects import Effect, Event
from firesteel.core.leadership.contender import (
    ConfirmLeadership,
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
from firesteel.runtime.services import LeaderElection

logger = logging.getLogger(__name__)


class Service(Protocol):
    """What runs during one leadership."""

    @property
    def leader(self) -> Leader: ...

    async def stop(self) -> None: ...


class LeaderRunner:
    """Contends for `component`; `start_service` brings a service up for a token, ready to be reached."""

    def __init__(
        self, component: str, election: LeaderElection, start_service: Callable[[FencingToken], Awaitable[Service]]
    ) -> None:
        self.component = component
        self.service: Service | None = None
        self._election, self._start_service = election, start_service
        self._contender = LeaderContender()
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Condition()
        self._stop_contending: Callable[[], None] | None = None

    def start(self) -> None:
        self._stop_contending = self._election.contend(self.component, self)

    async def stop(self) -> None:
        """Give up contending and end the service."""
        if self._stop_contending is not None:
            self._stop_contending()
        self.on_revoked()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def on_granted(self, token: FencingToken) -> None:
        self._tell(Granted(token))

    def on_revoked(self) -> None:
        self._tell(Revoked())

    def _tell(self, event: Event) -> None:
        for effect in self._contender.handle(event):
            self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case StartService():
                self._background(self._start(effect.token))
            case StopService():
                self._background(self._stop(effect.token))
            case ConfirmLeadership():
                assert self.service is not None, "only a service that is up is confirmed"
                self._election.confirm(self.component, self.service.leader)
            case _:
                raise AssertionError(f"not an effect of a contender: {effect}")

    async def _start(self, token: FencingToken) -> None:
        async with self._changed:
            self.service = await self._start_service(token)
            self._changed.notify_all()
        self._tell(ServiceStarted(token))

    async def _stop(self, token: FencingToken) -> None:
        async with self._changed:
            service, self.service = self.service, None
            if service is not None:
                await service.stop()
        self._tell(ServiceStopped(token))

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("leading %s failed", self.component, exc_info=error)
