"""What is archived in some directories: a line for each job in memory, and all else of a job when somebody looks at it."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, TypeVar

from firesteel.adapters.history.archive import read_logs
from firesteel.adapters.history.archivefile import Damaged
from firesteel.adapters.history.cache import JobCache
from firesteel.adapters.history.keptlogs import KeptLogs
from firesteel.adapters.history.record import (
    JOB_SUFFIX,
    LOGS_SUFFIX,
    ArchivedJob,
    decode_job,
    decode_summary,
    job_of_file,
)
from firesteel.adapters.storage.files import Files
from firesteel.model.ids import JobID
from firesteel.model.refusals import StorageUnavailable, UnknownJob
from firesteel.model.views import JobSummary

THREADS, READING_THREADS = 8, 4
"""Files of a directory that are read at the same time, of a bucket each takes a round trip: in looking for what is new, and for
those who look at a job. Each directory has its own, so that one that hangs keeps nobody from the others."""

READ_LIMIT_S = 30.0
"""Time that a directory has to answer who looks at a job."""

BODIES_CACHE_BYTES, LOGS_CACHE_BYTES = 16 << 20, 64 << 20
"""Jobs and logs that are kept in memory, in the size of their files: those that were looked at last. In memory a job takes
about five times as much."""

T = TypeVar("T")
Sized = tuple[T, int]
"""A value, and the size of what it was read from in bytes."""
logger = logging.getLogger(__name__)


class Place(NamedTuple):
    """A directory of archives, by its URI."""

    uri: str
    files: Files


class _Threads:
    """Those of one directory."""

    def __init__(self) -> None:
        self.listing = ThreadPoolExecutor(THREADS, thread_name_prefix="history")
        self.reading = ThreadPoolExecutor(READING_THREADS, thread_name_prefix="history-read")

    def close(self) -> None:
        for threads in (self.listing, self.reading):
            threads.shutdown(wait=False, cancel_futures=True)


class _Line(NamedTuple):
    place: Place
    summary: JobSummary


class HistoryIndex:
    """The index of some directories, as of the last `refresh`. Files that can't be read are named in the log, and left out."""

    def __init__(
        self, places: Sequence[Place], *, forgets_deleted: bool, retained: int, read_limit_s: float = READ_LIMIT_S
    ) -> None:
        """`forgets_deleted`: a job goes from the list when its archive is deleted. More than `retained` archives in one
        directory are too many, and the oldest are deleted there; of -1 there is no limit."""
        self.places, self._forgets_deleted, self._retained = tuple(places), forgets_deleted, retained
        self._read_limit_s = read_limit_s
        self._lines: dict[JobID, _Line] = {}
        self._listed: tuple[JobSummary, ...] = ()
        self._broken: dict[Place, frozenset[str]] = {}
        """Files that were found to be none that can be read: nobody changes what is there, so they are not read again."""
        self._bodies, self._logs = JobCache[ArchivedJob](BODIES_CACHE_BYTES), JobCache[KeptLogs](LOGS_CACHE_BYTES)
        self._threads = {place: _Threads() for place in self.places}

    def close(self) -> None:
        for threads in self._threads.values():
            threads.close()

    def summaries(self) -> list[JobSummary]:
        """A line for each job, that which began last first; the same object for the same job at each call."""
        return list(self._listed)

    def summary(self, job_id: JobID) -> JobSummary:
        """Raises UnknownJob."""
        if job_id not in self._lines:
            raise UnknownJob(f"no job {job_id} is archived here")
        return self._lines[job_id].summary

    async def job(self, job_id: JobID) -> ArchivedJob | None:
        """A job of the index; None when its archive has been deleted, or is damaged. Raises UnknownJob, or StorageUnavailable."""
        self.summary(job_id)
        place = self._lines[job_id].place

        def read() -> Sized[ArchivedJob] | None:
            try:
                data = place.files.read(f"{job_id}{JOB_SUFFIX}")
                return decode_job(data), len(data)
            except (FileNotFoundError, Damaged) as error:
                logger.warning("job %s is shown without its vertices: its archive can't be read (%s)", job_id, error)
                return None

        try:
            return await self._cached(self._bodies, job_id, place, read)
        except OSError as error:
            raise StorageUnavailable(f"the archive of job {job_id} can't be read now: {error}") from None

    async def logs(self, job_id: JobID) -> KeptLogs:
        """What is kept of a job's prints; nothing, of one that is not in the index, or while that can't be read."""
        if job_id not in self._lines:
            return KeptLogs(())
        place = self._lines[job_id].place

        def read() -> Sized[KeptLogs] | None:
            logs = read_logs(place.files, job_id)
            return (logs, logs.size_bytes) if logs is not None else None

        try:
            return await self._cached(self._logs, job_id, place, read) or KeptLogs(())
        except TimeoutError as error:
            logger.warning("what job %s has printed can't be read now: %s", job_id, error)
            return KeptLogs(())

    async def refresh(self) -> None:
        """Look through all directories, at the same time."""
        await asyncio.gather(*(self.refresh_place(place) for place in self.places))

    async def refresh_place(self, place: Place) -> None:
        """Look for what is new in a directory, and for what has gone. One that can't be read keeps its jobs."""
        try:
            await self._refresh(place)
        except OSError as error:
            logger.warning("the archives in %s can't be listed now, again later: %s", place.uri, error)
        self._listed = tuple(
            sorted((line.summary for line in self._lines.values()), key=lambda job: job.start_time_ms, reverse=True)
        )

    async def _refresh(self, place: Place) -> None:
        names = await self._listing(place, place.files.names)
        files = {job_id: name for name in names if (job_id := job_of_file(name)) is not None}
        known = {job_id for job_id, line in self._lines.items() if line.place is place}
        broken = self._broken.get(place, frozenset()) & set(files.values())
        new = [name for job_id, name in files.items() if job_id not in self._lines and name not in broken]
        chunks = [new[first::THREADS] for first in range(THREADS)]
        found = await asyncio.gather(
            *(self._listing(place, partial(_summaries, place, each)) for each in chunks if each)
        )
        for summaries, damaged in found:
            broken |= damaged
            mine = [each for each in summaries if each.job_id not in self._lines]  # others have looked meanwhile
            self._lines.update({each.job_id: _Line(place, each) for each in mine})
            known.update(each.job_id for each in mine)
        self._broken[place] = broken
        if self._forgets_deleted:
            self._forget(job_id for job_id in known if job_id not in files)
        if self._retained >= 0:
            await self._retain(place, [job_id for job_id in known if job_id in files])

    async def _retain(self, place: Place, jobs: Sequence[JobID]) -> None:
        """Delete the archives of all but the newest jobs of a directory."""
        newest_first = sorted(jobs, key=lambda job_id: self._lines[job_id].summary.end_time_ms, reverse=True)
        old = newest_first[self._retained :]

        def delete() -> None:
            for job_id in old:
                # Its logs first: those of a job that is not listed would be found by nobody.
                place.files.delete(f"{job_id}{LOGS_SUFFIX}")
                place.files.delete(f"{job_id}{JOB_SUFFIX}")

        if old:
            await self._listing(place, delete)
            logger.info("deleted the archives of the %d oldest jobs in %s", len(old), place.uri)
        self._forget(old)

    def _forget(self, jobs: Iterable[JobID]) -> None:
        for job_id in jobs:
            del self._lines[job_id]
            self._bodies.drop(job_id)
            self._logs.drop(job_id)

    async def _cached(
        self, cache: JobCache[T], job_id: JobID, place: Place, read: Callable[[], Sized[T] | None]
    ) -> T | None:
        """What is known, or is read now. Raises OSError, and so TimeoutError."""
        known = cache.get(job_id)
        if known is not None:
            return known
        reading = asyncio.get_running_loop().run_in_executor(self._threads[place].reading, read)
        try:
            async with asyncio.timeout(self._read_limit_s):
                found = await reading
        except TimeoutError:
            raise TimeoutError(f"{place.uri} has not answered within {self._read_limit_s:g} s") from None
        if found is None:
            return None
        if job_id in self._lines:
            cache.put(job_id, *found)
        return found[0]

    async def _listing(self, place: Place, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads[place].listing, work)


def _summaries(place: Place, names: Sequence[str]) -> tuple[list[JobSummary], frozenset[str]]:
    """Summaries of the jobs in these files, and the files that are damaged. Blocking."""
    found, damaged = [], set()
    for name in names:
        try:
            summary = decode_summary(place.files.read(name))
            if summary.job_id != job_of_file(name):
                raise Damaged(f"it is of job {summary.job_id}")
            found.append(summary)
        except Damaged as error:
            damaged.add(name)
            logger.warning("the archive %s in %s can't be read, and is left out: %s", name, place.uri, error)
        except OSError as error:
            logger.warning("the archive %s in %s can't be read now, again later: %s", name, place.uri, error)
    return found, frozenset(damaged)
