"""Cancelling, and checkpoints and savepoints, which a batch job has none of."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable

from firesteel.core.checkpoint.history import savepoint_of
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobType
from firesteel.model.streams import AfterSavepoint
from firesteel.model.views import JobSummary
from firesteel.rest.call import Call
from firesteel.rest.codecs import checked_id, throwable
from firesteel.rest.errors import RestError, not_found
from firesteel.rest.operations import Operation, OperationFailed
from firesteel.rest.schema import operations as o
from firesteel.rest.schema.cluster import Empty
from firesteel.rest.schema.jobs import QueueStatus
from firesteel.runtime.client import CheckpointFailed, NoAnswer, NoLeader, SavepointFailed, UnknownJob

Work = Callable[[str], Awaitable[str]]
"""An operation, with its trigger id; gives what it has made."""

DISPOSAL = "savepoint-disposal"
CANCEL_PATIENCE_S = 20.0
"""A cancellation is not safe while its job's journal can't be written; who asks is told, before taking it for a master that has died."""
IN_PROGRESS, COMPLETED = QueueStatus("IN_PROGRESS"), QueueStatus("COMPLETED")


async def cancel(call: Call) -> Empty:
    """Accepted: it is safe with its master that the job ends. 500 when that takes long; it is tried on. 409 for one that is committing, or has ended otherwise."""
    if call.query["mode"] not in ("cancel", None):
        raise RestError(400, f"mode={call.query['mode']}: jobs are stopped by POST /jobs/:jobid/stop.")
    await call.require_control()
    job = await call.gateway.request_job_summary(call.job_id)
    if job.status.is_globally_terminal and job.status.value != "CANCELED":
        raise RestError(
            409, f"Job cancellation failed: job {job.job_id} has reached the terminal state {job.status.value}."
        )
    try:
        async with asyncio.timeout(CANCEL_PATIENCE_S):
            await call.gateway.cancel_job(call.job_id)
    except TimeoutError:
        reason = (await call.gateway.request_job_summary(call.job_id)).reason
        why = f" ({reason})" if reason else ""
        text = f"Job {call.job_id} is to be cancelled, but its master can't make that safe yet{why}."
        raise RestError(500, text) from None
    return Empty()


# ── savepoints and checkpoints ───────────────────────────────────────────────────────────────
async def trigger_savepoint(call: Call) -> o.TriggerResponse:
    body: o.SavepointTriggerRequestBody = call.body
    after = AfterSavepoint.CANCEL if body.cancel_job else AfterSavepoint.GO_ON
    return await _trigger(call, "savepoint", body.trigger_id, _savepoint(call, body.target_directory, after))


async def stop_with_savepoint(call: Call) -> o.TriggerResponse:
    body: o.StopWithSavepointRequestBody = call.body
    after = AfterSavepoint.DRAIN if body.drain else AfterSavepoint.STOP
    return await _trigger(call, "savepoint", body.trigger_id, _savepoint(call, body.target_directory, after))


def _savepoint(call: Call, directory: str | None, after: AfterSavepoint) -> Work:
    job_id = call.job_id

    async def take(trigger_id: str) -> str:
        return await call.gateway.take_savepoint(job_id, directory or "", after=after, savepoint_id=trigger_id)

    return take


async def trigger_checkpoint(call: Call) -> o.TriggerResponse:
    body: o.CheckpointTriggerRequestBody = call.body
    job_id = call.job_id

    async def take(trigger_id: str) -> str:
        return str(await call.gateway.take_checkpoint(job_id))

    return await _trigger(call, "checkpoint", body.trigger_id, take)


async def savepoint_operation(call: Call) -> o.SavepointOperation:
    return _savepoint_answer(await _found_of_job(call, "savepoint"))


async def checkpoint_operation(call: Call) -> o.CheckpointOperation:
    found = await _found_of_job(call, "checkpoint")
    if not found.done:
        return o.CheckpointOperation(IN_PROGRESS, None)
    if found.failure is not None:
        return o.CheckpointOperation(COMPLETED, o.CheckpointInfo(failure_cause=throwable(found.failure)))
    return o.CheckpointOperation(COMPLETED, o.CheckpointInfo(checkpoint_id=int(found.value)))


async def dispose_savepoint(call: Call) -> o.TriggerResponse:
    body: o.SavepointDisposalRequest = call.body
    trigger_id = uuid.uuid4().hex

    async def work(trigger_id: str) -> str:
        await call.gateway.dispose_savepoint(body.savepoint_path)
        return ""

    call.services.operations.start(None, (DISPOSAL, trigger_id), _told(trigger_id, work))
    return o.TriggerResponse(trigger_id)


async def disposal_operation(call: Call) -> o.SavepointOperation:
    return _savepoint_answer(_found(call, DISPOSAL, None, ""))


async def no_dataset_deletion(call: Call) -> o.SavepointOperation:
    raise not_found(f"There is no dataset operation with triggerId={call.id('triggerid')}.")


async def _trigger(call: Call, kind: str, trigger_id: str | None, work: Work) -> o.TriggerResponse:
    """Begins at most once for a trigger id that a client has chosen."""
    await call.require_control()
    job = await call.gateway.request_job_summary(call.job_id)
    chosen = checked_id(trigger_id, "triggerId") if trigger_id is not None else uuid.uuid4().hex
    operations = call.services.operations
    refusal = _refusal(job)
    if refusal and kind == "savepoint" and (made := await _made(call, chosen)):
        operations.start(call.job_id, (kind, chosen), _given(made))
    else:
        operations.start(call.job_id, (kind, chosen), _failing(refusal) if refusal else _told(chosen, work))
    if operations.needs_sweep():
        operations.keep(each.job_id for each in await call.gateway.list_job_summaries())
    return o.TriggerResponse(chosen)


async def _made(call: Call, trigger_id: str) -> str:
    """Location of the savepoint of that id that an ended job has; else empty. A client may ask for what another master, which
    led when the job was stopped, has begun."""
    shown = (await call.gateway.request_job(call.job_id)).checkpoints
    return savepoint_of(shown.history, call.job_id, trigger_id) if shown is not None else ""


def _given(location: str) -> Callable[[], Awaitable[str]]:
    async def work() -> str:
        return location

    return work


def _refusal(job: JobSummary) -> str:
    """Empty for a stream that has not ended."""
    if job.status.is_globally_terminal:
        return f"Job {job.job_id} ({job.name}) has ended: it is {job.status.value}."
    if job.job_type is JobType.BATCH:
        why = "it has no checkpoints, so none can be triggered and no savepoint can be taken of it; `cancel` ends it"
        return f"Job {job.job_id} ({job.name}) is a batch job: {why}."
    return ""


def _failing(message: str) -> Callable[[], Awaitable[str]]:
    async def work() -> str:
        raise OperationFailed(FailureInfo(kind=FailureKind.USER, message=message, exception="firesteel.NoCheckpoints"))

    return work


def _told(trigger_id: str, work: Work) -> Callable[[], Awaitable[str]]:
    """The work, whose refusal is what the operation failed of."""

    async def told() -> str:
        try:
            return await work(trigger_id)
        except (SavepointFailed, CheckpointFailed, UnknownJob, NoAnswer, NoLeader) as error:
            failure = FailureInfo(
                kind=FailureKind.ENVIRONMENT, message=str(error), exception=f"firesteel.{type(error).__name__}"
            )
            raise OperationFailed(failure) from None

    return told


async def _found_of_job(call: Call, kind: str) -> Operation:
    """The operation, known as long as its job. Raises UnknownJob, or RestError 404."""
    await call.gateway.request_job_summary(call.job_id)
    return _found(call, kind, call.job_id, f" for job {call.job_id}")


def _found(call: Call, kind: str, job_id: JobID | None, of: str) -> Operation:
    trigger_id = call.id("triggerid")
    operation = call.services.operations.find(job_id, (kind, trigger_id))
    if operation is None:
        raise not_found(f"There is no {kind} operation with triggerId={trigger_id}{of}.")
    return operation


def _savepoint_answer(found: Operation) -> o.SavepointOperation:
    if not found.done:
        return o.SavepointOperation(IN_PROGRESS, None)
    if found.failure is not None:
        return o.SavepointOperation(COMPLETED, o.SavepointInfo(failure_cause=throwable(found.failure)))
    return o.SavepointOperation(COMPLETED, o.SavepointInfo(location=found.value or None))
