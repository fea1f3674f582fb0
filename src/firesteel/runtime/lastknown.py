"""What the Dispatcher itself can show of a job of which no JobMaster tells."""

from firesteel.core.dispatcher.jobentry import JobEntry
from firesteel.model.jobgraph import JobType
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult, JobView


def last_known_view(job: JobEntry) -> JobView:
    """A job of which no JobMaster tells: one that starts, changes hands, or ended under a former leader."""
    result, known = job.result if job.has_ended else None, job.graph or job.summary
    return JobView(
        job_id=job.job_id,
        name=job.name,
        status=job.status,
        start_time_ms=job.since_ms,
        end_time_ms=result.end_time_ms if result is not None else -1,
        timestamps_ms={job.status.value: result.end_time_ms} if result is not None else {},
        restarts=result.restarts if result is not None else 0,
        job_type=known.job_type if known is not None else JobType.BATCH,
        owner=result.owner if result is not None else known.owner if known is not None else "",
        reason=_cancelled_because(result) if result is not None else "",
        client_heartbeat_timeout_ms=job.graph.client_heartbeat_timeout_ms if job.graph is not None else 0,
    )


def _cancelled_because(result: JobResult) -> str:
    """Empty when somebody has asked for it, or it was not cancelled."""
    if result.status is not JobStatus.CANCELED or result.failure is None:
        return ""
    return result.failure.headline()
