"""HttpClusterClient: a runtime.client.ClusterOperations over the REST endpoint."""

import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Self
from urllib.parse import quote

import msgspec

from firesteel.client.heartbeats import Attachment, ClientHeartbeats
from firesteel.client.multipart import Multipart, Part
from firesteel.client.transport import TOKEN_VARIABLE, DoneBefore, Finder, Transport
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobGraph, encode_job_graph
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.views import ClusterOverview, JobResult, JobSummary, JobView
from firesteel.runtime.client import DuplicateJob, UnknownJob, UnknownResult

RESULT_WAIT_S = 30.0
"""Time that one request for a result waits; then it is sent again."""


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


class JobLog(msgspec.Struct, rename="kebab", frozen=True):
    """Log of what one attempt has printed: the file `name` of a worker."""

    taskmanager_id: str
    name: str
    size: int
    region: int
    attempt: int
    vertices: list[str]


class LogLines(msgspec.Struct, rename="kebab", frozen=True):
    """Some lines of a log file, and where to go on."""

    text: str
    next_offset: int
    size: int
    """Size of the whole file, in bytes."""


class _JobLogs(msgspec.Struct):
    logs: list[JobLog]


class _Worker(msgspec.Struct):
    id: str


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
        await self._transport.request("PATCH", f"/v1/jobs/{job_id}?mode=cancel")

    async def reach(self) -> None:
        """Return when a master answers."""
        await self._transport.request("GET", "/v1/overview")

    async def request_cluster_overview(self) -> ClusterOverview:
        found = msgspec.json.decode(await self._transport.request("GET", "/v1/overview"), type=_Overview)
        jobs: dict[str, int] = {}
        for job in await self.list_job_summaries():
            jobs[job.status.value] = jobs.get(job.status.value, 0) + 1
        return ClusterOverview(
            task_managers=found.taskmanagers,
            slots_total=found.slots_total,
            slots_free=found.slots_available,
            jobs=jobs,
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
        tasks={name: count for name, count in tasks.items() if count},
    )
