"""What a client may ask of a cluster: one interface for the mini cluster and the network."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from firesteel.model.branches import JobCopy
from firesteel.model.ids import JobID, ResourceID
from firesteel.model.inquiries import AnyAnswer, AnyInquiry, BuildJob
from firesteel.model.jobgraph import JobGraph
from firesteel.model.refusals import (
    CancelRefused,
    CheckpointFailed,
    DuplicateJob,
    NoAnswer,
    SavepointFailed,
    StorageFull,
    StorageUnavailable,
    TooManyJobs,
    UnknownJob,
    UnknownTaskManager,
)
from firesteel.model.streams import AfterSavepoint
from firesteel.model.views import (
    EVERY_SUBTASK,
    ClusterOverview,
    ClusterView,
    JobResult,
    JobSummary,
    JobView,
    QueuePlace,
    ReturnedRows,
    SubtaskView,
    TaskManagerView,
    VertexView,
)
from firesteel.runtime.changes import ChangeWatch

__all__ = [
    "CancelRefused",
    "CheckpointFailed",
    "ClusterGateway",
    "ClusterLost",
    "ClusterOperations",
    "DuplicateJob",
    "NoAnswer",
    "NoLeader",
    "SavepointFailed",
    "StorageFull",
    "StorageUnavailable",
    "TooManyJobs",
    "UnknownJob",
    "UnknownResult",
    "UnknownTaskManager",
    "returned_rows",
]

CHANGES_INTERVAL_S = 0.05
"""Least time between two views of one job that is followed: what changes faster is told together."""

LOOK_INTERVAL_S = 1.0
"""A job that is followed is looked at this often at least: its place in the line changes by what others do."""

INQUIRY_LIMIT_S = 45.0
"""How long a worker has to answer a question that takes no work."""

BUILD_LIMIT_S = 150.0
"""The same for a job that is to be made of a file: others may have to be made before it."""

QUIET_MAX_S = 10.0
"""Most time between two views of a job that is followed."""


class NoLeader(ConnectionError):
    """Nobody leads the component that was asked; it may in a moment. `why` says what keeps a leader away, where something does."""

    def __init__(self, message: str, why: str = "") -> None:
        super().__init__(message)
        self.why = why


class ClusterLost(ConnectionError):
    """Our bug, or a lost store: a component has failed too often and will not be started again."""


class UnknownResult(LookupError):
    """The caller's fault: the job has returned no rows of that name, or has not ended."""


def returned_rows(result: JobResult, function: str) -> ReturnedRows:
    """Those of one function; of the only one when none is named. Raises UnknownResult."""
    chosen = [rows for rows in result.returned if function in ("", rows.function)]
    if len(chosen) == 1:
        return chosen[0]
    known = ", ".join(rows.function for rows in result.returned)
    what = f"no rows of {function!r}" if function else "rows of several functions" if known else "no rows"
    hint = f": name one of {known}" if known else ""
    raise UnknownResult(f"job {result.job_id} ({result.status.value}) has returned {what}{hint}")


class ClusterOperations(Protocol):
    """Coroutines for one cluster. Raises UnknownJob where a job id is not known."""

    async def submit_job(self, graph: JobGraph, artifacts: Mapping[str, Path]) -> JobID:
        """Hand in a job with its artifacts (files by SHA-256).

        Returns when the job is safe with the Dispatcher, before it runs; the same job handed in again
        while it has not ended is one job. Raises InvalidJobGraph, DuplicateJob, TooManyJobs,
        StorageFull or StorageUnavailable.
        """

    async def request_job(self, job_id: JobID) -> JobView: ...

    async def list_jobs(self) -> list[JobView]:
        """Every known job, without its vertices, newest first."""

    async def request_job_result(self, job_id: JobID) -> JobResult:
        """Waits until the job has ended."""

    def follow_job(self, job_id: JobID) -> AsyncIterator[JobView]:
        """The job now, and after its changes, to its end; what changes fast is told together."""

    async def fetch_result(self, job_id: JobID, function: str = "") -> bytes:
        """Rows that a job which has ended returned, as an Arrow stream for `firesteel.ResultRows`.

        Of the only function that returned any when none is named. Raises UnknownResult.
        """

    async def read_output(
        self, job_id: JobID, stream: str, *, attempt: int = 0, offset: int = 0, wait_s: float = 0.0
    ) -> bytes:
        """What a plain script has printed to `stdout` or `stderr`, from a byte on, as far as it is there.

        Waits up to `wait_s` for the first of it, but not for what a job that has ended will not print.
        """

    async def cancel_job(self, job_id: JobID) -> None:
        """Ask for the job to end; returns when that is safe with its master, before it has ended.

        Of a job that ended already: does nothing. Raises CancelRefused when its outputs are being made visible.
        """

    async def take_savepoint(
        self,
        job_id: JobID,
        directory: str = "",
        *,
        after: AfterSavepoint = AfterSavepoint.GO_ON,
        savepoint_id: str = "",
    ) -> str:
        """Take a savepoint of a streaming job, in a directory that its workers share or the configured one, and return its
        location. The same id, of 32 hex digits, is the same savepoint. Raises SavepointFailed."""

    async def take_checkpoint(self, job_id: JobID) -> int:
        """Take a checkpoint of a streaming job, and return its number. Raises CheckpointFailed."""

    async def dispose_savepoint(self, path: str) -> None:
        """Delete a savepoint. Raises SavepointFailed."""

    async def request_cluster_overview(self) -> ClusterOverview: ...


class ClusterGateway(ClusterOperations, Protocol):
    """What the REST endpoint asks of the master it belongs to. Every coroutine may raise NoLeader."""

    async def list_job_summaries(self) -> list[JobSummary]:
        """A line for every known job, newest first."""

    async def request_job_summary(self, job_id: JobID) -> JobSummary: ...

    async def next_change(self, job_id: JobID) -> asyncio.Future[None]:
        """Done when the job changes after this, or the leader does; shared, so not to be cancelled."""

    def watch_cluster(self) -> AbstractAsyncContextManager[ChangeWatch]:
        """What changes in the block, until another master leads."""

    async def request_queue(self) -> dict[JobID, QueuePlace]:
        """The jobs that wait for slots, in the order in which they are served."""

    async def report_client_heartbeat(self, job_id: JobID) -> None:
        """The client of a job is there; matters for jobs that end with theirs."""

    async def request_subtasks(
        self, job_id: JobID, vertex: VertexView, chosen: range = EVERY_SUBTASK
    ) -> tuple[SubtaskView, ...]:
        """The current or last attempts of a vertex's subtasks of these indices; those of large ended jobs are not all kept."""

    async def list_task_managers(self) -> tuple[TaskManagerView, ...]: ...

    async def list_log_holders(self, job_id: JobID) -> tuple[ResourceID, ...]:
        """Workers that may have what the job has printed, to be asked for it; also those that have gone, where that is kept."""

    async def request_cluster_view(self) -> ClusterView:
        """What figures of the cluster are made of; its line for slots may be a moment old."""

    def built_job(self, file: Path, build: BuildJob) -> AbstractAsyncContextManager[JobGraph]:
        """A job of an uploaded file, made by some worker. What only it needs is gone after the block.

        Raises InvalidJobGraph for what is wrong with the file, or NoAnswer.
        """

    async def submit_built(self, graph: JobGraph) -> JobID:
        """Hand in a job within the block of `built_job`; raises what `submit_job` does, or NoAnswer."""

    async def copy_job(self, job_id: JobID, copy: JobCopy, owner: str) -> JobID:
        """Hand in a job once more, under another id, as `owner` wants it: one that has not finished, and whose code is kept.
        The same copy again is one job.

        Raises InvalidJobGraph, NoAnswer, and what `submit_job` does.
        """

    async def ask_task_manager(
        self, resource_id: ResourceID, inquiry: AnyInquiry, limit_s: float = INQUIRY_LIMIT_S
    ) -> AnyAnswer:
        """What a worker answers. Raises UnknownTaskManager, or NoAnswer when there is none in time."""


async def job_changes(gateway: ClusterGateway, job_id: JobID) -> AsyncIterator[JobView]:
    """What `follow_job` gives: a view at each change.

    A job of which there is nothing new is told of too, now and then: whoever sends it on notices by that
    when nobody listens any more.
    """
    loop = asyncio.get_running_loop()
    told, told_s = None, 0.0
    while True:
        change = await gateway.next_change(job_id)
        line = await gateway.request_job_summary(job_id)
        news = (line.status, line.version, line.reason)
        if news != told or loop.time() - told_s >= QUIET_MAX_S:
            told, told_s = news, loop.time()
            yield await gateway.request_job(job_id)
        if line.status.is_globally_terminal:
            return
        await asyncio.sleep(CHANGES_INTERVAL_S)
        await asyncio.wait((change,), timeout=LOOK_INTERVAL_S)
