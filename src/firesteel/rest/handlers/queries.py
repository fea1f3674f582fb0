"""Queries of a stream as their workers find them, and jobs submitted once more: what branches are made of."""

import msgspec

from firesteel.model.branches import JobCopy
from firesteel.model.inquiries import InquiryRefused, LookAtQueries, QueriesSeen
from firesteel.model.jobgraph import JobType
from firesteel.model.options import CHECKPOINTS_DIR
from firesteel.model.streams import QueriesOrder, QuerySight
from firesteel.model.views import JobView, VertexView
from firesteel.rest.call import Call
from firesteel.rest.codecs import checked_id
from firesteel.rest.errors import RestError, bad_request
from firesteel.rest.handlers.completion import require_owner
from firesteel.rest.schema.jobs import JobSubmitResponseBody


async def of_job(call: Call) -> list[QuerySight]:
    """Of a stream that has not ended, to who submitted it or operates the cluster. Queries that do not run yet are left out.
    With `savepoint`, one of that job, as they are there."""
    await require_owner(call, "write")
    job = await call.job()
    if job.job_type is not JobType.STREAMING:
        raise bad_request(f"Job {job.job_id} ({job.name}) is a batch job: it has no queries.")
    if job.status.is_globally_terminal:
        raise bad_request(f"Job {job.job_id} ({job.name}) has ended: it is {job.status.value}, and has no queries.")
    found = [sight for vertex in job.vertices for sight in await _of_vertex(call, job, vertex)]
    return list({sight.uid: sight for sight in found}.values())  # vertices of one region tell the same


async def copy(call: Call) -> JobSubmitResponseBody:
    """Accepted: the copy is safe with the master. The same again, while it has not ended, is the same job."""
    await call.require_control()
    wanted: JobCopy = call.body
    chosen = msgspec.structs.replace(wanted, job_id=checked_id(wanted.job_id, "jobId"))
    return JobSubmitResponseBody(f"/jobs/{await call.gateway.copy_job(call.job_id, chosen, call.user.name)}")


async def _of_vertex(call: Call, job: JobView, vertex: VertexView) -> tuple[QuerySight, ...]:
    uids = tuple(dict.fromkeys(query.uid for each in vertex.progress for query in each.queries))
    if not uids:
        return ()
    (subtask,) = await call.gateway.request_subtasks(job.job_id, vertex)
    if subtask.task_manager is None:
        return ()
    given = job.configuration.get(CHECKPOINTS_DIR.key, "")
    order = QueriesOrder(job_id=job.job_id, uids=uids, savepoint=call.query["savepoint"], checkpoints_dir=given)
    match await call.gateway.ask_task_manager(subtask.task_manager, LookAtQueries(order=order)):
        case QueriesSeen(queries=found):
            return found
        case InquiryRefused(reason=reason):
            raise RestError(400, reason)
        case answer:
            raise AssertionError(f"no answer to who looks at queries: {answer}")
