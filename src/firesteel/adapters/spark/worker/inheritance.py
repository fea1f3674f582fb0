"""Remains of workers that were killed on this host: found by one that lives, and cleared when its jobs are over."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from firesteel.adapters.spark.staged.notes import whole_of
from firesteel.adapters.spark.staged.references import JDBC_SCHEME, TWO_PHASE_SCHEME, scheme_of
from firesteel.adapters.spark.streams.retention import retain
from firesteel.adapters.spark.streams.usednotes import jobs_noted
from firesteel.adapters.spark.worker.workdirs import WorkDirectory, dead_ones
from firesteel.adapters.storage.serving import NOTHING_SET
from firesteel.model.ids import JobID

logger = logging.getLogger(__name__)

BEYOND_US = (JDBC_SCHEME, TWO_PHASE_SCHEME)
"""Schemes of what was staged with secrets or code of the user's, which died with the worker."""


class DeadWorkers:
    """The `Inheritance` (see runtime.ports) of one worker: directories beside its own that it has locked, and what an
    earlier process of its name has left in its own."""

    def __init__(self, own: WorkDirectory, pattern: str, storage: Mapping[str, str] = NOTHING_SET) -> None:
        """Directories of workers are those beside its own that match the pattern. `storage`: settings by which savepoints in
        buckets are reached."""
        self._own, self._pattern, self._storage = own, pattern, storage
        self._former = {job_id: own.staged(job_id) for job_id in own.jobs()}
        self._claimed: dict[Path, WorkDirectory] = {}
        self._burying = threading.Lock()  # jobs are released side by side
        self.discard: Callable[[Sequence[str]], Awaitable[None]] = _nothing
        """Removes what is staged."""

    async def look(self) -> Sequence[JobID]:
        await asyncio.to_thread(self._claim)
        found = [job_id for each in tuple(self._claimed.values()) for job_id in each.jobs()]
        found += jobs_noted(self._own.path)  # also of those whose master this worker has given up
        return tuple(dict.fromkeys((*self._former, *found)))

    async def release(self, job_id: JobID, *, retains: bool = False) -> None:
        staged = [
            *self._former.get(job_id, ()),
            *(line for each in tuple(self._claimed.values()) for line in each.staged(job_id)),
        ]
        beyond = [location for location in staged if scheme_of(location) in BEYOND_US]
        if beyond:
            text = "a worker that was killed has left what can't be removed without its secrets or code (job %s): %s"
            logger.warning(text, job_id, ", ".join(beyond))
        await self.discard(whole_of(job_id, (location for location in staged if location not in beyond)))
        self._former.pop(job_id, None)
        for each in tuple(self._claimed.values()):
            if retains:
                await asyncio.to_thread(retain, each.path, job_id, None, self._storage)
            await asyncio.to_thread(each.forget, job_id)
        await asyncio.to_thread(self._bury)

    def close(self) -> None:
        """This worker ends: let others clear up the rest."""
        for each in tuple(self._claimed.values()):
            each.close()
        self._claimed.clear()
        self._own.stop()

    def _claim(self) -> None:
        for dead in dead_ones(self._own.path.parent, self._pattern):
            if dead.owner.cluster != self._own.owner.cluster:
                dead.close()
                continue
            logger.info("worker %s is dead: clearing up %s", dead.owner.worker, dead.path)
            dead.clear_scratch()
            self._claimed[dead.path] = dead
        self._bury()

    def _bury(self) -> None:
        """Directories in which no job has anything any more go."""
        with self._burying:
            for path, dead in tuple(self._claimed.items()):
                if not dead.jobs() and dead.bury(self._own.path):
                    dead.close()
                    self._claimed.pop(path, None)  # or this worker has ended meanwhile
                    logger.info("%s of the dead worker %s is gone", path, dead.owner.worker)


async def _nothing(locations: Sequence[str]) -> None:
    """There is no backend yet."""
