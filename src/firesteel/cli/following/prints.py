"""The prints of a job's functions, shown by who follows it: read from the logs of its attempts, where they run."""

import asyncio
import contextlib
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from firesteel.model.ids import JobID, ResourceID
from firesteel.model.inquiries import FileList, FilePart, ListFiles, ReadFile
from firesteel.model.refusals import UnknownTaskManager
from firesteel.model.views import JobView

LOOK_S = 1.0
"""Time between two looks."""
LAST_LOOK_S = 5.0
"""Time after its end in which what a job has printed is shown, or not at all: it is in `firesteel logs`."""
SHOWN_BYTES_MAX = 1 << 20
"""Most bytes shown of one attempt; of more, a line says where it is."""

_ATTEMPT = re.compile(r"[0-9a-f]{32}_(\d+)-(\d+)\.log")
_GONE = (LookupError, ConnectionError, PermissionError, RuntimeError)
"""Errors that clients raise when a worker has gone or nobody leads: there is another look later."""


class AttemptLog(Protocol):
    """The log of one attempt: a file of a worker."""

    @property
    def taskmanager_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def attempt(self) -> int: ...
    @property
    def vertices(self) -> Sequence[str]: ...


class LogPart(Protocol):
    @property
    def text(self) -> str: ...
    @property
    def next_offset(self) -> int: ...


class AttemptLogs(Protocol):
    """A source of attempts' logs: a client of REST is one, for instance."""

    async def list_job_logs(self, job_id: JobID) -> Sequence[AttemptLog]: ...

    async def read_log(self, task_manager: str, name: str, offset: int = 0) -> LogPart: ...


class JobPrints:
    """Prints of one job. `show` gets whole lines."""

    def __init__(self, logs: AttemptLogs, job_id: JobID, show: Callable[[str], None]) -> None:
        self._logs, self._job_id, self._show = logs, job_id, show
        self._read: dict[tuple[str, str], int] = {}
        self._last: tuple[str, str] | None = None

    async def follow(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            with contextlib.suppress(*_GONE):
                await self._look()

    async def rest(self) -> None:
        """Show what the ended job has printed since the last look."""
        with contextlib.suppress(TimeoutError, *_GONE):
            async with asyncio.timeout(LAST_LOOK_S):
                await self._look()

    async def _look(self) -> None:
        found = [log for log in await self._logs.list_job_logs(self._job_id) if log.size]
        for log in found:
            key = (log.taskmanager_id, log.name)
            before = self._read.get(key, 0)
            while (offset := self._read.get(key, 0)) < min(log.size, SHOWN_BYTES_MAX):
                try:
                    part = await self._logs.read_log(*key, offset)
                except LookupError:  # it has gone with its worker
                    break
                self._read[key] = part.next_offset if part.text else log.size
                self._show_lines(log, part.text, is_one=len(found) == 1)
            if before < SHOWN_BYTES_MAX <= self._read.get(key, 0):
                self._show(f"... (the rest is in `firesteel logs {self._job_id}`)")

    def _show_lines(self, log: AttemptLog, text: str, *, is_one: bool) -> None:
        """Show text; where several attempts print, a line before says whose lines come."""
        key = (log.taskmanager_id, log.name)
        if key != self._last and not (is_one and self._last is None):
            attempt = f", attempt {log.attempt + 1}" if log.attempt else ""
            self._show(f"==> {', '.join(log.vertices)}{attempt} <==")
        self._last = key
        for line in text.splitlines():
            self._show(line)


class _Log(NamedTuple):
    taskmanager_id: str
    name: str
    size: int
    attempt: int
    vertices: Sequence[str]


class _Part(NamedTuple):
    text: str
    next_offset: int


class InnerLogs:
    """Logs of a cluster in this process, whose client asks workers itself."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def list_job_logs(self, job_id: JobID) -> list[_Log]:
        view: JobView = await self._client.request_job(job_id)
        logs = []
        for worker in await self._client.list_task_managers():
            answer = await self._client.ask_task_manager(worker.resource_id, ListFiles(prefix=f"{job_id}_"))
            for file in answer.files if isinstance(answer, FileList) else ():
                if found := _ATTEMPT.fullmatch(file.name):
                    vertices = _vertices(view, int(found[1]))
                    logs.append(_Log(worker.resource_id, file.name, file.size_bytes, int(found[2]), vertices))
        return sorted(logs, key=lambda log: log.name)

    async def read_log(self, task_manager: str, name: str, offset: int = 0) -> _Part:
        answer = await self._client.ask_task_manager(ResourceID(task_manager), ReadFile(name=name, offset=offset))
        if not isinstance(answer, FilePart):
            raise UnknownTaskManager(name)
        return _Part(answer.data.decode(errors="replace"), answer.end)


def job_prints(client: Any, job_id: JobID, show: Callable[[str], None]) -> JobPrints | None:
    """Prints of a job of that client's cluster; None where its attempts' logs can't be read."""
    if hasattr(client, "list_job_logs"):
        return JobPrints(client, job_id, show)
    return JobPrints(InnerLogs(client), job_id, show) if hasattr(client, "ask_task_manager") else None


def _vertices(view: JobView, region: int) -> list[str]:
    return [each.name for each in view.vertices if each.first_region <= region < each.first_region + each.parallelism]
