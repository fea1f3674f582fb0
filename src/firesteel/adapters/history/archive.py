"""The archive of jobs that have ended, as their master writes it and reads from it."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from typing import TypeVar

from firesteel.adapters.blob.outputs import Outputs
from firesteel.adapters.history.archivefile import Damaged
from firesteel.adapters.history.cache import JobCache
from firesteel.adapters.history.collecting import Workers, collected
from firesteel.adapters.history.keptlogs import KeptLogs, KeptText, decode_logs, encode_logs, shown_text
from firesteel.adapters.history.record import JOB_SUFFIX, LOGS_SUFFIX, Origin, archived_job, encode_job
from firesteel.adapters.storage.files import Files
from firesteel.model.ids import JobID
from firesteel.model.views import JobResult, JobView
from firesteel.runtime.services import Clock

AT_ONCE, LOGS_AT_ONCE = 32, 8
"""Jobs that are archived at the same time, and those of them whose logs are in memory: others wait, in their clean-up."""

THREADS, READING_THREADS = 16, 4
"""Threads of its own to write and to read: a storage that hangs keeps nothing else in the process waiting. Of a bucket each
write takes a round trip."""

READ_LIMIT_S = 10.0
"""Time that a storage has to answer who asks for logs."""

LOGS_CACHE_BYTES = 64 << 20
"""Logs that are kept in memory: those that were read last."""

T = TypeVar("T")
logger = logging.getLogger(__name__)


class HistoryArchive:
    """Two files a job, each whole or not there: that of its logs, then that of the job, with which it is archived."""

    def __init__(
        self, files: Files, cluster: str, clock: Clock, logs_max_bytes: int, *, read_limit_s: float = READ_LIMIT_S
    ) -> None:
        """Of more than `logs_max_bytes` of logs the ends are kept; of 0 nothing is."""
        self._files, self._cluster, self._clock = files, cluster, clock
        self._logs_max_bytes, self._read_limit_s = logs_max_bytes, read_limit_s
        self._version = version("firesteel")
        self._turns, self._logs_turns = asyncio.Semaphore(AT_ONCE), asyncio.Semaphore(LOGS_AT_ONCE)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="history")
        self._reading = ThreadPoolExecutor(READING_THREADS, thread_name_prefix="history-read")
        self._logs = JobCache[KeptLogs](LOGS_CACHE_BYTES)

    def close(self) -> None:
        """What is being written goes on to its end."""
        for threads in (self._threads, self._reading):
            threads.shutdown(wait=False, cancel_futures=True)

    async def put(self, view: JobView, result: JobResult, workers: Workers, outputs: Outputs) -> None:
        """Archive a job, with what its workers still have of it, unless it is there. Raises OSError."""
        async with self._turns:
            job_file, logs_file = f"{view.job_id}{JOB_SUFFIX}", f"{view.job_id}{LOGS_SUFFIX}"
            if await self._in_thread(partial(self._files.has, job_file)):
                return
            # Who comes after a master that has died in between finds less on the workers, so what is there stays.
            if self._logs_max_bytes and not await self._in_thread(partial(self._files.has, logs_file)):
                async with self._logs_turns:
                    logs = await collected(view, workers, outputs, self._logs_max_bytes)
                    if logs:
                        await self._in_thread(partial(self._write_logs, logs_file, logs))
            origin = Origin(cluster=self._cluster, firesteel=self._version, archived_ms=self._clock.now_ms())
            job = archived_job(view, result, origin)
            await self._in_thread(lambda: self._files.write(job_file, encode_job(job)))

    async def logs(self, job_id: JobID) -> KeptLogs:
        """What is kept of a job's prints; nothing, where that can't be read, or not in time."""
        known = self._logs.get(job_id)
        if known is None:
            known = await self._read(job_id)
            if known.holders():  # else they may be about to come
                self._logs.put(job_id, known, known.size_bytes)
        return known

    async def _read(self, job_id: JobID) -> KeptLogs:
        reading = asyncio.get_running_loop().run_in_executor(self._reading, read_logs, self._files, job_id)
        try:
            async with asyncio.timeout(self._read_limit_s):
                return await reading or KeptLogs(())
        except TimeoutError:
            logger.warning("the archive does not say within %g s what job %s has printed", self._read_limit_s, job_id)
            return KeptLogs(())

    def _write_logs(self, name: str, logs: Sequence[KeptText]) -> None:
        self._files.write(name, encode_logs([shown_text(each) for each in logs]))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


class NoHistory:
    """Where no directory is configured: nothing is archived."""

    async def put(self, view: JobView, result: JobResult, workers: Workers, outputs: Outputs) -> None:
        return

    async def logs(self, job_id: JobID) -> KeptLogs:
        return KeptLogs(())

    def close(self) -> None:
        return


History = HistoryArchive | NoHistory


def read_logs(files: Files, job_id: JobID) -> KeptLogs | None:
    """Logs of a job that is archived there: no texts when there are none, or they are damaged, and None when the storage
    fails, which may be over soon. Blocking."""
    try:
        return decode_logs(files.read(f"{job_id}{LOGS_SUFFIX}"))
    except FileNotFoundError:
        return KeptLogs(())
    except Damaged as error:
        logger.warning("what job %s has printed can't be read from its archive: %s", job_id, error)
        return KeptLogs(())
    except OSError as error:
        logger.warning("what job %s has printed can't be read from its archive now: %s", job_id, error)
        return None
