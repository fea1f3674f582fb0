"""Ctrl-C: the first asks for a clean end, the second ends the process at once."""

import asyncio
import os
import signal
from collections.abc import Callable
from types import TracebackType
from typing import Self

from firesteel.cli.exits import INTERRUPTED

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Within `with`, the first signal cancels the current task; after `defer` it sets `requested` instead."""

    def __init__(self, end_now: Callable[[int], object] = os._exit) -> None:
        self.requested = asyncio.Event()
        self._end_now = end_now
        self._task: asyncio.Task[object] | None = None

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for each in SIGNALS:
            loop.add_signal_handler(each, self.interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        for each in SIGNALS:
            loop.remove_signal_handler(each)

    def defer(self) -> None:
        """From now on somebody waits for `requested` and ends the work cleanly."""
        self._task = None

    def interrupt(self) -> None:
        """A signal has come."""
        if self.requested.is_set():
            # Every process of the mini cluster ends with this one: each holds a pipe to it.
            self._end_now(INTERRUPTED)
            return
        self.requested.set()
        if self._task is not None:
            self._task.cancel()
