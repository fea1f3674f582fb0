"""A JobStore that measures how long writes to journals take."""

import asyncio
from collections.abc import Sequence

from firesteel.core.journal.journal import JobState
from firesteel.core.journal.records import JournalRecord
from firesteel.model import metrics
from firesteel.model.ids import FencingToken, JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.metric import MetricValue
from firesteel.model.views import JobResult
from firesteel.runtime.metrics import RecentMaximum
from firesteel.runtime.services import JobStore


class MeteredJobStore:
    """Hands everything on to a store; a source of a MetricRegistry. Writes that fail are not counted."""

    def __init__(self, store: JobStore) -> None:
        self._store, self._loop = store, asyncio.get_running_loop()
        self._writes = self._records = 0
        self._time_ms = 0.0
        self._slowest = RecentMaximum()

    def values(self) -> list[MetricValue]:
        values = [
            metrics.JOURNAL_WRITES.of(self._writes),
            metrics.JOURNAL_RECORDS.of(self._records),
            metrics.JOURNAL_WRITE_TIME.of(self._time_ms),
        ]
        slowest_ms = self._slowest.read(self._loop.time())
        return values if slowest_ms is None else [*values, metrics.JOURNAL_SLOWEST_WRITE.of(slowest_ms)]

    async def append(self, job_id: JobID, token: FencingToken, records: Sequence[JournalRecord]) -> None:
        began_s = self._loop.time()
        await self._store.append(job_id, token, records)
        now_s = self._loop.time()
        took_ms = (now_s - began_s) * 1_000
        self._writes += 1
        self._records += len(records)
        self._time_ms += took_ms
        self._slowest.note(took_ms, now_s)

    async def load(self, token: FencingToken) -> tuple[tuple[JobGraph, ...], tuple[tuple[JobResult, bool], ...]]:
        return await self._store.load(token)

    async def put_graph(self, graph: JobGraph, token: FencingToken) -> None:
        await self._store.put_graph(graph, token)

    async def claim_journal(self, job_id: JobID, token: FencingToken) -> JobState:
        return await self._store.claim_journal(job_id, token)

    async def put_result(self, result: JobResult, token: FencingToken) -> None:
        await self._store.put_result(result, token)

    async def clean_up(self, job_id: JobID, token: FencingToken, *, keeps_graph: bool = False) -> None:
        await self._store.clean_up(job_id, token, keeps_graph=keeps_graph)

    async def forget_graph(self, job_id: JobID, token: FencingToken) -> None:
        await self._store.forget_graph(job_id, token)

    async def forget_result(self, job_id: JobID, token: FencingToken) -> None:
        await self._store.forget_result(job_id, token)
