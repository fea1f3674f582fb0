"""Cancelling, and checkpoints and savepoints, which a batch job has none of."""

import uuid
from collections.abc import Awaitable, Callable

from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID
from firesteel.model.views import JobSummary
from firesteel.rest.call import Call
from firesteel.rest.codecs import checked_id, throwable
from firesteel.rest.errors import RestError, not_found
from firesteel.rest.operations import Operation, OperationFailed
from firesteel.rest.schema import operations as o
from firesteel.rest.schema.cluster import Empty
from firesteel.rest.schema.jobs import QueueStatus

DISPOSAL = "savepoint-disposal"
IN_PROGRESS, COMPLETED = QueueStatus("IN_PROGRESS"), QueueStatus("COMPLETED")


async def cancel(call: Call) -> Empty:
    """Accepted: it is safe with its master that the job ends. 409 for one that has ended otherwise."""
    if call.query["mode"] not in ("cancel", None):
        raise RestError(400, f"mode={call.query['mode']}: jobs are stopped by POST /jobs/:jobid/stop.")
    await call.require_control()
    job = await call.gateway.request_job_summary(call.job_id)
    if job.status.is_globally_terminal and job.status.value != "CANCELED":
        raise RestError(
            409, f"Job cancellation failed: job {job.job_id} has reached the terminal state {job.status.value}."
        )
    await call.gateway.cancel_job(call.job_id)
    return Empty()


# ── savepoints and checkpoints ───────────────────────────────────────────────────────────────
async def trigger_savepoint(call: Call) -> o.TriggerResponse:
    body: o.SavepointTriggerRequestBody = call.body
    return await _trigger(call, "savepoint", body.trigger_id, "so no savepoint can be taken of it")


async def stop_with_savepoint(call: Call) -> o.TriggerResponse:
    body: o.StopWithSavepointRequestBody = call.body
    why = "so it can't be stopped with a savepoint; `cancel` ends it"
    return await _trigger(call, "savepoint", body.trigger_id, why)


async def trigger_checkpoint(call: Call) -> o.TriggerResponse:
    body: o.CheckpointTriggerRequestBody = call.body
    return await _trigger(call, "checkpoint", body.trigger_id, "so none can be triggered")


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
    message = f"There is no savepoint of firesteel at {body.savepoint_path}: only streaming jobs take some."
    trigger_id = uuid.uuid4().hex
    call.services.operations.start(None, (DISPOSAL, trigger_id), _failing(message))
    return o.TriggerResponse(trigger_id)


async def disposal_operation(call: Call) -> o.SavepointOperation:
    return _savepoint_answer(_found(call, DISPOSAL, None, ""))


async def no_checkpoints(call: Call) -> Empty:
    """Flink's answer of a job without checkpoints; its dashboard then hides the panel."""
    await call.gateway.request_job_summary(call.job_id)
    raise not_found(f"Checkpointing is not enabled for this job ({call.job_id}): it is a batch job.")


async def no_dataset_deletion(call: Call) -> o.SavepointOperation:
    raise not_found(f"There is no dataset operation with triggerId={call.id('triggerid')}.")


async def _trigger(call: Call, kind: str, trigger_id: str | None, why_not: str) -> o.TriggerResponse:
    """Begins at most once for a trigger id that a client has chosen."""
    await call.require_control()
    job = await call.gateway.request_job_summary(call.job_id)
    chosen = checked_id(trigger_id, "triggerId") if trigger_id is not None else uuid.uuid4().hex
    operations = call.services.operations
    operations.start(call.job_id, (kind, chosen), _failing(_refusal(job, why_not)))
    if operations.needs_sweep():
        operations.keep(each.job_id for each in await call.gateway.list_job_summaries())
    return o.TriggerResponse(chosen)


def _refusal(job: JobSummary, why_not: str) -> str:
    if job.status.is_globally_terminal:
        return f"Job {job.job_id} ({job.name}) has ended: it is {job.status.value}."
    return f"Job {job.job_id} ({job.name}) is a batch job: it has no checkpoints, {why_not}."


def _failing(message: str) -> Callable[[], Awaitable[str]]:
    async def work() -> str:
        raise OperationFailed(FailureInfo(kind=FailureKind.USER, message=message, exception="firesteel.NoCheckpoints"))

    return work


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
