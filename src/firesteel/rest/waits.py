"""Requests that wait for something to happen: they are answered when the endpoint stops."""

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Waits:
    """All of them."""

    def __init__(self) -> None:
        self._limits: set[asyncio.Timeout] = set()
        self._is_stopping = False

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping

    @contextlib.asynccontextmanager
    async def limited(self, seconds: float | None) -> AsyncIterator[None]:
        """Raises TimeoutError when so much time has passed in the block, or the endpoint stops."""
        async with asyncio.timeout(0 if self._is_stopping else seconds) as limit:
            self._limits.add(limit)
            try:
                yield
            finally:
                self._limits.discard(limit)

    def stop(self) -> None:
        """End those under way, and those that begin from now on."""
        self._is_stopping = True
        for limit in self._limits:
            if not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())
