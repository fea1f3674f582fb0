"""Collects what a job has printed from the workers that ran it, up to a limit, before they forget it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from firesteel.adapters.blob.outputs import Outputs
from firesteel.adapters.history.keptlogs import KeptLog, KeptText
from firesteel.model.ids import JobID, ResourceID
from firesteel.model.inquiries import (
    PART_BYTES_MAX,
    AnyAnswer,
    AnyInquiry,
    FileEntry,
    FileList,
    FilePart,
    ListFiles,
    ReadFile,
)
from firesteel.model.refusals import NoAnswer, UnknownTaskManager
from firesteel.model.views import JobView

ANSWER_LIMIT_S = 10.0
"""Time that a worker has for each answer; one that does not answer is not asked again for that job."""

WORKERS_AT_ONCE = 16
"""Workers that are asked at the same time for the logs of one job."""

FILES_MAX = 2_000
"""Most log files that are kept of one job: those that were written last."""

SCRIPT_ATTEMPTS_MAX = 16
"""Attempts of a script whose output is kept: the last ones, which say how it has ended."""
STREAMS = ("stdout", "stderr")

T = TypeVar("T")
logger = logging.getLogger(__name__)


class Workers(Protocol):
    """The workers that are registered, as their ResourceManager knows them."""

    def ids(self) -> Sequence[ResourceID]:
        """Raises NoLeader."""

    async def ask(self, resource_id: ResourceID, inquiry: AnyInquiry, limit_s: float) -> AnyAnswer:
        """Raises UnknownTaskManager, NoAnswer or NoLeader."""


async def collected(view: JobView, workers: Workers, outputs: Outputs, limit_bytes: int) -> list[KeptText]:
    """Logs of the job's attempts as far as their workers answer, and what a script has printed, as it was written.

    Where all is more than `limit_bytes`, the ends of the longest are kept. Raises OSError, or NoLeader.
    """
    asked = [_Worker(workers, each, view.job_id) for each in _workers_of(view, workers)]
    lists = await _each(asked, lambda worker: worker.files())
    found = [(worker, file) for worker, files in zip(asked, lists, strict=True) for file in files]
    found = sorted(found, key=lambda each: each[1].modified_ms)[-FILES_MAX:]
    may_print = view.is_script or not view.vertices
    printed = await _printed(view, outputs) if may_print else []
    sizes = [*(file.size_bytes for _, file in found), *(size for _, size in printed)]
    shares = fair_shares(sizes, limit_bytes)
    wanted = [(worker, file, share) for (worker, file), share in zip(found, shares, strict=False)]
    parts = await _each(asked, lambda worker: worker.ends([each[1:] for each in wanted if each[0] is worker]))
    of_worker = {worker.id: iter(ends) for worker, ends in zip(asked, parts, strict=True)}
    kept = []
    for worker, file, _ in wanted:
        log = KeptLog(task_manager=worker.id, name=file.name, modified_ms=file.modified_ms, size_bytes=file.size_bytes)
        kept.append(KeptText(log, next(of_worker[worker.id])))
    for (name, size), share in zip(printed, shares[len(found) :], strict=True):
        data = await _last_printed(outputs, view.job_id, name, size, share)
        log = KeptLog(task_manager=ResourceID(""), name=name, modified_ms=view.end_time_ms, size_bytes=size)
        kept.append(KeptText(log, data))
    return kept


def fair_shares(sizes: Sequence[int], limit: int) -> list[int]:
    """Parts of `limit` for files of these sizes: none gets more than it has, and what short ones leave goes to the others."""
    shares, left = [0] * len(sizes), limit
    for taken, index in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        shares[index] = min(sizes[index], left // (len(sizes) - taken))
        left -= shares[index]
    return shares


def _workers_of(view: JobView, workers: Workers) -> list[ResourceID]:
    """Those that are here and ran an attempt of the job; all, where its view does not name every subtask: that of a job whose
    JobMaster broke has no vertices."""
    here = workers.ids()
    if not view.vertices or any(len(vertex.subtasks) < vertex.parallelism for vertex in view.vertices):
        return list(here)
    shown = (each for vertex in view.vertices for subtask in vertex.subtasks for each in (subtask, *subtask.earlier))
    ran = {each.task_manager for each in shown}
    return [worker for worker in here if worker in ran]


class _Worker:
    """A worker that is asked for what one job has printed there, until it does not answer for the first time."""

    def __init__(self, workers: Workers, worker: ResourceID, job_id: JobID) -> None:
        self._workers, self.id, self._job_id = workers, worker, job_id
        self._is_silent = False

    async def files(self) -> Sequence[FileEntry]:
        answer = await self._ask(ListFiles(prefix=f"{self._job_id}_"))
        return answer.files if isinstance(answer, FileList) else ()

    async def ends(self, wanted: Sequence[tuple[FileEntry, int]]) -> list[bytes]:
        """The ends of files, one after the other, none longer than wanted."""
        return [await self._last_bytes(file, share) for file, share in wanted]

    async def _last_bytes(self, file: FileEntry, limit: int) -> bytes:
        """The last bytes of a file, from the beginning of a line on; as far as they can be had."""
        data, offset = bytearray(), 0 if limit >= file.size_bytes else -limit
        while offset < file.size_bytes and limit > 0:
            answer = await self._ask(ReadFile(name=file.name, offset=offset))
            if not isinstance(answer, FilePart) or not answer.data:
                break
            data += answer.data
            offset = answer.end
        return bytes(data[-limit:]) if limit else b""

    async def _ask(self, inquiry: ListFiles | ReadFile) -> AnyAnswer | None:
        if self._is_silent:
            return None
        try:
            return await self._workers.ask(self.id, inquiry, ANSWER_LIMIT_S)
        except (UnknownTaskManager, NoAnswer) as error:
            self._is_silent = True
            text = "job %s: what it has printed on %s is not archived, or not all of it (%s)"
            logger.info(text, self._job_id, self.id, error)
            return None


async def _each(workers: Sequence[_Worker], ask: Callable[[_Worker], Awaitable[T]]) -> list[T]:
    """What each worker is asked for, several at a time: one that is silent holds up no other."""
    turns = asyncio.Semaphore(WORKERS_AT_ONCE)

    async def in_turn(worker: _Worker) -> T:
        async with turns:
            return await ask(worker)

    return await asyncio.gather(*(in_turn(worker) for worker in workers))


async def _printed(view: JobView, outputs: Outputs) -> list[tuple[str, int]]:
    """Names and sizes of what a script has printed, of which nothing is held: it is read again, as far as it is kept. Of a job
    without vertices it is not known whether it is one, nor how many attempts it had."""
    attempts = max((vertex.attempts for vertex in view.vertices), default=SCRIPT_ATTEMPTS_MAX)
    last = range(max(0, attempts - SCRIPT_ATTEMPTS_MAX), attempts)
    found = []
    for name in (f"{attempt}.{stream}" for attempt in last for stream in STREAMS):
        size = sum([len(part) async for part in _parts(outputs, view.job_id, name)])
        if size:
            found.append((name, size))
    return found


async def _last_printed(outputs: Outputs, job_id: JobID, name: str, size: int, limit: int) -> bytes:
    """The last bytes of a stream, from the beginning of a line on, if one begins near: what begins within a line may begin
    within a secret, and nobody can see that it is one."""
    before = 1 if 0 < limit < size else 0  # the end of a line, perhaps
    parts = [part async for part in _parts(outputs, job_id, name, size - limit - before)]
    data = b"".join(parts)[: limit + before]
    return data[max(before, data.find(b"\n", 0, PART_BYTES_MAX) + 1) :] if before else data


async def _parts(outputs: Outputs, job_id: JobID, name: str, offset: int = 0) -> AsyncIterator[bytes]:
    while part := await outputs.read(job_id, name, offset):
        yield part
        offset += len(part)
        await asyncio.sleep(0)
