"""A client of the master in this process: what REST, the mini cluster and tests ask it through."""

import asyncio
import contextlib
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from firesteel.adapters.blob.local import BlobCorrupt, BlobMissing
from firesteel.adapters.history.keptlogs import KeptLogs, job_of_log, with_archived
from firesteel.assembly.master import Master
from firesteel.assembly.queueplaces import with_place, with_reason
from firesteel.assembly.submission import submitted
from firesteel.core.checkpoint.history import savepoint_of
from firesteel.core.checkpoint.requests import TriggerCheckpoint, TriggerSavepoint
from firesteel.core.dispatcher import requests as r
from firesteel.core.dispatcher.copies import job_again
from firesteel.core.dispatcher.graphcheck import check_job_graph
from firesteel.core.execution.topology import Topology
from firesteel.core.requests import Request
from firesteel.model.branches import JobCopy
from firesteel.model.ids import JobID, ResourceID
from firesteel.model.inquiries import (
    AnyAnswer,
    AnyInquiry,
    BuildFailed,
    BuildJob,
    DisposeSavepoint,
    InquiryRefused,
    JobBuilt,
    ListFiles,
    SavepointDisposed,
)
from firesteel.model.jobgraph import InvalidJobGraph, JobGraph, RuntimeEnvironment, decode_job_graph
from firesteel.model.refusals import (
    CheckpointFailed,
    DuplicateJob,
    NoAnswer,
    SavepointFailed,
    StorageFull,
    TooManyJobs,
    UnknownJob,
    UnknownTaskManager,
)
from firesteel.model.streams import AfterSavepoint
from firesteel.model.views import EVERY_SUBTASK as ALL
from firesteel.model.views import (
    ClusterOverview,
    ClusterView,
    JobResult,
    JobSummary,
    JobView,
    QueuePlace,
    SubtaskView,
    TaskManagerView,
    VertexView,
)
from firesteel.runtime.changes import ChangeWatch
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
from firesteel.runtime.jobmaster import JobMasterEndpoint

LEADER_WAIT_S, LEADER_RETRY_S = 60.0, 0.01
"""Time that a client waits for a leader in this process, and between two looks for one."""
MASTER_WAIT_S = 10.0
"""So long at least whoever asks for a savepoint waits for a job's JobMaster, which begins anew after a fault."""

QUEUE_KEPT_S, OUTPUT_INTERVAL_S = 0.1, 0.05
"""Age that the line for slots may have that views are made of, and time between two looks for what a script has printed."""

T = TypeVar("T")
E = TypeVar("E", bound=Endpoint)


class MasterClient:
    """A runtime.client.ClusterGateway for a master in this process; waits `leader_wait_s` while nobody leads.

    With an `environment`, which all workers have that may connect to the master, jobs that were built with another are
    refused.
    """

    def __init__(
        self, master: Master, *, leader_wait_s: float = LEADER_WAIT_S, environment: RuntimeEnvironment | None = None
    ) -> None:
        self._master, self._leader_wait_s, self._environment = master, leader_wait_s, environment
        self._queue_seen: dict[JobID, QueuePlace] = {}
        self._queue_until_s = 0.0

    async def submit_job(self, graph: JobGraph, artifacts: Mapping[str, Path]) -> JobID:
        check_job_graph(graph, self._master.config)
        here = self._environment if graph.has_user_code else None
        if here is not None and (refusal := graph.environment.refusal(here, "this cluster")):
            raise InvalidJobGraph(refusal)
        missing = [artifact.name for artifact in graph.artifacts if artifact.sha256 not in artifacts]
        if missing:
            raise InvalidJobGraph(f"artifacts are missing: {', '.join(missing)}")
        Topology(graph)
        files = {artifact.sha256: artifacts[artifact.sha256] for artifact in graph.artifacts}
        try:
            async with self._master.uploads.put(files):
                return await submitted(graph, self._dispatcher)
        except (DuplicateJob, InvalidJobGraph, TooManyJobs, StorageFull, BlobCorrupt):
            await (await self._dispatcher()).delete_unused_blobs(files)
            raise

    async def request_job(self, job_id: JobID) -> JobView:
        return with_place(await (await self._dispatcher()).view(job_id), self._recent_queue())

    async def list_jobs(self) -> list[JobView]:
        queue = self._queue()
        return [with_place(view, queue) for view in (await self._dispatcher()).views()]

    async def list_job_summaries(self) -> list[JobSummary]:
        queue = self._recent_queue()
        return [with_reason(line, queue) for line in (await self._dispatcher()).summaries()]

    async def request_job_summary(self, job_id: JobID) -> JobSummary:
        return with_reason((await self._dispatcher()).summary(job_id), self._recent_queue())

    async def next_change(self, job_id: JobID) -> asyncio.Future[None]:
        return (await self._dispatcher()).changes.next(job_id)

    @contextlib.asynccontextmanager
    async def watch_cluster(self) -> AsyncIterator[ChangeWatch]:
        changes = (await self._dispatcher()).changes
        watch = changes.watch()
        try:
            yield watch
        finally:
            changes.unwatch(watch)

    async def request_queue(self) -> dict[JobID, QueuePlace]:
        return self._recent_queue()

    async def report_client_heartbeat(self, job_id: JobID) -> None:
        await self._ask(r.ReportClientHeartbeat(job_id))

    def follow_job(self, job_id: JobID) -> AsyncIterator[JobView]:
        return job_changes(self, job_id)

    async def request_subtasks(self, job_id: JobID, vertex: VertexView, chosen: range = ALL) -> tuple[SubtaskView, ...]:
        return await (await self._dispatcher()).subtasks(job_id, vertex, chosen)

    async def list_task_managers(self) -> tuple[TaskManagerView, ...]:
        return (await self._leading(self._master.resource_manager)).task_managers()

    async def request_cluster_view(self) -> ClusterView:
        resource_manager = await self._leading(self._master.resource_manager)
        running, ended = (await self._dispatcher()).running_and_ended()
        return ClusterView(
            task_managers=resource_manager.task_managers(),
            task_managers_lost=resource_manager.core.workers_lost,
            jobs=running,
            ended=ended,
            queue=self._recent_queue(),
        )

    async def ask_task_manager(
        self, resource_id: ResourceID, inquiry: AnyInquiry, limit_s: float = INQUIRY_LIMIT_S
    ) -> AnyAnswer:
        await self._leading(self._master.resource_manager)
        kept = await self._kept_logs(inquiry)
        try:
            answer = await self._master.ask(resource_id, inquiry, limit_s)
        except (UnknownTaskManager, NoAnswer):
            if kept is None or (archived := kept.answer(resource_id, inquiry)) is None:
                raise
            return archived
        archived = kept.answer(resource_id, inquiry) if kept is not None else None
        return with_archived(answer, archived)

    async def list_log_holders(self, job_id: JobID) -> tuple[ResourceID, ...]:
        here = [worker.resource_id for worker in await self.list_task_managers()]
        kept = await self._kept_logs(ListFiles(prefix=f"{job_id}_"))
        return tuple(dict.fromkeys((*here, *(kept.holders() if kept is not None else ()))))

    async def _kept_logs(self, inquiry: AnyInquiry) -> KeptLogs | None:
        """What is archived of the prints of the job that is asked about, once it has ended."""
        job_id = job_of_log(inquiry)
        if job_id is None:
            return None
        try:
            has_ended = (await self._dispatcher()).summary(job_id).status.is_globally_terminal
        except UnknownJob:
            return None
        return await self._master.history.logs(job_id) if has_ended else None

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

    async def copy_job(self, job_id: JobID, copy: JobCopy, owner: str) -> JobID:
        graph = job_again((await self._dispatcher()).core.jobs, job_id, copy)
        if not await self._master.uploads.has(artifact.sha256 for artifact in graph.artifacts):
            raise InvalidJobGraph(f"the code of job {job_id} is gone from the storage: submit its file anew")
        if copy.dry_run:
            check_job_graph(graph, self._master.config)
            return graph.job_id
        return await self.submit_built(msgspec.structs.replace(graph, owner=owner))

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
        name, outputs = f"{attempt}.{stream}", self._master.uploads.outputs
        while True:
            change = await self.next_change(job_id)
            has_ended = (await self.request_job_summary(job_id)).status.is_globally_terminal
            data = await outputs.read(job_id, name, offset)
            if not data and has_ended:
                if await outputs.read(job_id, name, 0):
                    return b""  # it was read to its end, which is at another byte of the archived text
                return (await self._master.history.logs(job_id)).output(name, offset)
            if data or asyncio.get_running_loop().time() >= until_s:
                return data
            await asyncio.wait((change,), timeout=OUTPUT_INTERVAL_S)

    async def cancel_job(self, job_id: JobID) -> None:
        await self._ask(r.CancelJobRequest(job_id))

    async def take_savepoint(
        self,
        job_id: JobID,
        directory: str = "",
        *,
        after: AfterSavepoint = AfterSavepoint.GO_ON,
        savepoint_id: str = "",
    ) -> str:
        request = TriggerSavepoint(savepoint_id or uuid.uuid4().hex, directory, after)
        try:
            return await self._ask_master(job_id, request, SavepointFailed)
        except SavepointFailed:  # or its master went before it could say that it was made
            shown = (await self.request_job(job_id)).checkpoints
            made = savepoint_of(shown.history, job_id, request.savepoint_id) if shown is not None else ""
            if not made:
                raise
            return made

    async def take_checkpoint(self, job_id: JobID) -> int:
        return await self._ask_master(job_id, TriggerCheckpoint(), CheckpointFailed)

    async def dispose_savepoint(self, path: str) -> None:
        answer = await self.ask_task_manager(await self._builder(), DisposeSavepoint(path=path))
        if not isinstance(answer, SavepointDisposed):
            raise SavepointFailed(answer.reason if isinstance(answer, InquiryRefused) else f"no answer: {answer}")

    async def request_cluster_overview(self) -> ClusterOverview:
        seen = await self.request_cluster_view()
        return ClusterOverview(
            task_managers=len(seen.task_managers),
            slots_total=sum(worker.slots for worker in seen.task_managers),
            slots_free=sum(worker.free_slots for worker in seen.task_managers),
            jobs=dict(Counter(seen.ended) + Counter(job.status.value for job in seen.jobs)),
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

    async def _leading(self, find: Callable[[], E], at_least_s: float = 0.0) -> E:
        """The leader that `find` finds, waiting a while for one. Raises NoLeader, or ClusterLost."""
        until_s = asyncio.get_running_loop().time() + max(self._leader_wait_s, at_least_s)
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

    async def _ask_master(self, job_id: JobID, request: Request[T], refused: type[RuntimeError]) -> T:
        """Ask who leads the job; a request it could not answer before it went is asked of the next. In the background: it may
        take long until there is one. Raises `refused` where there is none for long."""
        while True:
            master = await self._master_of(job_id, refused)
            try:
                return await master.ask(request)
            except EndpointStopped:
                await asyncio.sleep(LEADER_RETRY_S)

    async def _master_of(self, job_id: JobID, refused: type[RuntimeError]) -> JobMasterEndpoint:
        until_s = asyncio.get_running_loop().time() + max(self._leader_wait_s, MASTER_WAIT_S)
        find = self._master.dispatcher
        while (master := (await self._leading(find, MASTER_WAIT_S)).master_of(job_id, refused)) is None:
            if asyncio.get_running_loop().time() >= until_s:
                raise refused(f"job {job_id} has no master: it waits for its turn, or for a master to take it over")
            await asyncio.sleep(LEADER_RETRY_S)
        return master


def _checked(graph: JobGraph, made: Sequence[str]) -> JobGraph:
    """The graph with the artifacts that were made, checked: what code of a user has made is believed nothing."""
    if missing := [each.name for each in graph.artifacts if each.sha256 not in made]:
        raise InvalidJobGraph(f"artifacts are missing: {', '.join(missing)}")
    return graph
