"""Applications: to Flink's dashboard every job is one, of the job's own id."""

from firesteel.model.states import JobStatus
from firesteel.model.views import JobSummary
from firesteel.rest.call import Call
from firesteel.rest.codecs import stack_text
from firesteel.rest.joblines import elapsed_ms, job_details
from firesteel.rest.schema import operations as o

_STATUS = {
    JobStatus.INITIALIZING: "CREATED",
    JobStatus.CREATED: "CREATED",
    JobStatus.FAILING: "FAILING",
    JobStatus.FAILED: "FAILED",
    JobStatus.CANCELLING: "CANCELING",
    JobStatus.CANCELED: "CANCELED",
    JobStatus.FINISHED: "FINISHED",
}
"""Application's status by the job's; all else is RUNNING."""

_TIMES = ("CREATED", "RUNNING", "FAILING", "FAILED", "CANCELING", "CANCELED", "FINISHED")


async def applications_overview(call: Call) -> o.MultipleApplicationsDetails:
    now_ms = call.now_ms
    return o.MultipleApplicationsDetails([_line(job, now_ms) for job in await call.gateway.list_job_summaries()])


async def application(call: Call) -> o.ApplicationDetailsInfo:
    job, now_ms = await call.gateway.request_job_summary(call.job_id), call.now_ms
    view = await call.job()
    entered = {_STATUS.get(JobStatus(name), "RUNNING"): at_ms for name, at_ms in view.timestamps_ms.items()}
    line = _line(job, now_ms)
    return o.ApplicationDetailsInfo(
        id=line.id,
        name=line.name,
        status=line.status,
        start_time=line.start_time,
        end_time=line.end_time,
        duration=line.duration,
        timestamps={name: view.timestamps_ms.get(name, entered.get(name, 0)) for name in _TIMES},  # of several, its own
        jobs=[job_details(job, now_ms)],
    )


async def application_exceptions(call: Call) -> o.ApplicationExceptionsInfoWithHistory:
    view = await call.job()
    entries = [
        o.ApplicationException(
            entry.failure.exception or entry.failure.kind.value,
            stack_text(entry.failure),
            entry.timestamp_ms,
            view.job_id,
        )
        for entry in view.exceptions
    ]
    return o.ApplicationExceptionsInfoWithHistory(o.ApplicationExceptionHistory(entries))


def _line(job: JobSummary, now_ms: int) -> o.ApplicationDetails:
    return o.ApplicationDetails(
        id=job.job_id,
        name=job.name,
        start_time=job.start_time_ms,
        end_time=job.end_time_ms,
        duration=elapsed_ms(job.start_time_ms, job.end_time_ms, now_ms),
        status=_STATUS.get(job.status, "RUNNING"),
        jobs={status.value: int(status is job.status) for status in JobStatus},
    )
