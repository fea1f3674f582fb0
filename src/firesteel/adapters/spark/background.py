"""Tasks that outlive the call that began them: owned by name, their errors logged, ended together."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)


class Background:
    """The tasks of one object that has a `close`. (A task group needs a caller that waits inside it all the time.)"""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run `work`; an exception out of it is a bug and logged as an error."""
        task = asyncio.create_task(work, name=name)  # noqa: TID251 - this class is the owner
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def close(self, grace_seconds: float = 0.0) -> None:
        """Wait that long for what is running, then cancel it. Idempotent."""
        if self._tasks and grace_seconds > 0:
            await asyncio.wait(self._tasks, timeout=grace_seconds)
        left = list(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s failed", task.get_name(), exc_info=error)
