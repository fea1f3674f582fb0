"""Log files and threads of the master and of workers. A worker is asked for each part; nothing is copied to the master."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from starlette.responses import Response, StreamingResponse

from firesteel.adapters.inspection.desk import read_when_grown
from firesteel.adapters.inspection.logfiles import LogFiles, NoSuchFile
from firesteel.adapters.inspection.threads import thread_dump
from firesteel.model.ids import JobID, ResourceID
from firesteel.model.inquiries import (
    READ_WAIT_MAX_MS,
    AnyInquiry,
    DescribeSpark,
    DumpThreads,
    FileEntry,
    FileList,
    FilePart,
    InquiryRefused,
    ListFiles,
    ReadFile,
    SparkDescription,
    ThreadDump,
)
from firesteel.model.resources import LOCAL_SPARK
from firesteel.model.secrets import redacted_part, redacted_text
from firesteel.model.views import JobView
from firesteel.rest.call import Call
from firesteel.rest.errors import RestError, not_found
from firesteel.rest.schema import cluster as c
from firesteel.rest.schema.logs import AttemptLog, JobLogsInfo, LogPartInfo
from firesteel.rest.security import Role
from firesteel.rest.sparkapplications import SLOT_HERE, SLOT_ON_CLUSTER, spark_application
from firesteel.runtime.client import NoAnswer, UnknownJob, UnknownTaskManager

MAIN_LOG = "taskmanager.log"
LIST_LIMIT_S = 2.0
"""Time that a worker has to list the logs of a job: one that is frozen holds up what others have."""

_OF_AN_ATTEMPT = re.compile(r"[0-9a-f]{32}_(\d+)-(\d+)\.log")
_OF_A_JOB = re.compile(r"([0-9a-f]{32})_.*", re.DOTALL)

Read = Callable[[int, int], Awaitable[FilePart]]
"""A part of a file from an offset on, waiting so many milliseconds for one."""


# ── the master ───────────────────────────────────────────────────────────────────────────────
async def master_logs(call: Call) -> c.LogListInfo:
    return _listed(await _master_files(call))


async def master_log_file(call: Call) -> Response:
    return await _text(_of_master(call, call.path("filename")))


async def master_log(call: Call) -> Response:
    """Log of the master that is asked: others may lie beside it, of commands and of other masters."""
    file = call.services.log_file
    return await _text(_of_master(call, file.name if file is not None else ""))


async def master_threads(call: Call) -> c.ThreadDumpInfo:
    return _threads(thread_dump())


async def no_text_file(call: Call) -> Response:
    raise not_found("File not found.")


# ── workers ──────────────────────────────────────────────────────────────────────────────────
async def worker_logs(call: Call) -> c.LogListInfo:
    return _listed(await _worker_files(call))


async def worker_log_file(call: Call) -> Response:
    return await _text(_of_worker(call, call.path("filename")))


async def worker_log_part(call: Call) -> LogPartInfo:
    """Lines of a file for who follows it: answered when there are some, or the time is over."""
    wait_ms = min(call.query["wait"], READ_WAIT_MAX_MS)
    until_s = asyncio.get_running_loop().time() + wait_ms / 1_000
    part = await _of_worker(call, call.path("filename"))(call.query["offset"], wait_ms)
    if not part.data:  # an archive answers at once, and would be asked again at once
        with contextlib.suppress(TimeoutError):
            async with call.services.waits.limited(until_s - asyncio.get_running_loop().time()):
                await asyncio.Event().wait()
    return LogPartInfo(_shown(part), part.offset, part.end, part.size_bytes)


async def worker_log(call: Call) -> Response:
    """The worker's own log, or where it has none, the file that was written last."""
    files = await _worker_files(call)
    own = [file.name for file in files if file.name == MAIN_LOG]
    return await _text(_of_worker(call, own[0] if own else _newest(files)))


async def worker_stdout(call: Call) -> Response:
    """Output of the attempt that printed last."""
    files = [file for file in await _worker_files(call) if _OF_AN_ATTEMPT.fullmatch(file.name)]
    return await _text(_of_worker(call, _newest(files)))


async def worker_threads(call: Call) -> c.ThreadDumpInfo:
    answer = await _ask(call, DumpThreads())
    assert isinstance(answer, ThreadDump), "that is what it answers"
    return _threads(answer)


async def worker_spark(call: Call) -> c.TaskManagerSparkInfo:
    answer = await _ask(call, DescribeSpark())
    assert isinstance(answer, SparkDescription), "that is what it answers"
    is_elsewhere = any(each.master != LOCAL_SPARK for each in answer.applications)
    slot = SLOT_ON_CLUSTER if is_elsewhere else SLOT_HERE
    return c.TaskManagerSparkInfo(applications=[spark_application(each) for each in answer.applications], slot=slot)


# ── jobs ─────────────────────────────────────────────────────────────────────────────────────
async def job_logs(call: Call) -> JobLogsInfo:
    """Logs of a job's attempts, as far as the workers are there that ran them, or they are archived."""
    view = await call.job()
    workers = await call.gateway.list_log_holders(view.job_id)
    found = await asyncio.gather(*(_logs_of(call, view, worker) for worker in workers))
    logs = [log for of_worker in found for log in of_worker]
    return JobLogsInfo(sorted(logs, key=lambda log: (log.region, log.attempt)))


async def _logs_of(call: Call, view: JobView, worker: ResourceID) -> list[AttemptLog]:
    """Logs on one worker; none of one that does not answer."""
    answer: object = None
    with contextlib.suppress(NoAnswer, UnknownTaskManager):
        answer = await call.gateway.ask_task_manager(worker, ListFiles(prefix=f"{view.job_id}_"), LIST_LIMIT_S)
    files = answer.files if isinstance(answer, FileList) else ()
    matches = ((file, _OF_AN_ATTEMPT.fullmatch(file.name)) for file in files)
    return [_attempt_log(view, worker, file, int(found[1]), int(found[2])) for file, found in matches if found]


def _attempt_log(view: JobView, worker: ResourceID, file: FileEntry, region: int, attempt: int) -> AttemptLog:
    vertices = [
        vertex.name
        for vertex in view.vertices
        if vertex.first_region <= region < vertex.first_region + vertex.parallelism
    ]
    return AttemptLog(
        taskmanager_id=worker,
        name=file.name,
        size=file.size_bytes,
        mtime=file.modified_ms,
        region=region,
        attempt=attempt,
        vertices=vertices,
    )


# ── parts of the above ───────────────────────────────────────────────────────────────────────
async def _ask(call: Call, inquiry: AnyInquiry) -> FileList | FilePart | ThreadDump | SparkDescription:
    """Answer of the worker of the path. Raises RestError, UnknownTaskManager or NoAnswer."""
    answer = await call.gateway.ask_task_manager(ResourceID(call.path("taskmanagerid")), inquiry)
    match answer:
        case InquiryRefused(is_missing=True):
            raise not_found(answer.reason)
        case InquiryRefused():
            raise RestError(503, answer.reason)
        case FileList() | FilePart() | ThreadDump() | SparkDescription():
            return answer
        case _:
            raise AssertionError(f"no answer to {inquiry}: {answer}")


async def _worker_files(call: Call) -> tuple[FileEntry, ...]:
    answer = await _ask(call, ListFiles())
    assert isinstance(answer, FileList), "that is what it answers"
    return answer.files


def _of_worker(call: Call, name: str) -> Read:
    async def read(offset: int, wait_ms: int) -> FilePart:
        await _require_owner(call, name)
        part = await _ask(call, ReadFile(name=name, offset=offset, wait_ms=wait_ms))
        assert isinstance(part, FilePart), "that is what it answers"
        return part

    return read


async def _master_files(call: Call) -> tuple[FileEntry, ...]:
    """The log, and what was the log before it was full."""
    file = call.services.log_file
    if file is None:
        return ()
    found = await asyncio.to_thread(LogFiles(file.parent).list, file.stem)
    return tuple(each for each in found if _is_part(each.name, file))


def _is_part(name: str, file: Path) -> bool:
    return name == file.name or re.fullmatch(rf"{re.escape(file.stem)}\.\d+\.log", name) is not None


async def _require_owner(call: Call, name: str) -> None:
    """Check that the caller owns the job or operates the cluster, whose prints these are. Raises RestError 403."""
    found = _OF_A_JOB.fullmatch(name)
    if found is None or call.user.may(Role.OPERATE):
        return
    with contextlib.suppress(UnknownJob):
        owner = (await call.gateway.request_job_summary(JobID(found[1]))).owner
        if not owner or owner == call.user.name:
            return
    raise RestError(403, f"{call.user.name} may not read what the jobs of others print.")


def _of_master(call: Call, name: str) -> Read:
    file = call.services.log_file

    async def read(offset: int, wait_ms: int) -> FilePart:
        if file is None or not _is_part(name, file):
            raise not_found("File not found.")
        try:
            return await read_when_grown(LogFiles(file.parent), ReadFile(name=name, offset=offset, wait_ms=wait_ms))
        except NoSuchFile:
            raise not_found("File not found.") from None

    return read


def _newest(files: tuple[FileEntry, ...] | list[FileEntry]) -> str:
    """Files come with the newest first."""
    if not files:
        raise not_found("File not found.")
    return files[0].name


async def _text(read: Read) -> Response:
    """A file as it is now, part by part, with secrets hidden."""
    first = await read(0, 0)
    return StreamingResponse(_parts(first, read), media_type="text/plain; charset=UTF-8")


async def _parts(part: FilePart, read: Read) -> AsyncIterator[bytes]:
    """Parts to the end that the file had at first: one that is written all the time must not be told for ever."""
    end = part.size_bytes
    while part.data:
        yield _shown(part).encode()
        if part.end >= end:
            return
        part = await read(part.end, 0)


def _shown(part: FilePart) -> str:
    """Its text, with secrets hidden, also those that begin before it."""
    return redacted_part((part.before + part.data).decode(errors="replace"), part.before.decode(errors="replace"))


def _listed(files: tuple[FileEntry, ...]) -> c.LogListInfo:
    return c.LogListInfo([c.LogInfo(file.name, file.size_bytes, file.modified_ms) for file in files])


def _threads(dump: ThreadDump) -> c.ThreadDumpInfo:
    return c.ThreadDumpInfo([c.ThreadInfo(thread.name, redacted_text(thread.stack)) for thread in dump.threads])
