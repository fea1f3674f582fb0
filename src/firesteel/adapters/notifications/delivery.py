"""Delivers bodies to one URL by POST: in order, from a bounded queue, tried again when that may help."""

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import httpcore

from firesteel.model.backoff import ExponentialBackoff
from firesteel.runtime.background import BackgroundTasks

PAUSES = ExponentialBackoff(1.0, 60.0)
"""Seconds between two tries of one body."""

GRACE_S, LOOK_S = 5.0, 0.01
"""Time that what is in the queue has when the process ends, and between two looks at it."""

ANSWER_BYTES_MAX = 64 << 10
"""What is read of an answer; the connection of a longer one is closed."""

AGAIN = (408, 425, 429)
"""Statuses below 500 after which another try may help."""

logger = logging.getLogger(__name__)

Headers = Callable[[bytes], Mapping[str, str]]
"""Headers for a body, made when it is sent."""


class HttpDelivery:
    """One receiver. `offer` returns at once and raises nothing."""

    def __init__(
        self, what: str, url: str, headers: Headers, *, queue_max: int, tries_max: int, timeout_s: float
    ) -> None:
        """`what` names it in the log, where the URL, which may hold a secret, is not told."""
        self._what, self._url, self._headers = what, url, headers
        self._host = urlsplit(url).netloc.rpartition("@")[2]
        self._queue_max, self._tries_max, self._timeout_s = queue_max, tries_max, timeout_s
        self._queue: deque[bytes] = deque()
        self._is_sending = False
        self._dropped = 0
        """Bodies that the full queue has not taken since the last one that arrived."""
        self._changed = asyncio.Event()
        self._tasks = BackgroundTasks()
        self._http = httpcore.AsyncConnectionPool(ssl.create_default_context(), max_connections=1)

    def start(self) -> None:
        self._tasks.start(self._send_all(), self._what)

    def offer(self, body: bytes) -> None:
        """Queue a body; when the queue is full it is dropped."""
        if len(self._queue) >= self._queue_max:
            if not self._dropped:
                logger.warning("%s: %d events wait for it, and more are dropped", self._what, len(self._queue))
            self._dropped += 1
            return
        self._queue.append(body)
        self._changed.set()

    async def close(self) -> None:
        """Wait a limited time for what is queued. Idempotent."""
        until_s = asyncio.get_running_loop().time() + GRACE_S
        while asyncio.get_running_loop().time() < until_s:
            if not self._queue and not self._is_sending:
                break
            await asyncio.sleep(LOOK_S)
        if left := len(self._queue) + self._is_sending:
            logger.warning("%s: %d events were not delivered before the end", self._what, left)
            self._queue.clear()
        await self._tasks.close()
        await self._http.aclose()

    async def _send_all(self) -> None:
        while True:
            while self._queue:
                self._is_sending = True
                try:
                    await self._deliver(self._queue.popleft())
                except Exception:
                    logger.warning("%s: an event can't be sent and is dropped", self._what, exc_info=True)
                self._is_sending = False
            self._changed.clear()
            await self._changed.wait()

    async def _deliver(self, body: bytes) -> None:
        problem = ""
        for failures in range(1, self._tries_max + 1):
            problem, may_help = await self._try(body)
            if not problem:
                if self._dropped:
                    logger.warning("%s: takes events again; %d were dropped", self._what, self._dropped)
                self._dropped = 0
                return
            if not may_help:
                break
            if failures < self._tries_max:
                logger.info("%s: %s; try %d of %d", self._what, problem, failures, self._tries_max)
                await asyncio.sleep(PAUSES.after(failures))
        logger.warning("%s: an event was not delivered and is dropped: %s", self._what, problem)

    async def _try(self, body: bytes) -> tuple[str, bool]:
        """The problem, empty when there is none, and whether another try may help."""
        given = {
            "Host": self._host,
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **self._headers(body),
        }
        limits = dict.fromkeys(("connect", "read", "write", "pool"), self._timeout_s)
        try:
            async with asyncio.timeout(self._timeout_s):
                status = await self._status(list(given.items()), body, limits)
        except TimeoutError:
            return f"no answer within {self._timeout_s:g} s", True
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, OSError) as error:
            return str(error) or type(error).__name__, True
        if 200 <= status < 300:
            return "", False
        return f"it answers {status}", status >= 500 or status in AGAIN

    async def _status(self, headers: list[tuple[str, str]], body: bytes, limits: dict[str, float]) -> int:
        """That of the answer, of which nothing else is wanted: its end is read where it is near, to use the connection again."""
        left = ANSWER_BYTES_MAX
        async with self._http.stream(
            "POST", self._url, headers=headers, content=body, extensions={"timeout": limits}
        ) as answer:
            async for part in answer.aiter_stream():
                left -= len(part)
                if left < 0:
                    break
            return answer.status
