"""A cluster without Spark, behind the interface the command line uses."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID, JobVertexID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.views import ClusterOverview, CommittedSink, ExceptionEntry, JobResult, JobView, VertexView
from firesteel.pipeline.build import build_in_child

FAILURE = FailureInfo(
    kind=FailureKind.USER,
    message="no column 'wrod'",
    vertex="counts",
    location="etl.py:12",
    trace="Traceback\n  deep\n",
)


class FakeCluster:
    """Runs a job by letting its views go by: one for each time it is asked, the last one for ever."""

    goodbye = "closing the cluster"

    def __init__(self, statuses: tuple[JobStatus, ...] = (JobStatus.RUNNING, JobStatus.FINISHED)) -> None:
        self.client = FakeClient(statuses)
        self.closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closed = True

    @property
    def work_dir(self) -> Path:
        return Path(tempfile.gettempdir())

    async def call(self, entry_point: str, payload: bytes) -> bytes:
        assert entry_point == "firesteel.pipeline.build:build_in_child"
        return build_in_child(payload)


class FakeClient:
    def __init__(self, statuses: tuple[JobStatus, ...]) -> None:
        self._statuses = list(statuses)
        self._ended = asyncio.Event()
        self.graph: JobGraph | None = None
        self.cancelled = 0
        self.after_cancelling = [JobStatus.CANCELLING, JobStatus.CANCELED]
        self.asked = 0
        self.printed: dict[tuple[str, int], bytes] = {}
        self.attempts = 1
        self.failure = FAILURE
        self.on_asked: Callable[[int], None] = lambda _: None

    async def submit_job(self, graph: JobGraph, artifacts: Mapping[str, Path]) -> JobID:
        assert set(artifacts) == {artifact.sha256 for artifact in graph.artifacts}
        assert all(path.exists() for path in artifacts.values())
        self.graph = graph
        return graph.job_id

    async def request_job(self, job_id: JobID) -> JobView:
        self.asked += 1
        self.on_asked(self.asked)
        status = self._statuses[0] if len(self._statuses) == 1 else self._statuses.pop(0)
        if status.is_terminal:
            self._ended.set()
        return view(status, job_id=job_id, version=self.asked)

    async def follow_job(self, job_id: JobID) -> AsyncIterator[JobView]:
        while not self._ended.is_set():
            yield await self.request_job(job_id)
            await asyncio.sleep(0)

    async def list_jobs(self) -> list[JobView]:
        return []

    async def request_job_result(self, job_id: JobID) -> JobResult:
        await self._ended.wait()
        ended = result(self._statuses[0], job_id)
        return msgspec.structs.replace(ended, failure=ended.failure and self.failure)

    async def fetch_result(self, job_id: JobID, function: str = "") -> bytes:
        raise AssertionError("nothing was returned")

    async def read_output(
        self, job_id: JobID, stream: str, *, attempt: int = 0, offset: int = 0, wait_s: float = 0.0
    ) -> bytes:
        await asyncio.sleep(0)
        printed = self.printed.get((stream, attempt), b"")
        return printed[offset : printed.find(b"\n", offset) + 1]

    async def cancel_job(self, job_id: JobID) -> None:
        self.cancelled += 1
        self._statuses = self.after_cancelling

    async def request_cluster_overview(self) -> ClusterOverview:
        return ClusterOverview(task_managers=1, slots_total=1, slots_free=1, jobs={})


def result(status: JobStatus, job_id: JobID) -> JobResult:
    sink = CommittedSink(function="result", target="/data/out", mode="overwrite", files=1, rows=1234, size_bytes=12_345)
    return JobResult(
        job_id=job_id,
        name="wordcount",
        status=status,
        start_time_ms=1_000,
        end_time_ms=4_200,
        failure=FAILURE if status is JobStatus.FAILED else None,
        sinks=(sink,) if status is JobStatus.FINISHED else (),
    )


def vertex(status: ExecutionState, name: str = "lines -> counts", **fields) -> VertexView:
    plain = VertexView(
        id=JobVertexID(name), name=name, functions=(name,), parallelism=1, status=status, tasks={}, attempts=1
    )
    return msgspec.structs.replace(plain, **fields)


def view(status: JobStatus, **fields) -> JobView:
    states = {JobStatus.RUNNING: ExecutionState.RUNNING, JobStatus.FINISHED: ExecutionState.FINISHED}
    failed = (ExceptionEntry(timestamp_ms=2_000, failure=FAILURE, region=0, attempt=0),)
    plain = JobView(
        job_id=JobID("ab" * 16),
        name="wordcount",
        status=status,
        vertices=(vertex(states.get(status, ExecutionState.CREATED)),),
        exceptions=failed if status is JobStatus.FAILED else (),
    )
    return msgspec.structs.replace(plain, **fields)
