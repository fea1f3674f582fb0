"""Jobs that have ended and wait until they are archived, which a storage that fails makes take long: a bounded number."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from firesteel.model.ids import JobID
from firesteel.runtime.about import about

logger = logging.getLogger(__name__)


class ArchiveBacklog:
    """Of more than `waiting_max` jobs the one that ended first is given up: each holds its graph, view and journal here."""

    def __init__(self, waiting_max: int) -> None:
        self._waiting_max = max(1, waiting_max)
        self._waiting: dict[JobID, asyncio.Timeout] = {}
        """The oldest first; to reschedule what one has is to give it up."""

    async def archived(self, job_id: JobID, archive: Callable[[], Awaitable[None]]) -> None:
        """Return when `archive`, which tries again by itself, has archived the job, or the job was given up."""
        patience = asyncio.timeout(None)
        try:
            async with patience:
                self._waiting[job_id] = patience
                self._give_up_oldest()
                await archive()
        except TimeoutError:
            if not patience.expired():
                raise
            text = "job %s is not archived: %d jobs that ended after it wait for the archive, and there is no room for more"
            logger.warning(text, job_id, self._waiting_max, extra=about(job_id))
        finally:
            self._waiting.pop(job_id, None)

    def _give_up_oldest(self) -> None:
        while len(self._waiting) > self._waiting_max:
            oldest = self._waiting.pop(next(iter(self._waiting)))
            oldest.reschedule(asyncio.get_running_loop().time())
