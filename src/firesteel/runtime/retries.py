"""What a store could not do is tried again: nothing that must be done is given up."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from firesteel.core.dispatcher.requests import STORE_RETRIES

T = TypeVar("T")
logger = logging.getLogger(__name__)


async def retried(
    what: str, work: Callable[[], Awaitable[T]], on_failure: Callable[[OSError], None] = lambda error: None
) -> T:
    """What `work` returns, once the store does it; until then the log says what failed. Ends only when it is cancelled."""
    failures = 0
    while True:
        try:
            return await work()
        except OSError as error:
            failures += 1
            on_failure(error)
            delay_s = STORE_RETRIES.after(failures) / 1_000
            logger.warning("%s failed, again in %.1f s (%s: %s)", what, delay_s, type(error).__name__, error)
        await asyncio.sleep(delay_s)
