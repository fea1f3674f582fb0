"""The end of a job, and its changes, told without being asked again and again."""

from collections.abc import AsyncIterator

import msgspec
from starlette.responses import Response, StreamingResponse

from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult
from firesteel.rest.call import Call
from firesteel.rest.codecs import throwable
from firesteel.rest.errors import RestError
from firesteel.rest.handlers.jobs import shown
from firesteel.rest.handlers.operations import COMPLETED, IN_PROGRESS
from firesteel.rest.schema.jobs import FlinkJobResult, JobExecutionResultResponseBody, ReturnedRowsBody
from firesteel.rest.security import Role
from firesteel.runtime.client import NoLeader, UnknownJob

WAIT_MAX_MS = 60_000
"""The longest that a request for a result waits."""

RESULT_STORED_MS = 1_000
"""The result of a job that has just ended is told once it is stored, which takes a moment."""

_APPLICATION_STATUS = {
    JobStatus.FINISHED: "SUCCEEDED",
    JobStatus.FAILED: "FAILED",
    JobStatus.CANCELED: "CANCELED",
}


async def execution_result(call: Call) -> JobExecutionResultResponseBody:
    """The result; while there is none, wait for it as long as the caller says."""
    wait_ms = min(call.query["wait"], WAIT_MAX_MS)
    job = await call.gateway.request_job_summary(call.job_id)  # unknown ones are told apart, however short the wait
    if wait_ms <= 0:
        if not job.status.is_globally_terminal:
            return JobExecutionResultResponseBody(status=IN_PROGRESS)
        wait_ms = RESULT_STORED_MS
    try:
        async with call.services.waits.limited(wait_ms / 1_000):
            result = (await call.gateway.request_job_result(call.job_id)).redacted()
    except TimeoutError:
        return JobExecutionResultResponseBody(status=IN_PROGRESS)
    return JobExecutionResultResponseBody(status=COMPLETED, job_execution_result=_flinks(result), result=result)


async def rows(call: Call) -> ReturnedRowsBody:
    """Rows that one function of the job has returned, to who submitted the job or operates the cluster."""
    await require_owner(call, "return")
    return ReturnedRowsBody(arrow=await call.gateway.fetch_result(call.job_id, call.query["function"]))


async def output(call: Call) -> Response:
    """Output of a plain script, from a byte on, to who submitted it or operates the cluster."""
    await require_owner(call, "print")
    stream, attempt, offset = (call.query[name] for name in ("stream", "attempt", "offset"))
    wait_s = min(call.query["wait"], WAIT_MAX_MS) / 1_000
    data = await call.gateway.read_output(call.job_id, stream, attempt=attempt, offset=offset, wait_s=wait_s)
    return Response(data, media_type="text/plain", headers={"Cache-Control": "no-store"})


async def require_owner(call: Call, does: str) -> None:
    """Raises RestError 403 for who neither submitted the job nor operates the cluster."""
    await require_owner_of(call, call.job_id, does)


async def require_owner_of(call: Call, job_id: JobID, does: str) -> None:
    """The same for a job that the path does not name."""
    owner = (await call.gateway.request_job_summary(job_id)).owner
    if owner and owner != call.user.name and not call.user.may(Role.OPERATE):
        raise RestError(403, f"{call.user.name} may not read what the jobs of {owner} {does}.")


async def events(call: Call) -> Response:
    """Server-sent events: `job` with the view after each change, and `result` at the end."""
    job_id = call.job_id
    await call.gateway.request_job_summary(job_id)
    return StreamingResponse(
        _changes(call, job_id), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


async def _changes(call: Call, job_id: JobID) -> AsyncIterator[bytes]:
    """Ends early when the leader goes, or this endpoint: who listens connects again."""
    views = call.gateway.follow_job(job_id)
    waits = call.services.waits
    try:
        while True:
            async with waits.limited(None):
                view = await anext(views, None)
            if view is None:
                break
            yield _event("job", msgspec.json.encode(shown(view)))
        async with waits.limited(None):
            result = (await call.gateway.request_job_result(job_id)).redacted()
        yield _event("result", msgspec.json.encode(result))
    except (NoLeader, UnknownJob, TimeoutError):
        return


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
