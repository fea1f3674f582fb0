"""Stores that fail, and stores that take their time."""

import asyncio
from collections.abc import Sequence

from firesteel.adapters.ha.embedded import InMemoryJobStore
from firesteel.core.journal.journal import JobState
from firesteel.core.journal.records import JournalRecord
from firesteel.model.ids import FencingToken, JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.views import JobResult


class FailingStore(InMemoryJobStore):
    """Some operations raise OSError, after `appends` of a journal or always, `times` times."""

    def __init__(self, operation: str, times: int, *, durable: bool = False, after: int = 0) -> None:
        super().__init__()
        self.operation, self.left, self.durable, self.after = operation, times, durable, after
        self.written: list[JournalRecord] = []

    def fails(self, operation: str) -> bool:
        if operation != self.operation or self.left <= 0:
            return False
        self.after -= 1
        if self.after >= 0:
            return False
        self.left -= 1
        return True

    def check(self, operation: str) -> None:
        if self.fails(operation):
            raise OSError("no space left on device")

    async def load(self, token: FencingToken) -> tuple[tuple[JobGraph, ...], tuple[tuple[JobResult, bool], ...]]:
        self.check("load")
        return await super().load(token)

    async def put_graph(self, graph: JobGraph, token: FencingToken) -> None:
        self.check("put_graph")
        await super().put_graph(graph, token)

    async def claim_journal(self, job_id: JobID, token: FencingToken) -> JobState:
        self.check("claim_journal")
        return await super().claim_journal(job_id, token)

    async def append(self, job_id: JobID, token: FencingToken, records: Sequence[JournalRecord]) -> None:
        fails = self.fails("append")
        if not fails or self.durable:
            await super().append(job_id, token, records)
            self.written += records
        if fails:
            raise OSError("no space left on device")

    async def put_result(self, result: JobResult, token: FencingToken) -> None:
        self.check("put_result")
        await super().put_result(result, token)

    async def clean_up(self, job_id: JobID, token: FencingToken, *, keeps_graph: bool = False) -> None:
        self.check("clean_up")
        await super().clean_up(job_id, token, keeps_graph=keeps_graph)

    async def forget_result(self, job_id: JobID, token: FencingToken) -> None:
        self.check("forget_result")
        await super().forget_result(job_id, token)


class StallingStore(InMemoryJobStore):
    """Once a result is durable, who has stored it never hears so; from then on, reading a journal takes `reading_s`."""

    def __init__(self, reading_s: float) -> None:
        super().__init__()
        self.reading_s, self.stalls = reading_s, asyncio.Event()

    async def put_result(self, result: JobResult, token: FencingToken) -> None:
        await super().put_result(result, token)
        if not self.stalls.is_set():
            self.stalls.set()
            await asyncio.Event().wait()

    async def claim_journal(self, job_id: JobID, token: FencingToken) -> JobState:
        if self.stalls.is_set():
            await asyncio.sleep(self.reading_s)
        return await super().claim_journal(job_id, token)


class SlowStore(InMemoryJobStore):
    """What it writes is durable some time after, and who reads or submits waits for its answer."""

    async def load(self, token: FencingToken) -> tuple[tuple[JobGraph, ...], tuple[tuple[JobResult, bool], ...]]:
        await asyncio.sleep(0.05)
        return await super().load(token)

    async def put_graph(self, graph: JobGraph, token: FencingToken) -> None:
        await super().put_graph(graph, token)
        await asyncio.sleep(0.002)

    async def claim_journal(self, job_id: JobID, token: FencingToken) -> JobState:
        await asyncio.sleep(0.02)
        return await super().claim_journal(job_id, token)

    async def append(self, job_id: JobID, token: FencingToken, records: Sequence[JournalRecord]) -> None:
        await asyncio.sleep(0.002)
        await super().append(job_id, token, records)
