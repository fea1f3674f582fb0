"""The store of jobs in a directory that several masters share: see runtime.services.JobStore.

Calls that come while a write is under way go into the next one together: one fsync serves them all. What is
fenced within this process is decided on the event loop, in the order of the calls; what is fenced between
processes is the log's.
"""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from firesteel.adapters.ha.joblog import JobLog
from firesteel.core.journal.journal import JobState
from firesteel.core.journal.records import JournalRecord
from firesteel.core.journal.storedjobs import (
    AnyEntry,
    GraphForgotten,
    GraphStored,
    JobRemoved,
    RecordsAppended,
    ResultForgotten,
    ResultStored,
)
from firesteel.model.ids import FencingToken, JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.views import JobResult
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.services import StaleLeader


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """One call of the store on its way to the disk and back."""

    done: asyncio.Future[Any]
    claim: FencingToken | None = None
    entry: AnyEntry | None = None
    answer: Callable[[], Any] = lambda: None
    """Gives the call's result, once its entry is durable."""


class FileJobStore:
    """A JobStore on a JobLog, which is its own. Nothing is written but while `certain` is set."""

    def __init__(self, log: JobLog, certain: asyncio.Event) -> None:
        self._log, self._certain = log, certain
        self._dispatcher: FencingToken | None = None
        self._claims: dict[JobID, tuple[FencingToken, FencingToken]] = {}
        """Who writes a job's journal, and the Dispatcher of its time."""
        self._waiting: list[_Call] = []
        self._writing = False
        self._tasks = BackgroundTasks()

    async def close(self) -> None:
        """Wait for what is under way."""
        await self._tasks.join()

    async def load(self, token: FencingToken) -> tuple[tuple[JobGraph, ...], tuple[tuple[JobResult, bool], ...]]:
        if self._dispatcher is not None and token < self._dispatcher:
            raise StaleLeader(f"the Dispatcher leads under {self._dispatcher}")
        self._dispatcher = token
        answer = await self._call(
            claim=token,
            answer=lambda: (
                (*self._log.jobs.graphs(), *self._log.jobs.kept_graphs()),
                self._log.jobs.results(),
            ),
        )
        return answer  # type: ignore[no-any-return]

    async def put_graph(self, graph: JobGraph, token: FencingToken) -> None:
        self._check_dispatcher(token)
        await self._call(GraphStored(graph))

    async def claim_journal(self, job_id: JobID, token: FencingToken) -> JobState:
        known = self._claims.get(job_id)
        if self._dispatcher is None or (known is not None and token < known[0]):
            raise StaleLeader(f"job {job_id} is led under {known}, jobs under {self._dispatcher}")
        mine = self._claims[job_id] = (token, self._dispatcher)
        state: JobState | None = await self._call(answer=lambda: self._log.jobs.state(job_id))
        if state is None:
            if self._claims.get(job_id) == mine:
                del self._claims[job_id]
            raise StaleLeader(f"job {job_id} is not stored any more")
        return state

    async def append(self, job_id: JobID, token: FencingToken, records: Sequence[JournalRecord]) -> None:
        if self._claims.get(job_id) != (token, self._dispatcher):
            raise StaleLeader(f"job {job_id} is led under {self._claims.get(job_id)}")
        await self._call(RecordsAppended(job_id, tuple(records)))

    async def put_result(self, result: JobResult, token: FencingToken) -> None:
        self._check_dispatcher(token)
        await self._call(ResultStored(result))

    async def clean_up(self, job_id: JobID, token: FencingToken, *, keeps_graph: bool = False) -> None:
        self._check_dispatcher(token)
        self._claims.pop(job_id, None)
        await self._call(JobRemoved(job_id, keeps_graph))

    async def forget_graph(self, job_id: JobID, token: FencingToken) -> None:
        self._check_dispatcher(token)
        await self._call(GraphForgotten(job_id))

    async def forget_result(self, job_id: JobID, token: FencingToken) -> None:
        self._check_dispatcher(token)
        await self._call(ResultForgotten(job_id))

    def _check_dispatcher(self, token: FencingToken) -> None:
        if token != self._dispatcher:
            raise StaleLeader(f"the Dispatcher leads under {self._dispatcher}")

    async def _call(
        self,
        entry: AnyEntry | None = None,
        *,
        claim: FencingToken | None = None,
        answer: Callable[[], Any] = lambda: None,
    ) -> Any:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Call(done=done, claim=claim, entry=entry, answer=answer))
        if not self._writing:
            self._writing = True
            self._tasks.start(self._write(), "store of jobs")
        return await done

    async def _write(self) -> None:
        while self._waiting:
            await self._certain.wait()
            calls, self._waiting = self._waiting, []
            for claim, group in itertools.groupby(calls, key=lambda call: call.claim):
                await self._commit(claim, list(group))
        self._writing = False

    async def _commit(self, claim: FencingToken | None, calls: list[_Call]) -> None:
        """Answer a group of calls, all in the same way when they fail."""
        try:
            answers = await asyncio.to_thread(self._on_disk, claim, calls)
        except Exception as error:
            for call in calls:
                if not call.done.done():
                    call.done.set_exception(error)
        else:
            for call, answer in zip(calls, answers, strict=True):
                if not call.done.done():
                    call.done.set_result(answer)

    def _on_disk(self, claim: FencingToken | None, calls: list[_Call]) -> list[Any]:
        if claim is None:
            self._log.append([call.entry for call in calls if call.entry is not None])
        else:
            self._log.claim(claim)
        return [call.answer() for call in calls]
