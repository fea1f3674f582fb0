"""Ctrl-C: the first asks for a clean end, the next ones for a faster one."""

import asyncio
import math
import os
import signal
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

from firesteel.cli.exits import INTERRUPTED

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

SAME_WISH_S = 0.5
"""Signals this close together are one wish. A terminal tells all processes of a command line, and those among them that
pass signals on, like `timeout` or `make`, tell their children once more; a person who means it twice takes longer, or
presses a third time."""


class Interrupts:
    """Within `with`, the first interrupt cancels the current task; after `defer` it sets `requested` instead.

    The second calls `end_now`; when somebody ends the waiting (`defer(hurries=True)`) it sets `hurried`, and the third
    calls `end_now`.
    """

    def __init__(self, end_now: Callable[[], object], clock: Callable[[], float] = time.monotonic) -> None:
        self.requested, self.hurried = asyncio.Event(), asyncio.Event()
        self._end_now, self._clock = end_now, clock
        self._task: asyncio.Task[object] | None = None
        self._hurries = False
        self._counted_s = -math.inf

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
            if self.requested.is_set():  # the process ends with a code of its own, and not by what comes late
                signal.signal(each, self._interrupt_late)

    def _interrupt_late(self, number: int, frame: FrameType | None) -> None:
        """The same wish once more, or a person who sees that the process does not end."""
        if self._clock() - self._counted_s >= SAME_WISH_S:
            os._exit(INTERRUPTED)

    def defer(self, *, hurries: bool = False) -> None:
        """Have somebody wait for `requested`, who ends the work cleanly; with `hurries`, sooner for `hurried`."""
        self._task, self._hurries = None, hurries

    def interrupt(self) -> None:
        """A signal has come."""
        now_s = self._clock()
        if now_s - self._counted_s < SAME_WISH_S:
            return
        self._counted_s = now_s
        if not self.requested.is_set():
            self.requested.set()
            if self._task is not None:
                self._task.cancel()
        elif self._hurries and not self.hurried.is_set():
            self.hurried.set()
        else:
            self._end_now()
