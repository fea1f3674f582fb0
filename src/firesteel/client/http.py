"""HttpClusterClient: a runtime.client.ClusterOperations over the REST endpoint."""

import asyncio
import contextlib
import ssl
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Self
from urllib.parse import quote

import msgspec

from firesteel.client.heartbeats import Attachment, ClientHeartbeats
from firesteel.client.logs import JobLog, LogLines
from firesteel.client.multipart import Multipart, Part
from firesteel.client.transport import TOKEN_VARIABLE, DoneBefore, Finder, Transport
from firesteel.model.branches import JobCopy
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobGraph, JobType, encode_job_graph
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.streams import AfterSavepoint, QuerySight, QueryState, StateQuestion
from firesteel.model.views import ClusterOverview, JobResult, JobSummary, JobView
from firesteel.runtime.client import CheckpointFailed, DuplicateJob, SavepointFailed, UnknownJob, UnknownResult

RESULT_WAIT_S = 30.0
"""Time that one request for a result waits; then it is sent again."""

STATE_WAIT_S = 150.0
"""Time that reading state may take: a Spark may have to be started for it."""

OPERATION_POLL_S = 0.2
"""Time between two looks whether a savepoint is there."""


class _Trigger(msgspec.Struct, rename="kebab"):
    request_id: str


class _Status(msgspec.Struct):
    id: str


class _Cause(msgspec.Struct, rename="kebab"):
    stack_trace: str


class _Savepoint(msgspec.Struct, rename="kebab"):
    location: str | None = None
    failure_cause: _Cause | None = None


class _Operation(msgspec.Struct):
    status: _Status
    operation: _Savepoint | None = None


class _Checkpoint(msgspec.Struct, rename="camel"):
    checkpoint_id: int | None = None
    failure_cause: _Cause | None = None


class _CheckpointOperation(msgspec.Struct):
    status: _Status
    operation: _Checkpoint | None = None


class _Line(msgspec.Struct, rename="kebab"):
    """Fields of a line of /jobs/overview that are read."""

    jid: JobID
    name: str
    state: JobStatus
    start_time: int
    end_time: int
    last_modification: int
    tasks: dict[str, int]
    owner: str = ""
    reason: str = ""
    branch_of: JobID = JobID("")
    job_type: str = msgspec.field(default=JobType.BATCH.name, name="jobType")
    cluster: str = ""


class _Lines(msgspec.Struct):
    jobs: list[_Line]


class _Ended(msgspec.Struct):
    result: JobResult | None = None


class _Rows(msgspec.Struct):
    arrow: bytes


class _Overview(msgspec.Struct, rename="kebab"):
    taskmanagers: int
    slots_total: int
    slots_available: int


class _JobUrl(msgspec.Struct, rename="camel"):
    job_url: str


class _JobLogs(msgspec.Struct):
    logs: list[JobLog]


class _Worker(msgspec.Struct):
    id: str
    labels: list[str] = []


class _Workers(msgspec.Struct):
    taskmanagers: list[_Worker]


class HttpClusterClient:
    """A client of the cluster whose masters' REST endpoints are at `addresses` (URLs), as the holder of a token.

    With an `attachment` that has a timeout, jobs that it hands in end with it. Beside what ClusterOperations says, its
    coroutines raise ClusterUnreachable when no master answers or leads, and Refused when this one may not.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        finder: Finder | None = None,
        token: str = "",
        token_from: str = TOKEN_VARIABLE,
        tls: ssl.SSLContext | None = None,
        patience_s: float = 60.0,
        attachment: Attachment | None = None,
    ) -> None:
        self._transport = Transport(
            addresses, finder=finder, token=token, token_from=token_from, tls=tls, patience_s=patience_s
        )
        self._attachment = attachment or Attachment()
        self._heartbeats = ClientHeartbeats(self._transport, self._attachment.interval_ms)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._heartbeats.close()
        await self._transport.close()

    async def submit_job(self, graph: JobGraph, artifacts: Mapping[str, Path]) -> JobID:
        graph = msgspec.structs.replace(graph, client_heartbeat_timeout_ms=self._attachment.timeout_ms)
        hashes = list(dict.fromkeys(artifact.sha256 for artifact in graph.artifacts))
        names = {"jobGraphFileName": "job-graph.json", "jobArtifactFileNames": hashes}
        parts = [
            Part("request", msgspec.json.encode(names)),
            Part("file_0", encode_job_graph(graph), file_name="job-graph.json"),
        ]
        for index, sha256 in enumerate(hashes, start=1):
            parts.append(Part(f"file_{index}", artifacts[sha256], "application/octet-stream", sha256))
        try:
            answer = await self._transport.request("POST", "/v1/jobs", upload=Multipart(parts))
            job_id = JobID(msgspec.json.decode(answer, type=_JobUrl).job_url.rpartition("/")[2])
        except DoneBefore as error:
            job_id = graph.job_id
            if (await self.request_job(job_id)).name != graph.name:  # not done by us, but long before
                raise DuplicateJob(str(error)) from None
        self._heartbeats.keep_alive(job_id, graph.client_heartbeat_timeout_ms)
        return job_id

    async def request_job(self, job_id: JobID) -> JobView:
        answer = await self._transport.request("GET", f"/v1/jobs/{job_id}/view")
        return msgspec.json.decode(answer, type=JobView)

    async def list_job_summaries(self) -> list[JobSummary]:
        answer = await self._transport.request("GET", "/v1/jobs/overview")
        return [_summary(line) for line in msgspec.json.decode(answer, type=_Lines).jobs]

    async def list_jobs(self) -> list[JobView]:
        return [
            JobView(
                job_id=job.job_id,
                name=job.name,
                status=job.status,
                start_time_ms=job.start_time_ms,
                end_time_ms=job.end_time_ms,
                owner=job.owner,
                reason=job.reason,
                job_type=job.job_type,
            )
            for job in await self.list_job_summaries()
        ]

    async def follow_job(self, job_id: JobID) -> AsyncIterator[JobView]:
        """Connects again when the stream breaks, until the job has ended; meanwhile one that ends with its client has one."""
        ended = False
        while not ended:
            async for name, data in self._events(job_id):
                if name == "job":
                    view = msgspec.json.decode(data, type=JobView)
                    ended = view.status.is_globally_terminal
                    self._heartbeats.keep_alive(job_id, 0 if ended else view.client_heartbeat_timeout_ms)
                    yield view
                if ended:
                    break

    async def request_job_result(self, job_id: JobID) -> JobResult:
        path = f"/v1/jobs/{job_id}/execution-result?wait={RESULT_WAIT_S * 1_000:.0f}"
        while True:
            answer = await self._transport.request("GET", path, wait_s=RESULT_WAIT_S)
            result = msgspec.json.decode(answer, type=_Ended).result
            if result is not None:
                return result

    async def fetch_result(self, job_id: JobID, function: str = "") -> bytes:
        path = f"/v1/jobs/{job_id}/rows?function={quote(function, safe='')}"
        try:
            return msgspec.json.decode(await self._transport.request("GET", path), type=_Rows).arrow
        except UnknownJob as error:
            raise UnknownResult(str(error)) from None

    async def read_output(
        self, job_id: JobID, stream: str, *, attempt: int = 0, offset: int = 0, wait_s: float = 0.0
    ) -> bytes:
        place = f"stream={quote(stream, safe='')}&attempt={attempt}&offset={offset}&wait={wait_s * 1_000:.0f}"
        return await self._transport.request("GET", f"/v1/jobs/{job_id}/output?{place}", wait_s=wait_s)

    async def list_task_managers(self) -> list[str]:
        """The ids of the registered workers."""
        answer = await self._transport.request("GET", "/v1/taskmanagers")
        return [worker.id for worker in msgspec.json.decode(answer, type=_Workers).taskmanagers]

    async def count_labels(self) -> dict[str, int]:
        """How many registered workers have each label."""
        answer = await self._transport.request("GET", "/v1/taskmanagers")
        workers = msgspec.json.decode(answer, type=_Workers).taskmanagers
        return dict(sorted(Counter(label for worker in workers for label in worker.labels).items()))

    async def list_job_logs(self, job_id: JobID) -> list[JobLog]:
        """Logs of attempts in the order of regions, as far as the workers are there that ran them."""
        answer = await self._transport.request("GET", f"/v1/jobs/{job_id}/logs")
        return msgspec.json.decode(answer, type=_JobLogs).logs

    async def read_log(self, task_manager: str, name: str, offset: int = 0, wait_s: float = 0.0) -> LogLines:
        """Some lines from `offset` on, or so many bytes before the end; those that come within the time.

        Raises UnknownJob when there is no such file or worker.
        """
        place = f"/v1/taskmanagers/{quote(task_manager, safe='')}/logs/{quote(name, safe='')}/part"
        query = f"?offset={offset}&wait={wait_s * 1_000:.0f}"
        return msgspec.json.decode(await self._transport.request("GET", place + query, wait_s=wait_s), type=LogLines)

    async def cancel_job(self, job_id: JobID) -> None:
        await self._transport.request_end(job_id)

    async def take_savepoint(
        self,
        job_id: JobID,
        directory: str = "",
        *,
        after: AfterSavepoint = AfterSavepoint.GO_ON,
        savepoint_id: str = "",
    ) -> str:
        body: dict[str, object] = {"triggerId": savepoint_id or uuid.uuid4().hex}
        if after.stops_first:
            path = f"/v1/jobs/{job_id}/stop"
            body |= {"drain": after is AfterSavepoint.DRAIN, **({"targetDirectory": directory} if directory else {})}
        else:
            path = f"/v1/jobs/{job_id}/savepoints"
            body |= {
                "cancel-job": after is AfterSavepoint.CANCEL,
                **({"target-directory": directory} if directory else {}),
            }
        while True:  # a master that leads since then is told again: it is the same one by its id
            await self._transport.request("POST", path, json=msgspec.json.encode(body))
            with contextlib.suppress(UnknownJob):
                return await self._operation(f"/v1/jobs/{job_id}/savepoints/{body['triggerId']}")

    async def take_checkpoint(self, job_id: JobID) -> int:
        path, chosen = f"/v1/jobs/{job_id}/checkpoints", uuid.uuid4().hex
        while True:  # a master that leads since then is told again, and takes another one
            await self._transport.request("POST", path, json=msgspec.json.encode({"triggerId": chosen}))
            with contextlib.suppress(UnknownJob):
                return await self._checkpoint(f"{path}/{chosen}")

    async def _checkpoint(self, path: str) -> int:
        """Poll until it is complete. Raises CheckpointFailed."""
        while True:
            answer = msgspec.json.decode(
                await self._transport.request("GET", path), type=_CheckpointOperation
            ).operation
            if answer is not None and answer.failure_cause is not None:
                raise CheckpointFailed(answer.failure_cause.stack_trace.partition("\n")[0])
            if answer is not None and answer.checkpoint_id is not None:
                return answer.checkpoint_id
            await asyncio.sleep(OPERATION_POLL_S)

    async def look_at_queries(self, job_id: JobID, savepoint: str = "") -> list[QuerySight]:
        """Where the queries of a running stream write, and what they have read, or had in a savepoint. Raises RequestFailed."""
        path = f"/v1/jobs/{job_id}/queries?savepoint={quote(savepoint, safe='')}"
        return msgspec.json.decode(await self._transport.request("GET", path), type=list[QuerySight])

    async def copy_job(self, job_id: JobID, copy: JobCopy) -> None:
        """Hand in a job that runs once more, under the copy's id. Raises InvalidJobGraph, DuplicateJob."""
        with contextlib.suppress(DoneBefore):
            await self._transport.request("POST", f"/v1/jobs/{job_id}/copy", json=msgspec.json.encode(copy))

    async def dispose_savepoint(self, path: str) -> None:
        body = msgspec.json.encode({"savepoint-path": path})
        while True:
            answer = await self._transport.request("POST", "/v1/savepoint-disposal", json=body)
            with contextlib.suppress(UnknownJob):  # its master went, and what it knew of it
                await self._operation(f"/v1/savepoint-disposal/{msgspec.json.decode(answer, type=_Trigger).request_id}")
                return

    async def read_state(self, job_id: JobID, vertex: str, question: StateQuestion) -> QueryState:
        """What a query of a streaming job keeps, as of its last committed batch. Raises RequestFailed for what is not there."""
        return await self._state(f"/v1/jobs/{job_id}/state?vertex={quote(vertex, safe='')}", question)

    async def read_savepoint_state(self, path: str, uid: str, question: StateQuestion) -> QueryState:
        """The same of a savepoint; no uid is needed where it has one query."""
        place = f"path={quote(path, safe='')}&vertex={quote(uid, safe='')}"
        return await self._state(f"/v1/savepoint-state?{place}", question)

    async def _state(self, path: str, question: StateQuestion) -> QueryState:
        keys = quote(msgspec.json.encode(question.keys).decode(), safe="")
        asked = (
            f"&keys={keys}&operator={question.operator}&limit={question.limit}&store={quote(question.store, safe='')}"
        )
        answer = await self._transport.request("GET", path + asked, wait_s=STATE_WAIT_S)
        return msgspec.json.decode(answer, type=QueryState)

    async def _operation(self, path: str) -> str:
        """Poll until it is done. Raises SavepointFailed."""
        while True:
            answer = msgspec.json.decode(await self._transport.request("GET", path), type=_Operation)
            if answer.status.id == "COMPLETED" and answer.operation is not None:
                if answer.operation.failure_cause is not None:
                    raise SavepointFailed(answer.operation.failure_cause.stack_trace.partition("\n")[0])
                return answer.operation.location or ""
            await asyncio.sleep(OPERATION_POLL_S)

    async def reach(self) -> None:
        """Return when a master answers."""
        await self._transport.request("GET", "/v1/overview")

    async def request_cluster_overview(self) -> ClusterOverview:
        found = msgspec.json.decode(await self._transport.request("GET", "/v1/overview"), type=_Overview)
        return ClusterOverview(
            task_managers=found.taskmanagers,
            slots_total=found.slots_total,
            slots_free=found.slots_available,
            jobs=dict(Counter(job.status.value for job in await self.list_job_summaries())),
        )

    async def _events(self, job_id: JobID) -> AsyncIterator[tuple[str, str]]:
        """(name, data) of each event of one connection."""
        name = ""
        async for line in self._transport.lines(f"/v1/jobs/{job_id}/events"):
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                yield name, value


def _summary(line: _Line) -> JobSummary:
    tasks = {state.name: line.tasks.get(state.name.lower(), 0) for state in ExecutionState}
    return JobSummary(
        job_id=line.jid,
        name=line.name,
        status=line.state,
        owner=line.owner,
        start_time_ms=line.start_time,
        end_time_ms=line.end_time,
        modified_ms=line.last_modification,
        reason=line.reason,
        branch_of=line.branch_of,
        job_type=JobType[line.job_type],
        cluster=line.cluster,
        tasks={name: count for name, count in tasks.items() if count},
    )
