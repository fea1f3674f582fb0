"""Spark's own pages of what a job runs in, through its worker: nobody but that needs to reach them."""

from collections.abc import Sequence
from urllib.parse import quote

from starlette.responses import Response

from firesteel.model.ids import ResourceID
from firesteel.model.inquiries import AnyAnswer, InquiryRefused, ReadSparkPage, SparkPage
from firesteel.rest.call import Call
from firesteel.rest.errors import RestError, not_found
from firesteel.rest.forwarding import PATH_CHARACTERS
from firesteel.rest.handlers.completion import require_owner
from firesteel.rest.security import Role

_ISOLATED = "sandbox allow-scripts allow-popups"
"""What runs in a worker has users' code beside it: their pages may not act as whoever looks at them here."""


async def job_spark_page(call: Call) -> Response:
    """Of the first worker with a slot of the job that has any, to who submitted the job or operates the cluster.

    Where all jobs of the worker share a Spark, only to the latter. Raises RestError.
    """
    await require_owner(call, "show in Spark")
    job_id = call.job_id
    workers = [
        worker.resource_id
        for worker in await call.gateway.list_task_managers()
        if any(holder == job_id for holder, _ in worker.allocations)
    ]
    if not workers:
        raise not_found(
            "No worker runs something of this job now: what Spark has kept of it is in its event log, if it was told to"
            " keep one (taskmanager.spark.event-log.dir)."
        )
    target, base = f"/{quote(call.path('page'), safe=PATH_CHARACTERS)}", f"/v1/jobs/{job_id}/spark"
    query = f"?{call.request.url.query}" if call.request.url.query else ""
    reads_all = call.user.may(Role.OPERATE)
    inquiry = ReadSparkPage(job_id=job_id, target=target + query, base=base, reads_all=reads_all)
    match await _first_answer(call, workers, inquiry):
        case InquiryRefused(is_missing=True, reason=reason):
            raise not_found(reason)
        case InquiryRefused(is_forbidden=True, reason=reason):
            raise RestError(403, reason)
        case SparkPage() as page:
            return _response(page)
        case InquiryRefused(reason=reason):
            raise RestError(503, reason)
        case _:
            raise AssertionError("that is no answer to it")


async def _first_answer(call: Call, workers: Sequence[ResourceID], inquiry: ReadSparkPage) -> AnyAnswer:
    """Of the first worker that has the page, or refuses it; of the last one when all miss it."""
    for worker in workers[:-1]:
        answer = await call.gateway.ask_task_manager(worker, inquiry)
        if not (isinstance(answer, InquiryRefused) and answer.is_missing):
            return answer
    return await call.gateway.ask_task_manager(workers[-1], inquiry)


def _response(page: SparkPage) -> Response:
    headers = {"Content-Security-Policy": _ISOLATED, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
    if page.content_type:
        headers["Content-Type"] = page.content_type
    if page.location:
        headers["Location"] = page.location
    return Response(page.body, page.status, headers)
