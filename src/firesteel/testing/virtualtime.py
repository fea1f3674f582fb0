"""An asyncio event loop whose time is made up: it leaps to the next timer when nothing else is to be done."""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

VIRTUAL_LIMIT_S = 24 * 3_600.0
"""A loop that has leapt this far is taken to wait for something that never comes."""

THREAD_WAIT_S = 0.02
"""Real time a loop waits at once for a thread that works for it; meanwhile its own time stands still."""


class NothingHappens(Exception):
    """The test's fault, or a bug: all that is left are timers, or nothing at all."""


class _LeapingSelector(selectors.DefaultSelector):
    """Waits for nothing: time leaps instead."""

    loop: "VirtualTimeLoop"

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self.loop.threads:
            return super().select(THREAD_WAIT_S)
        self.loop.leap(timeout)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """For tests of many seconds that take none: `asyncio.Runner(loop_factory=VirtualTimeLoop)`.

    It is its own Clock: `now_ms()` is milliseconds since the epoch, from a fixed day on.
    """

    def __init__(self) -> None:
        selector = _LeapingSelector()
        selector.loop = self
        self.threads = 0
        """Calls under way in other threads."""
        self._now_s = 0.0
        self._limit_s = VIRTUAL_LIMIT_S
        super().__init__(selector)

    def time(self) -> float:
        return self._now_s

    def now_ms(self) -> int:
        return 1_700_000_000_000 + round(self._now_s * 1_000)

    def leap(self, delay_s: float | None) -> None:
        """Go to the next timer. Raises NothingHappens when there is none, or none of any use."""
        if delay_s is None or self._now_s >= self._limit_s:
            self._limit_s = self._now_s + VIRTUAL_LIMIT_S
            raise NothingHappens(f"after {self._now_s:.0f} s there is nothing left that could happen")
        self._now_s += delay_s

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = super().run_in_executor(executor, func, *args)
        self.threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    async def shutdown_default_executor(self, *args: Any) -> None:
        self.threads += 1
        try:
            await super().shutdown_default_executor(*args)
        finally:
            self.threads -= 1

    def _thread_ended(self, future: asyncio.Future[Any]) -> None:
        self.threads -= 1
