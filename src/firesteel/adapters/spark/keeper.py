"""The worker's hand on every session of its backend, through a process that holds the channel."""

import asyncio
import logging

from firesteel.adapters.spark import wire
from firesteel.adapters.spark.forkclient import Child, ForkServer
from firesteel.runtime.background import BackgroundTasks

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_SECONDS = 12.0


class KeeperFailed(Exception):
    """The keeper or the backend did not do as asked; the session may still be open."""


class SessionKeeper:
    """One keeper process per backend JVM, started when first needed and again when it has died."""

    def __init__(self, forks: ForkServer) -> None:
        self._forks = forks
        self._endpoint: wire.Endpoint | None = None
        self._child: Child | None = None
        self._background = BackgroundTasks()
        self._numbers = 0
        self._waiting: dict[int, asyncio.Future[wire.KeeperAnswer]] = {}
        self._connecting = asyncio.Lock()

    async def interrupt(self, endpoint: wire.Endpoint, session: wire.SessionName, tag: str) -> None:
        """Interrupt the session's operations that carry `tag`. Raises KeeperFailed."""
        await self._request(endpoint, session, tag)

    async def close_session(self, endpoint: wire.Endpoint, session: wire.SessionName) -> str:
        """Close the session and end what runs in it. Returns the server's own id of it. Raises KeeperFailed."""
        return (await self._request(endpoint, session, "")).server_session

    async def connect(self, endpoint: wire.Endpoint) -> Child:
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

    async def _request(self, endpoint: wire.Endpoint, session: wire.SessionName, tag: str) -> wire.KeeperAnswer:
        child = await self.connect(endpoint)
        self._numbers += 1
        number = self._numbers
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        child.send(wire.KeeperRequest(number=number, session=session, tag=tag))
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
                kept: wire.KeeperAnswer = await answer
        except TimeoutError:
            raise KeeperFailed("the Spark backend did not answer in time") from None
        finally:
            self._waiting.pop(number, None)
        if kept.error:
            raise KeeperFailed(kept.error)
        return kept

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
