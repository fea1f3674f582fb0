"""Tasks that outlive the call that began them: they have an owner, who sees their errors and ends them."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

logger = logging.getLogger(__name__)


class BackgroundTasks:
    """The tasks of one object that has a `stop`. (A task group needs a caller that waits inside it all the time.)

    `on_error` is told what any of them raises, also while they are being cancelled; by default it is logged.
    """

    def __init__(self, on_error: Callable[[Exception], None] | None = None) -> None:
        self._on_error = on_error or (lambda error: logger.error("a background task failed", exc_info=error))
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = asyncio.create_task(work, name=name)  # noqa: TID251 - this class is the owner
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def cancel(self) -> None:
        """Ask all to end, oldest first; `join` waits for it."""
        for task in self._tasks:
            task.cancel()

    async def join(self) -> None:
        """Wait until all have ended, also those that start meanwhile."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def close(self, grace_seconds: float = 0.0) -> None:
        """Wait that long for what is running, then cancel it. Idempotent."""
        if self._tasks and grace_seconds > 0:
            await asyncio.wait(self._tasks, timeout=grace_seconds)
        while self._tasks:
            self.cancel()
            await asyncio.wait(self._tasks)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._on_error(error)


async def keep_looking(look: Callable[[], Awaitable[None]], what: str, pause_s: float) -> None:
    """Look again and again until cancelled. One look that fails is logged, as `what`, and the next is made all the same; of a
    row of them the first is."""
    is_failing = False
    while True:
        try:
            await look()
            is_failing = False
        except Exception:
            if not is_failing:
                logger.warning("%s failed, and is tried again and again", what, exc_info=True)
            is_failing = True
        await asyncio.sleep(pause_s)


async def to_the_end(task: asyncio.Task[None]) -> None:
    """Await `task` even when the caller is cancelled again meanwhile."""
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
