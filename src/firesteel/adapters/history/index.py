"""What is archived in some directories: a line for each job in memory, and all else of a job when somebody looks at it."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, TypeVar

from firesteel.adapters.history.archive import read_logs
from firesteel.adapters.history.archivefile import Damaged
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
from firesteel.model.refusals import UnknownJob
from firesteel.model.views import JobSummary

THREADS = 8
"""Files that are read at the same time: of a bucket each takes a round trip."""

BODIES_CACHED, LOGS_CACHED = 64, 4
"""Jobs that are kept in memory whole, and jobs whose logs are: those that were read last."""

T = TypeVar("T")
logger = logging.getLogger(__name__)


class Place(NamedTuple):
    """A directory of archives, by its URI."""

    uri: str
    files: Files


class _Line(NamedTuple):
    place: Place
    summary: JobSummary


class HistoryIndex:
    """The index of some directories, as of the last `refresh`. Files that can't be read are named in the log, and left out."""

    def __init__(self, places: Sequence[Place], *, forgets_deleted: bool, retained: int) -> None:
        """`forgets_deleted`: a job goes from the list when its archive is deleted. More than `retained` archives in one
        directory are too many, and the oldest are deleted there; of -1 there is no limit."""
        self._places, self._forgets_deleted, self._retained = tuple(places), forgets_deleted, retained
        self._lines: dict[JobID, _Line] = {}
        self._listed: tuple[JobSummary, ...] = ()
        self._broken: dict[Place, frozenset[str]] = {}
        """Files that were found to be none that can be read: nobody changes what is there, so they are not read again."""
        self._bodies: OrderedDict[JobID, ArchivedJob] = OrderedDict()
        self._logs: OrderedDict[JobID, KeptLogs] = OrderedDict()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="history")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def summaries(self) -> list[JobSummary]:
        """A line for each job, that which began last first; the same object for the same job at each call."""
        return list(self._listed)

    def summary(self, job_id: JobID) -> JobSummary:
        """Raises UnknownJob."""
        if job_id not in self._lines:
            raise UnknownJob(f"no job {job_id} is archived here")
        return self._lines[job_id].summary

    async def job(self, job_id: JobID) -> ArchivedJob | None:
        """A job of the index; None when its archive has been deleted, or can't be read. Raises UnknownJob, or OSError."""
        self.summary(job_id)
        files = self._lines[job_id].place.files

        def read() -> ArchivedJob | None:
            try:
                return decode_job(files.read(f"{job_id}{JOB_SUFFIX}"))
            except (FileNotFoundError, Damaged) as error:
                logger.warning("job %s is shown without its vertices: its archive can't be read (%s)", job_id, error)
                return None

        return await self._cached(self._bodies, BODIES_CACHED, job_id, read)

    async def logs(self, job_id: JobID) -> KeptLogs:
        """What is kept of a job's prints; nothing, of one that is not in the index."""
        if job_id not in self._lines:
            return KeptLogs(())
        files = self._lines[job_id].place.files
        return await self._cached(self._logs, LOGS_CACHED, job_id, lambda: read_logs(files, job_id)) or KeptLogs(())

    async def refresh(self) -> None:
        """Look for what is new in each directory, and for what has gone. One that can't be read keeps its jobs."""
        for place in self._places:
            try:
                await self._refresh(place)
            except OSError as error:
                logger.warning("the archives in %s can't be listed now, again later: %s", place.uri, error)
        self._listed = tuple(
            sorted((line.summary for line in self._lines.values()), key=lambda job: job.start_time_ms, reverse=True)
        )

    async def _refresh(self, place: Place) -> None:
        names = await self._in_thread(place.files.names)
        files = {job_id: name for name in names if (job_id := job_of_file(name)) is not None}
        known = {job_id for job_id, line in self._lines.items() if line.place is place}
        broken = self._broken.get(place, frozenset()) & set(files.values())
        new = [name for job_id, name in files.items() if job_id not in self._lines and name not in broken]
        chunks = [new[first::THREADS] for first in range(THREADS)]
        found = await asyncio.gather(*(self._in_thread(partial(_summaries, place, each)) for each in chunks if each))
        for summaries, damaged in found:
            broken |= damaged
            self._lines.update({each.job_id: _Line(place, each) for each in summaries})
            known.update(each.job_id for each in summaries)
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
            await self._in_thread(delete)
            logger.info("deleted the archives of the %d oldest jobs in %s", len(old), place.uri)
        self._forget(old)

    def _forget(self, jobs: Iterable[JobID]) -> None:
        for job_id in jobs:
            del self._lines[job_id]
            self._bodies.pop(job_id, None)
            self._logs.pop(job_id, None)

    async def _cached(
        self, cache: OrderedDict[JobID, T], size: int, job_id: JobID, read: Callable[[], T | None]
    ) -> T | None:
        value = cache.pop(job_id, None)
        if value is None:
            value = await self._in_thread(read)
        if value is not None:
            cache[job_id] = value
        while len(cache) > size:
            cache.popitem(last=False)
        return value

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


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
