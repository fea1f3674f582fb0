"""What former leaders have left in the storage and nobody will name: uploads never answered, files half-written."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from firesteel.model.ids import JobID


@dataclass(frozen=True, slots=True)
class Named:
    """What jobs that are known may still need of the files that are kept for jobs."""

    blobs: Collection[str]
    jobs: Collection[JobID]


Sweep = Callable[[int, Callable[[], Named | None]], Awaitable[bool]]
"""Deletes what was put before a time (in ms) and is not named; False when what is named can't be told yet."""


async def swept(sweep: Callable[[], Awaitable[bool]], grace_s: float) -> None:
    """Sweep once, after a time in which workers report what they have finished meanwhile."""
    while True:
        await asyncio.sleep(grace_s)
        if await sweep():
            return
