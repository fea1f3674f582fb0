"""Spark's own pages of what a job runs in, through its worker: nobody but that needs to reach them."""

import dataclasses
from collections.abc import Sequence
from urllib.parse import quote

from starlette.responses import Response

from firesteel.model.ids import JobID, ResourceID
from firesteel.model.inquiries import AnyAnswer, InquiryRefused, ReadSparkPage, SparkPage
from firesteel.rest.call import Call
from firesteel.rest.errors import RestError, not_found
from firesteel.rest.forwarding import PATH_CHARACTERS
from firesteel.rest.handlers.completion import require_owner_of
from firesteel.rest.schema import events as e
from firesteel.rest.security import Role
from firesteel.rest.tickets import VALID_MS

_ISOLATED = "sandbox allow-scripts allow-popups"
"""What runs in a worker has users' code beside it: their pages may not act as whoever looks at them here."""


async def job_spark_page(call: Call) -> Response:
    """Of the first worker with a slot of the job that has any, to who submitted the job or operates the cluster.

    Where all jobs of the worker share a Spark, only to the latter. Raises RestError.
    """
    return await _page_of(call, call.job_id, f"/v1/jobs/{call.job_id}/spark", _target(call))


async def job_spark_ticket(call: Call) -> e.SparkPagesAddress:
    """An address at which a browser can show these pages for an hour, with all that they are made of."""
    ticket = call.services.tickets.issue(call.job_id, call.user, call.now_ms)
    base = f"/v1/spark/{ticket}"
    await _page_of(call, call.job_id, base, "/")  # raises RestError that says why there is none
    return e.SparkPagesAddress(path=f"{base}/", until=call.now_ms + VALID_MS)


async def spark_page(call: Call) -> Response:
    """The same as `job_spark_page`, to who has a ticket.

    Nothing but its address lets one see it, so any page may ask: that of Spark is of no origin, since it is isolated.
    """
    name = call.path("ticket")
    ticket = call.services.tickets.find(name, call.now_ms)
    if ticket is None:
        raise RestError(403, "This address is good no more: open Spark's pages from the dashboard again.")
    page = await _page_of(
        dataclasses.replace(call, user=ticket.user), ticket.job_id, f"/v1/spark/{name}", _target(call)
    )
    page.headers["Access-Control-Allow-Origin"] = "*"
    return page


def _target(call: Call) -> str:
    path = f"/{quote(call.path('page'), safe=PATH_CHARACTERS)}"
    return f"{path}?{call.request.url.query}" if call.request.url.query else path


async def _page_of(call: Call, job_id: JobID, base: str, target: str) -> Response:
    await require_owner_of(call, job_id, "show in Spark")
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
    reads_all = call.user.may(Role.OPERATE)
    inquiry = ReadSparkPage(job_id=job_id, target=target, base=base, reads_all=reads_all)
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
    headers = {
        "Content-Security-Policy": _ISOLATED,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }
    if page.content_type:
        headers["Content-Type"] = page.content_type
    if page.location:
        headers["Location"] = page.location
    return Response(page.body, page.status, headers)
