"""An asyncio event loop whose time is made up: it leaps to the next timer when nothing else is to be done."""

import asyncio
import contextvars
import heapq
import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

VIRTUAL_LIMIT_S = 24 * 3_600.0
"""A loop that has leapt this far is taken to wait for something that never comes."""


class NothingHappens(Exception):
    """The test's fault, or a bug: all that is left are timers, or nothing at all."""


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """For tests of many seconds that take none: `asyncio.Runner(loop_factory=VirtualTimeLoop)`.

    It is its own Clock: `now_ms()` is milliseconds since the epoch, from a fixed day on. Calls in threads are done here,
    in their turn; there are no sockets and no other processes.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._limit_s = VIRTUAL_LIMIT_S
        self._order = itertools.count()
        self._timers: list[tuple[float, int, asyncio.Handle]] = []

    def time(self) -> float:
        return self._now_s

    def now_ms(self) -> int:
        return 1_700_000_000_000 + round(self._now_s * 1_000)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._order), handle))
        return handle

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """In no thread: a little later, at once. It is done also when nobody waits for it any more."""
        future = self.create_future()
        self.call_later(self._thread_takes_s(), self._work, future, func, *args)
        return future

    def _thread_takes_s(self) -> float:
        return 0.0

    def _work(self, future: asyncio.Future[Any], func: Callable[..., Any], *args: Any) -> None:
        try:
            value = func(*args)
        except Exception as error:
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(value)

    def _run_once(self) -> None:
        """What is ready now, in its order; what comes of that is for the next turn."""
        timers, ready = self._timers, self._ready  # type: ignore[attr-defined]
        if not ready:
            self._leap()
        while timers and timers[0][0] <= self._now_s:
            ready.append(heapq.heappop(timers)[2])
        self._run_turn(ready)

    def _leap(self) -> None:
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if not timers or self._now_s >= self._limit_s:
            self._limit_s = self._now_s + VIRTUAL_LIMIT_S
            raise NothingHappens(f"after {self._now_s:.0f} s there is nothing left that could happen")
        self._now_s = max(self._now_s, timers[0][0])

    def _run_turn(self, ready: deque[asyncio.Handle]) -> None:
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _process_events(self, event_list: Any) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """There is nobody to wake up."""
