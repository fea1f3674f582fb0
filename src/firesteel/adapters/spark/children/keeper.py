"""The worker's hand on every session of its backend, through a process that holds the channel."""

import asyncio
import logging
import uuid
from typing import NamedTuple

from firesteel.adapters.spark import wire
from firesteel.adapters.spark.children.forkclient import Child, ForkServer
from firesteel.runtime.background import BackgroundTasks

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_SECONDS = 12.0
"""Limit on one call; closing a session also waits for what runs in it."""
CLOSE_TIMEOUT_SECONDS = 40.0


class KeeperFailed(Exception):
    """The keeper or the backend did not do as asked; the session may still be open."""


class SessionEnding(NamedTuple):
    """The way a session is to be closed."""

    was_cut: bool = False
    """Whether its task process ended in the middle."""
    cached: tuple[wire.Cached, ...] = ()
    """Plans and names that it has had Spark cache."""


class SessionKeeper:
    """One keeper process per backend JVM, started when first needed and again when it has died."""

    def __init__(self, forks: ForkServer) -> None:
        self._forks = forks
        self._endpoint: wire.SparkAddress | None = None
        self._child: Child | None = None
        self._background = BackgroundTasks()
        self._numbers = 0
        self._waiting: dict[int, asyncio.Future[wire.KeeperAnswer]] = {}
        self._connecting = asyncio.Lock()

    async def interrupt(self, endpoint: wire.SparkAddress, session: wire.SessionName) -> wire.KeeperAnswer:
        """Interrupt all that runs in the session now. Raises KeeperFailed."""
        request = wire.KeeperRequest(number=self._next(), session=session, action=wire.SessionAction.INTERRUPT)
        answer = await self._request(endpoint, request, REQUEST_TIMEOUT_SECONDS)
        if answer.error:
            raise KeeperFailed(answer.error)
        return answer

    async def close_session(
        self, endpoint: wire.SparkAddress, session: wire.SessionName, ending: SessionEnding
    ) -> wire.KeeperAnswer:
        """End what runs in the session, and close it; the answer's `error` says why that was not done well.

        Raises KeeperFailed.
        """
        request = wire.KeeperRequest(
            number=self._next(),
            session=session,
            action=wire.SessionAction.CLOSE,
            was_cut=ending.was_cut,
            cached=ending.cached,
        )
        return await self._request(endpoint, request, CLOSE_TIMEOUT_SECONDS)

    async def clear_cache(self, endpoint: wire.SparkAddress) -> wire.KeeperAnswer:
        """Release all that is cached in a JVM that nobody uses. Raises KeeperFailed."""
        session = wire.SessionName("firesteel", str(uuid.uuid4()))
        request = wire.KeeperRequest(number=self._next(), session=session, action=wire.SessionAction.CLEAR_CACHE)
        return await self._request(endpoint, request, CLOSE_TIMEOUT_SECONDS)

    async def connect(self, endpoint: wire.SparkAddress) -> Child:
        """The keeper process for that backend, started if need be."""
        async with self._connecting:
            if self._child is None or self._endpoint != endpoint:
                await self.close()
                self._child, self._endpoint = await self._forks.take(), endpoint
                self._child.send(wire.KeepSessions(endpoint=endpoint))
                self._background.start(self._read(self._child), "session-keeper")
            return self._child

    async def close(self) -> None:
        """Let the process go. Idempotent."""
        child, self._child = self._child, None
        if child is not None:
            child.close()
        await self._background.close()
        self._fail_waiting("the session keeper was closed")

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers

    async def _request(
        self, endpoint: wire.SparkAddress, request: wire.KeeperRequest, timeout_seconds: float
    ) -> wire.KeeperAnswer:
        child = await self.connect(endpoint)
        answer = self._waiting[request.number] = asyncio.get_running_loop().create_future()
        child.send(request)
        try:
            async with asyncio.timeout(timeout_seconds):
                kept: wire.KeeperAnswer = await answer
                return kept
        except TimeoutError:
            raise KeeperFailed("the Spark backend did not answer in time") from None
        finally:
            self._waiting.pop(request.number, None)

    async def _read(self, child: Child) -> None:
        while isinstance(message := await child.receive(), wire.KeeperAnswer):
            answer = self._waiting.get(message.number)
            if answer is not None and not answer.done():
                answer.set_result(message)
        if self._child is child:
            self._child = None
            child.close()
            self._fail_waiting("the session keeper's process has ended")

    def _fail_waiting(self, why: str) -> None:
        for number, answer in self._waiting.items():
            if not answer.done():
                answer.set_result(wire.KeeperAnswer(number=number, error=why))
