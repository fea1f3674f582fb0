"""A ClusterGateway over archives: what the REST endpoint of a history server asks. There is nothing to be changed."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NoReturn

from firesteel.adapters.history.index import HistoryIndex
from firesteel.adapters.history.keptlogs import job_of_log
from firesteel.model.branches import JobCopy
from firesteel.model.ids import JobID, ResourceID
from firesteel.model.inquiries import AnyAnswer, AnyInquiry, BuildJob
from firesteel.model.jobgraph import JobGraph
from firesteel.model.refusals import ReadOnly, UnknownTaskManager
from firesteel.model.streams import AfterSavepoint
from firesteel.model.views import (
    EVERY_SUBTASK,
    ClusterOverview,
    JobResult,
    JobSummary,
    JobView,
    QueuePlace,
    SubtaskView,
    TaskManagerView,
    VertexView,
)
from firesteel.runtime.changes import ChangeWatch
from firesteel.runtime.client import INQUIRY_LIMIT_S, NoLeader, UnknownResult, job_changes, returned_rows

READ_ONLY = "A history server shows jobs that have ended: ask a master for this."


class HistoryGateway:
    """Jobs of an index, as a cluster without workers that has only ended jobs."""

    def __init__(self, index: HistoryIndex) -> None:
        self._index = index

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────
    async def list_job_summaries(self) -> list[JobSummary]:
        return self._index.summaries()

    async def request_job_summary(self, job_id: JobID) -> JobSummary:
        return self._index.summary(job_id)

    async def list_jobs(self) -> list[JobView]:
        return [_without_vertices(job) for job in self._index.summaries()]

    async def request_job(self, job_id: JobID) -> JobView:
        job = await self._index.job(job_id)
        return job.view if job is not None else _without_vertices(self._index.summary(job_id))

    async def request_job_result(self, job_id: JobID) -> JobResult:
        job = await self._index.job(job_id)
        if job is None:
            raise UnknownResult(f"the archive of job {job_id} has gone, and its result with it")
        return job.result

    def follow_job(self, job_id: JobID) -> AsyncIterator[JobView]:
        return job_changes(self, job_id)

    async def next_change(self, job_id: JobID) -> asyncio.Future[None]:
        """Nothing changes any more."""
        return asyncio.get_running_loop().create_future()

    async def request_subtasks(
        self, job_id: JobID, vertex: VertexView, chosen: range = EVERY_SUBTASK
    ) -> tuple[SubtaskView, ...]:
        return (await self.request_job(job_id)).subtasks_of(vertex.id, chosen)

    async def fetch_result(self, job_id: JobID, function: str = "") -> bytes:
        chosen = returned_rows(await self.request_job_result(job_id), function)
        raise UnknownResult(f"the {chosen.rows} rows of {chosen.function} are not archived: only their number is")

    async def read_output(
        self, job_id: JobID, stream: str, *, attempt: int = 0, offset: int = 0, wait_s: float = 0.0
    ) -> bytes:
        self._index.summary(job_id)
        return (await self._index.logs(job_id)).output(f"{attempt}.{stream}", offset)

    async def request_cluster_overview(self) -> ClusterOverview:
        jobs: dict[str, int] = {}
        for job in self._index.summaries():
            jobs[job.status.value] = jobs.get(job.status.value, 0) + 1
        return ClusterOverview(task_managers=0, slots_total=0, slots_free=0, jobs=jobs)

    async def request_queue(self) -> dict[JobID, QueuePlace]:
        return {}

    # ── workers, of which only logs are left ─────────────────────────────────────────────────
    async def list_task_managers(self) -> tuple[TaskManagerView, ...]:
        return ()

    async def request_cluster_view(self) -> NoReturn:
        raise NoLeader("a history server leads no cluster: ask a master for its figures")

    async def list_log_holders(self, job_id: JobID) -> tuple[ResourceID, ...]:
        return tuple((await self._index.logs(job_id)).holders())

    async def ask_task_manager(
        self, resource_id: ResourceID, inquiry: AnyInquiry, limit_s: float = INQUIRY_LIMIT_S
    ) -> AnyAnswer:
        job_id = job_of_log(inquiry)
        answer = (await self._index.logs(job_id)).answer(resource_id, inquiry) if job_id is not None else None
        if answer is None:
            raise UnknownTaskManager(f"nothing is archived of {resource_id} but what jobs have printed there")
        return answer

    # ── what is refused ──────────────────────────────────────────────────────────────────────
    async def submit_job(self, graph: JobGraph, artifacts: Mapping[str, Path]) -> JobID:
        _refuse()

    async def submit_built(self, graph: JobGraph) -> JobID:
        _refuse()

    def built_job(self, file: Path, build: BuildJob) -> AbstractAsyncContextManager[JobGraph]:
        _refuse()

    async def copy_job(self, job_id: JobID, copy: JobCopy, owner: str) -> JobID:
        _refuse()

    async def cancel_job(self, job_id: JobID) -> None:
        _refuse()

    def watch_cluster(self) -> AbstractAsyncContextManager[ChangeWatch]:
        _refuse()

    async def take_savepoint(
        self,
        job_id: JobID,
        directory: str = "",
        *,
        after: AfterSavepoint = AfterSavepoint.GO_ON,
        savepoint_id: str = "",
    ) -> str:
        _refuse()

    async def take_checkpoint(self, job_id: JobID) -> int:
        _refuse()

    async def dispose_savepoint(self, path: str) -> None:
        _refuse()

    async def report_client_heartbeat(self, job_id: JobID) -> None:
        _refuse()


def _refuse() -> NoReturn:
    raise ReadOnly(READ_ONLY)


def _without_vertices(job: JobSummary) -> JobView:
    """A job of which only its line is known."""
    return JobView(
        job_id=job.job_id,
        name=job.name,
        status=job.status,
        start_time_ms=job.start_time_ms,
        end_time_ms=job.end_time_ms,
        timestamps_ms={job.status.value: job.end_time_ms},
        reason=job.reason,
        job_type=job.job_type,
        owner=job.owner,
    )
