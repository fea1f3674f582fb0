"""What former leaders have left in the storage and nobody will name: uploads never answered, files half-written."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from firesteel.core.journal import JobState
from firesteel.model.ids import JobID
from firesteel.model.tasks import RESULT_FORMAT


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


def staged_rows(states: Iterable[JobState]) -> Iterator[str]:
    """Blobs with rows that jobs which run are going to return."""
    for state in states:
        for outcome in state.finished.values():
            yield from (sink.target for sink in outcome.sinks if sink.format == RESULT_FORMAT)
