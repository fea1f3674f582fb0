"""Collects what a job has printed from the workers that ran it, up to a limit, before they forget it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from firesteel.adapters.blob.outputs import Outputs
from firesteel.adapters.history.keptlogs import KeptLog, KeptText
from firesteel.model.ids import JobID, ResourceID
from firesteel.model.inquiries import AnyAnswer, AnyInquiry, FileEntry, FileList, FilePart, ListFiles, ReadFile
from firesteel.model.refusals import NoAnswer, UnknownTaskManager
from firesteel.model.views import JobView

ANSWER_LIMIT_S = 10.0
"""Time that a worker has for each answer; of one that does not answer nothing is kept."""

FILES_MAX = 2_000
"""Most log files that are kept of one job: those that were written last."""

SCRIPT_ATTEMPTS_MAX = 16
STREAMS = ("stdout", "stderr")

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
    found = [
        (worker, file)
        for worker in _workers_of(view, workers)
        for file in await _files_on(workers, worker, view.job_id)
    ]
    found = sorted(found, key=lambda each: each[1].modified_ms)[-FILES_MAX:]
    may_print = view.is_script or not view.vertices
    printed = await _printed(view, outputs) if may_print else []
    sizes = [*(file.size_bytes for _, file in found), *(size for _, size in printed)]
    shares = fair_shares(sizes, limit_bytes)
    kept = []
    for (worker, file), share in zip(found, shares, strict=False):
        data = await _last_bytes(workers, worker, file, share)
        log = KeptLog(task_manager=worker, name=file.name, modified_ms=file.modified_ms, size_bytes=file.size_bytes)
        kept.append(KeptText(log, data))
    for (name, size), share in zip(printed, shares[len(found) :], strict=True):
        data = b"".join([part async for part in _parts(outputs, view.job_id, name, size - share)])
        log = KeptLog(task_manager=ResourceID(""), name=name, modified_ms=view.end_time_ms, size_bytes=size)
        kept.append(KeptText(log, data[:share]))
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


async def _files_on(workers: Workers, worker: ResourceID, job_id: JobID) -> Sequence[FileEntry]:
    try:
        answer = await workers.ask(worker, ListFiles(prefix=f"{job_id}_"), ANSWER_LIMIT_S)
    except (UnknownTaskManager, NoAnswer) as error:
        logger.info("job %s: what it has printed on %s is not archived (%s)", job_id, worker, error)
        return ()
    return answer.files if isinstance(answer, FileList) else ()


async def _last_bytes(workers: Workers, worker: ResourceID, file: FileEntry, limit: int) -> bytes:
    """The last bytes of a file, from the beginning of a line on; as far as they can be had."""
    data, offset = bytearray(), 0 if limit >= file.size_bytes else -limit
    while offset < file.size_bytes and limit > 0:
        try:
            answer = await workers.ask(worker, ReadFile(name=file.name, offset=offset), ANSWER_LIMIT_S)
        except (UnknownTaskManager, NoAnswer):
            break
        if not isinstance(answer, FilePart) or not answer.data:
            break
        data += answer.data
        offset = answer.end
    return bytes(data[-limit:]) if limit else b""


async def _printed(view: JobView, outputs: Outputs) -> list[tuple[str, int]]:
    """Names and sizes of what a script has printed, of which nothing is held: it is read again, as far as it is kept. Of a job
    without vertices it is not known whether it is one, nor how many attempts it had."""
    attempts = max((vertex.attempts for vertex in view.vertices), default=SCRIPT_ATTEMPTS_MAX)
    found = []
    for name in (f"{attempt}.{stream}" for attempt in range(min(SCRIPT_ATTEMPTS_MAX, attempts)) for stream in STREAMS):
        size = sum([len(part) async for part in _parts(outputs, view.job_id, name)])
        if size:
            found.append((name, size))
    return found


async def _parts(outputs: Outputs, job_id: JobID, name: str, offset: int = 0) -> AsyncIterator[bytes]:
    while part := await outputs.read(job_id, name, offset):
        yield part
        offset += len(part)
        await asyncio.sleep(0)
