"""How a job ends, and how it goes on, told without being asked again and again."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
from starlette.responses import Response, StreamingResponse

from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult
from firesteel.rest.call import Call
from firesteel.rest.codecs import throwable
from firesteel.rest.handlers.jobs import shown
from firesteel.rest.handlers.operations import COMPLETED, IN_PROGRESS
from firesteel.rest.schema.jobs import FlinkJobResult, JobExecutionResultResponseBody
from firesteel.runtime.client import ClusterGateway, NoLeader, UnknownJob

WAIT_MAX_MS = 60_000
"""The longest that a request for a result waits."""

RESULT_STORED_MS = 1_000
"""The result of a job that has just ended is told once it is stored, which takes a moment."""

CHANGES_INTERVAL_S = 0.1
"""Least time between two views of one job in a stream: what changes faster is told together."""

SIGN_OF_LIFE_S = 10.0
"""A stream that has nothing to tell says so this often, so that both ends notice a broken connection."""

_APPLICATION_STATUS = {
    JobStatus.FINISHED: "SUCCEEDED",
    JobStatus.FAILED: "FAILED",
    JobStatus.CANCELED: "CANCELED",
}


async def execution_result(call: Call) -> JobExecutionResultResponseBody:
    """The result; while there is none, wait for it as long as the caller says."""
    wait_ms = min(call.query["wait"], WAIT_MAX_MS)
    if wait_ms <= 0:
        job = await call.gateway.request_job_summary(call.job_id)
        if not job.status.is_globally_terminal:
            return JobExecutionResultResponseBody(status=IN_PROGRESS)
        wait_ms = RESULT_STORED_MS
    try:
        async with asyncio.timeout(wait_ms / 1_000):
            result = await call.gateway.request_job_result(call.job_id)
    except TimeoutError:
        return JobExecutionResultResponseBody(status=IN_PROGRESS)
    return JobExecutionResultResponseBody(status=COMPLETED, job_execution_result=_flinks(result), result=result)


async def events(call: Call) -> Response:
    """Server-sent events: `job` with the view after each change, and `result` at the end."""
    job_id = call.job_id
    await call.gateway.request_job_summary(job_id)
    return StreamingResponse(
        _changes(call.gateway, job_id), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


async def _changes(gateway: ClusterGateway, job_id: JobID) -> AsyncIterator[bytes]:
    """Ends early when the leader goes: who listens connects again."""
    result = asyncio.ensure_future(gateway.request_job_result(job_id))  # noqa: TID251 - ended below, by this generator
    result.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        async for event in _until(result, gateway, job_id):
            yield event
    except (NoLeader, UnknownJob):
        return
    finally:
        result.cancel()


async def _until(result: asyncio.Future[JobResult], gateway: ClusterGateway, job_id: JobID) -> AsyncIterator[bytes]:
    seen, quiet_s = None, 0.0
    while not result.done():
        summary = await gateway.request_job_summary(job_id)
        if (summary.status, summary.version) != seen:
            seen, quiet_s = (summary.status, summary.version), 0.0
            yield _event("job", await _view_json(gateway, job_id))
        elif quiet_s >= SIGN_OF_LIFE_S:
            quiet_s = 0.0
            yield b": nothing new\n\n"
        quiet_s += CHANGES_INTERVAL_S
        await asyncio.wait({result}, timeout=CHANGES_INTERVAL_S)
    ended = result.result()
    yield _event("job", await _view_json(gateway, job_id))
    yield _event("result", msgspec.json.encode(ended))


async def _view_json(gateway: ClusterGateway, job_id: JobID) -> bytes:
    return msgspec.json.encode(shown(await gateway.request_job(job_id)))


def _event(name: str, data: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)


def _flinks(result: JobResult) -> FlinkJobResult:
    failure = result.failure
    if failure is None and result.status is JobStatus.CANCELED:
        failure = FailureInfo(kind=FailureKind.USER, message="the job was cancelled", exception="firesteel.Cancelled")
    return FlinkJobResult(
        id=result.job_id,
        name=result.name,
        application_status=_APPLICATION_STATUS[result.status],
        net_runtime=result.duration_ms,
        application_id=result.job_id,
        start_time=result.start_time_ms,
        end_time=result.end_time_ms,
        failure_cause=msgspec.UNSET if failure is None else throwable(failure),
    )
