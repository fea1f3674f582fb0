"""An endpoint: one core, one mailbox, one thread of events.

Whatever happens is told to the mailbox; events are handled one at a time, in order, on the event
loop; effects are interpreted as they come out. An exception in a core is our bug: it ends this
endpoint alone, and whoever supervises it is told.
"""

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from firesteel.core.effects import Effect, Event, Received, Send, SetTimer, Started, Timer, TimerFired
from firesteel.core.machine import Core
from firesteel.core.requests import Asked, Reply, Request
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.services import Clock, Rpc, StaleLeader

EVENTS_PER_TURN_MAX = 256
"""Events an endpoint handles before others get their turn on the loop."""

MAILBOX_MAX = 100_000
"""Events that may wait; of more, messages are dropped: they may be lost anywhere, and what matters is repeated."""

T = TypeVar("T")

logger = logging.getLogger(__name__)


class EndpointStopped(Exception):
    """The endpoint went down before it could answer; ask its successor."""


@dataclass(frozen=True, slots=True)
class _Mark(Event):
    """A place in the mailbox: all that was told before it is handled when it is reached."""

    reached: asyncio.Future[None]

    def reach(self) -> None:
        if not self.reached.done():
            self.reached.set_result(None)


class Endpoint:
    """Runs a core. `on_broken` is called once, when the core or its interpretation has failed."""

    def __init__(self, core: Core, rpc: Rpc, clock: Clock, on_broken: Callable[[Exception], None]) -> None:
        self.core = core
        self._rpc, self._clock, self._on_broken = rpc, clock, on_broken
        self._loop = asyncio.get_running_loop()
        self._mailbox: deque[Event] = deque()
        self._scheduled = False
        self._stopped = False
        self._dropped = 0
        self._timers: dict[Timer, asyncio.TimerHandle] = {}
        self._requests = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._background = BackgroundTasks(self._background_failed)

    @property
    def mailbox_length(self) -> int:
        """Number of events that wait."""
        return len(self._mailbox)

    def start(self) -> None:
        """Take messages from now on."""
        self._rpc.register(self.core.address, self)
        self.tell(Started())

    def tell(self, event: Event) -> None:
        """Put an event into the mailbox. A stopped endpoint takes none."""
        if self._stopped or (len(self._mailbox) >= MAILBOX_MAX and self._is_dropped(event)):
            return
        self._mailbox.append(event)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._drain)

    def _is_dropped(self, event: Event) -> bool:
        if not isinstance(event, Received):
            return False
        self._dropped += 1
        if self._dropped.bit_count() == 1:
            text = "%s is behind: %d messages were dropped, since %d events wait"
            logger.warning(text, self.core.address, self._dropped, len(self._mailbox))
        return True

    async def ask(self, request: Request[T]) -> T:
        """Put a request into the mailbox and await its answer; an answer that is an exception is raised."""
        if self._stopped:
            raise EndpointStopped(self.core.address)
        request_id = next(self._requests)
        future: asyncio.Future[T] = self._loop.create_future()
        self._answers[request_id] = future
        self.tell(Asked(request_id, request))
        try:
            return await future
        finally:
            self._answers.pop(request_id, None)

    async def catch_up(self) -> None:
        """Wait until all that was told so far is handled, or the endpoint has stopped."""
        if not self._stopped:
            mark = _Mark(self._loop.create_future())
            self.tell(mark)
            await mark.reached

    async def stop(self) -> None:
        """Take and send nothing any more; end what this endpoint has under way. May be called again."""
        self._halt()
        await self._background.join()

    def _halt(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        self._rpc.unregister(self.core.address)
        for event in self._mailbox:
            if isinstance(event, _Mark):
                event.reach()
        self._mailbox.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for future in self._answers.values():
            if not future.done():
                future.set_exception(EndpointStopped(self.core.address))
        self._background.cancel()

    def _drain(self) -> None:
        self._scheduled = False
        for _ in range(EVENTS_PER_TURN_MAX):
            if not self._mailbox:
                return
            self._handle(self._mailbox.popleft())
        if self._mailbox and not self._stopped:
            self._scheduled = True
            self._loop.call_soon(self._drain)

    def _handle(self, event: Event) -> None:
        if isinstance(event, _Mark):
            event.reach()
            return
        try:
            for effect in self.core.handle(event, self._clock.now_ms()):
                self._interpret(effect)
            self.handled(event)
        except Exception as error:
            story = "\n  ".join(self.core.story)
            logger.exception("%s broke; its last events:\n  %s", self.core.address, story)
            self._break(error)

    def _break(self, error: Exception) -> None:
        """End what this endpoint does at once; its supervisor decides what comes after."""
        self._halt()
        self._on_broken(error)

    def _interpret(self, effect: Effect) -> None:
        match effect:
            case Send():
                self._rpc.send(effect.envelope)
            case SetTimer():
                self._set_timer(effect)
            case Reply():
                self._answer(effect)
            case _:
                self.perform(effect)

    def perform(self, effect: Effect) -> None:
        """Do an effect that only this kind of endpoint has."""
        raise AssertionError(f"{type(self).__name__} can't do {effect}")

    def handled(self, event: Event) -> None:
        """The core has handled an event, and its effects are under way."""

    def background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine that belongs to this endpoint; it ends with it, and a failure breaks it."""
        return self._background.start(work, self.core.address)

    def _background_failed(self, error: Exception) -> None:
        if isinstance(error, StaleLeader | OSError):
            logger.warning("%s gives up: %s", self.core.address, error)
        elif self._stopped:
            logger.warning("%s: what it had under way failed as it stopped", self.core.address, exc_info=error)
        else:
            logger.error("%s broke in the background", self.core.address, exc_info=error)
        if not self._stopped:
            self._break(error)

    def _set_timer(self, effect: SetTimer) -> None:
        known = self._timers.pop(effect.timer, None)
        if known is not None:
            known.cancel()
        delay = max(0, effect.at_ms - self._clock.now_ms()) / 1000
        self._timers[effect.timer] = self._loop.call_later(delay, self._fire, effect.timer)

    def _fire(self, timer: Timer) -> None:
        self._timers.pop(timer, None)
        self.tell(TimerFired(timer))

    def _answer(self, effect: Reply) -> None:
        future = self._answers.pop(effect.request_id, None)
        if future is None or future.done():
            return
        if isinstance(effect.value, Exception):
            future.set_exception(effect.value)
        else:
            future.set_result(effect.value)
