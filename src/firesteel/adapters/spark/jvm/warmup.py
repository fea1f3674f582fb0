"""Warming up a JVM that nobody uses: small queries in a session of its own, given up as soon as there is work."""

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from firesteel.adapters.spark import calls, wire
from firesteel.adapters.spark.children.forkclient import ForkServer
from firesteel.adapters.spark.children.keeper import SessionEnding
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.ports import TaskFailedError

logger = logging.getLogger(__name__)

ENTRY_POINT = "firesteel.adapters.spark.task.warmup:warm_up"
IDLE_SECONDS = 1.0
"""A JVM that nobody has used for so long is idle: a job's regions follow one another sooner."""
ROUNDS = 8
"""Each is like a small job. The JVM's compilers take note of what is run often; of more rounds a job gains little."""
LIMIT_SECONDS = 60.0
"""For one round. A Connect client whose server has died asks it again for minutes."""
USER = "firesteel"

CloseSession = Callable[[wire.SparkAddress, wire.SessionName, SessionEnding], Awaitable[None]]
"""Ends what runs in a session, and closes it."""


class WarmUp:
    """One for each backend."""

    def __init__(self, forks: ForkServer, directory: Path) -> None:
        """Its files are below `directory`, which goes with the worker."""
        self._forks, self._directory = forks, directory
        self._running: asyncio.Task[bytes] | None = None
        self._tasks = BackgroundTasks(lambda error: None)  # who waits for it hears of it

    def give_way(self) -> None:
        """There is work: end what is under way."""
        if self._running is not None:
            self._running.cancel()

    async def warm(self, endpoint: wire.SparkAddress, is_idle: Callable[[], bool], close: CloseSession) -> None:
        """Return when the JVM is warm. A round that gave way is not tried again: work does the warming, too."""
        left, begun = ROUNDS, time.monotonic()
        while left:
            await asyncio.sleep(IDLE_SECONDS)
            while left and is_idle():
                left -= 1
                session = wire.SessionName(USER, str(uuid.uuid4()))
                try:
                    was_cut = not await self._round(endpoint, session)
                except (TaskFailedError, TimeoutError) as error:
                    logger.info("the warm-up of Spark is given up: %s", error)
                    left, was_cut = 0, True
                await close(endpoint, session, SessionEnding(was_cut))
        logger.info("Spark has been warmed up, %.1f s after its start", time.monotonic() - begun)

    async def _round(self, endpoint: wire.SparkAddress, session: wire.SessionName) -> bool:
        """False when it gave way. Raises TaskFailedError, or TimeoutError."""
        order = msgspec.json.encode(calls.WarmUp(endpoint, session, str(self._directory)))
        running = self._running = self._tasks.start(self._forks.call(ENTRY_POINT, order), "warm-up")
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                await self._forks.refill()  # who comes finds a process
                await asyncio.wait((running,))
        finally:
            self._running = None
            running.cancel()
        if running.cancelled():
            return False
        await running
        return True
