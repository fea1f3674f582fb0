"""Rescaling: a job keeps its parallelism, so there is nothing to tell."""

from firesteel.rest.call import Call
from firesteel.rest.errors import RestError, not_found
from firesteel.rest.schema import operations as o
from firesteel.rest.schema.cluster import Empty


async def overview(call: Call) -> o.JobRescalesOverview:
    await call.gateway.request_job_summary(call.job_id)
    return o.JobRescalesOverview()


async def summary(call: Call) -> o.JobRescalesSummary:
    await call.gateway.request_job_summary(call.job_id)
    return o.JobRescalesSummary()


async def history(call: Call) -> list[str]:
    await call.gateway.request_job_summary(call.job_id)
    return []


async def configuration(call: Call) -> o.JobRescaleConfigInfo:
    await call.gateway.request_job_summary(call.job_id)
    return o.JobRescaleConfigInfo()


async def details(call: Call) -> Empty:
    await call.gateway.request_job_summary(call.job_id)
    raise not_found("This job was never rescaled.")


async def change_requirements(call: Call) -> Empty:
    await call.gateway.request_job_summary(call.job_id)
    raise RestError(409, "A job keeps the parallelism that its pipeline states: submit it anew with another one.")
