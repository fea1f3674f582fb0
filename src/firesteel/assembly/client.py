"""A client of the master in this process: what REST, the mini cluster and tests ask it through."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from firesteel.adapters.blob.local import BlobCorrupt, BlobMissing
from firesteel.assembly.master import Master
from firesteel.core.dispatcher import requests as r
from firesteel.core.dispatcher.graphcheck import check_job_graph
from firesteel.core.execution.topology import Topology
from firesteel.core.requests import Request
from firesteel.core.resourcemanager.inquiries import AskTaskManager
from firesteel.model.ids import JobID, ResourceID
from firesteel.model.inquiries import AnyAnswer, AnyInquiry, BuildFailed, BuildJob, InquiryRefused, JobBuilt
from firesteel.model.jobgraph import InvalidJobGraph, JobGraph, decode_job_graph
from firesteel.model.refusals import DuplicateJob, NoAnswer, StorageFull, TooManyJobs
from firesteel.model.states import JobStatus
from firesteel.model.views import (
    ClusterOverview,
    JobResult,
    JobSummary,
    JobView,
    QueuePlace,
    SubtaskView,
    TaskManagerView,
    VertexView,
)
from firesteel.runtime.client import (
    BUILD_LIMIT_S,
    INQUIRY_LIMIT_S,
    NoLeader,
    UnknownResult,
    job_changes,
    returned_rows,
)
from firesteel.runtime.dispatcher import DispatcherEndpoint
from firesteel.runtime.endpoint import Endpoint, EndpointStopped

LEADER_WAIT_S, LEADER_RETRY_S = 60.0, 0.01
"""Time that a client waits for a leader in this process, and between two looks for one."""

QUEUE_KEPT_S = 0.1
"""Age that the line for slots may have that overviews are made of."""

OUTPUT_INTERVAL_S = 0.05
"""Time between two looks for what a script has printed."""

T = TypeVar("T")
E = TypeVar("E", bound=Endpoint)
Seen = TypeVar("Seen", JobView, JobSummary)


class MasterClient:
    """A runtime.client.ClusterGateway for a master in this process; waits `leader_wait_s` while nobody leads."""

    def __init__(self, master: Master, *, leader_wait_s: float = LEADER_WAIT_S) -> None:
        self._master, self._leader_wait_s = master, leader_wait_s
        self._queue_seen: dict[JobID, QueuePlace] = {}
        self._queue_until_s = 0.0

    async def submit_job(self, graph: JobGraph, artifacts: Mapping[str, Path]) -> JobID:
        check_job_graph(graph, self._master.config)
        missing = [artifact.name for artifact in graph.artifacts if artifact.sha256 not in artifacts]
        if missing:
            raise InvalidJobGraph(f"artifacts are missing: {', '.join(missing)}")
        Topology(graph)
        files = {artifact.sha256: artifacts[artifact.sha256] for artifact in graph.artifacts}
        try:
            async with self._master.uploads.put(files):
                return await self._submit(graph)
        except (DuplicateJob, TooManyJobs, StorageFull, BlobCorrupt):
            await (await self._dispatcher()).delete_unused_blobs(files)
            raise

    async def _submit(self, graph: JobGraph) -> JobID:
        """A Dispatcher that stopped before its answer may have stored the job: then its successor has it."""
        dispatcher = await self._dispatcher()
        with contextlib.suppress(EndpointStopped):
            return await dispatcher.ask(r.SubmitJob(graph))
        try:
            return await self._ask(r.SubmitJob(graph))
        except DuplicateJob:
            return graph.job_id

    async def request_job(self, job_id: JobID) -> JobView:
        return with_place(await (await self._dispatcher()).view(job_id), self._queue())

    async def list_jobs(self) -> list[JobView]:
        queue = self._queue()
        return [with_place(view, queue) for view in (await self._dispatcher()).views()]

    async def list_job_summaries(self) -> list[JobSummary]:
        queue = self._recent_queue()
        return [_with_reason(line, queue) for line in (await self._dispatcher()).summaries()]

    async def request_job_summary(self, job_id: JobID) -> JobSummary:
        return _with_reason((await self._dispatcher()).summary(job_id), self._recent_queue())

    async def next_change(self, job_id: JobID) -> asyncio.Future[None]:
        return (await self._dispatcher()).changes.next(job_id)

    async def report_client_heartbeat(self, job_id: JobID) -> None:
        await self._ask(r.ReportClientHeartbeat(job_id))

    def follow_job(self, job_id: JobID) -> AsyncIterator[JobView]:
        return job_changes(self, job_id)

    async def request_subtasks(self, job_id: JobID, vertex: VertexView) -> tuple[SubtaskView, ...]:
        return await (await self._dispatcher()).subtasks(job_id, vertex)

    async def list_task_managers(self) -> tuple[TaskManagerView, ...]:
        return (await self._leading(self._master.resource_manager)).task_managers()

    async def ask_task_manager(
        self, resource_id: ResourceID, inquiry: AnyInquiry, limit_s: float = INQUIRY_LIMIT_S
    ) -> AnyAnswer:
        request = AskTaskManager(resource_id, inquiry, round(limit_s * 1_000))
        try:
            return await (await self._leading(self._master.resource_manager)).ask(request)
        except EndpointStopped:
            raise NoLeader("the ResourceManager went before the worker answered") from None

    @contextlib.asynccontextmanager
    async def built_job(self, file: Path, build: BuildJob) -> AsyncIterator[JobGraph]:
        made = [build.sha256]
        try:
            async with self._master.uploads.put({build.sha256: file}):
                answer = await self.ask_task_manager(await self._builder(), build, BUILD_LIMIT_S)
            match answer:
                case JobBuilt():
                    made += answer.artifacts
                    yield _checked(decode_job_graph(answer.graph), answer.artifacts)
                case BuildFailed():
                    raise InvalidJobGraph(answer.message)
                case InquiryRefused():
                    raise NoAnswer(answer.reason)
                case _:
                    raise AssertionError(f"no answer to a build: {answer}")
        finally:
            with contextlib.suppress(NoLeader):
                await (await self._dispatcher()).delete_unused_blobs(made)

    async def submit_built(self, graph: JobGraph) -> JobID:
        try:
            files = {each.sha256: await self._master.uploads.path(each.sha256) for each in graph.artifacts}
            return await self.submit_job(graph, files)
        except (BlobMissing, FileNotFoundError):
            raise NoAnswer("another job's clean-up took an artifact of this one along: try again") from None

    async def _builder(self) -> ResourceID:
        """The worker with the most free slots."""
        workers = await self.list_task_managers()
        if not workers:
            raise NoAnswer("no worker is registered, and files are read by workers: start one")
        return max(workers, key=lambda worker: worker.free_slots).resource_id

    async def request_job_result(self, job_id: JobID) -> JobResult:
        answer: JobResult = await self._ask(r.AwaitJobResult(job_id))
        return answer

    async def fetch_result(self, job_id: JobID, function: str = "") -> bytes:
        if not (await self.request_job(job_id)).status.is_globally_terminal:
            raise UnknownResult(f"job {job_id} has not ended: its rows are there when it has")
        chosen = returned_rows(await self.request_job_result(job_id), function)
        try:
            return await self._master.uploads.read(chosen.sha256)
        except BlobMissing:
            raise UnknownResult(f"the rows of {chosen.function} are gone from the blob store") from None

    async def read_output(
        self, job_id: JobID, stream: str, *, attempt: int = 0, offset: int = 0, wait_s: float = 0.0
    ) -> bytes:
        until_s = asyncio.get_running_loop().time() + wait_s
        while True:
            change = await self.next_change(job_id)
            has_ended = (await self.request_job_summary(job_id)).status.is_globally_terminal
            data = await self._master.uploads.outputs.read(job_id, f"{attempt}.{stream}", offset)
            if data or has_ended or asyncio.get_running_loop().time() >= until_s:
                return data
            await asyncio.wait((change,), timeout=OUTPUT_INTERVAL_S)

    async def cancel_job(self, job_id: JobID) -> None:
        await self._ask(r.CancelJobRequest(job_id))

    async def request_cluster_overview(self) -> ClusterOverview:
        workers = await self.list_task_managers()
        jobs: dict[str, int] = {}
        for each in await self.list_job_summaries():
            jobs[each.status.value] = jobs.get(each.status.value, 0) + 1
        return ClusterOverview(
            task_managers=len(workers),
            slots_total=sum(worker.slots for worker in workers),
            slots_free=sum(worker.free_slots for worker in workers),
            jobs=jobs,
        )

    def _queue(self) -> dict[JobID, QueuePlace]:
        """The line for slots; empty while no ResourceManager leads."""
        with contextlib.suppress(NoLeader):
            return self._master.resource_manager().queue()
        return {}

    def _recent_queue(self) -> dict[JobID, QueuePlace]:
        """The line as it was a moment ago: working it out anew for everybody who follows a job costs too much."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._queue_until_s:
            self._queue_seen, self._queue_until_s = self._queue(), now_s + QUEUE_KEPT_S
        return self._queue_seen

    async def _dispatcher(self) -> DispatcherEndpoint:
        return await self._leading(self._master.dispatcher)

    async def _leading(self, find: Callable[[], E]) -> E:
        """The leader that `find` finds, waiting a while for one. Raises NoLeader, or ClusterLost."""
        until_s = asyncio.get_running_loop().time() + self._leader_wait_s
        while asyncio.get_running_loop().time() < until_s:
            with contextlib.suppress(NoLeader):
                return find()
            await asyncio.sleep(LEADER_RETRY_S)
        return find()

    async def _ask(self, request: Request[T]) -> T:
        """Ask the leading Dispatcher; a request it could not answer before it went is asked of the next."""
        while True:
            dispatcher = await self._dispatcher()
            try:
                return await dispatcher.ask(request)
            except EndpointStopped:
                await asyncio.sleep(LEADER_RETRY_S)


def _checked(graph: JobGraph, made: Sequence[str]) -> JobGraph:
    """The graph with the artifacts that were made, checked: what code of a user has made is believed nothing."""
    if missing := [each.name for each in graph.artifacts if each.sha256 not in made]:
        raise InvalidJobGraph(f"artifacts are missing: {', '.join(missing)}")
    return graph


def with_place(view: JobView, queue: Mapping[JobID, QueuePlace]) -> JobView:
    """The view of a job with its place in the line for slots, when it stands there."""
    return msgspec.structs.replace(_with_reason(view, queue), queue=queue.get(view.job_id))


def _with_reason(seen: Seen, queue: Mapping[JobID, QueuePlace]) -> Seen:
    """Why the job waits, when it stands in the line for slots."""
    place = queue.get(seen.job_id)
    if place is None:
        return seen
    if seen.status is JobStatus.CREATED:
        reason = f"place {place.place} in queue {place.queue}: {place.reason}"
    else:
        count = place.slots_missing
        reason = f"lacks {count} slot{'s' if count != 1 else ''}: {place.reason}"
    return msgspec.structs.replace(seen, reason=reason)
