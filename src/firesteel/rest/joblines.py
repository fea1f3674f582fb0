"""A job's line in overviews and events."""

from firesteel.model.states import ExecutionState
from firesteel.model.views import JobSummary
from firesteel.rest.schema import jobs as j

_LOWER = {state.name: state.name.lower() for state in ExecutionState}
_NO_TASKS = {**{state.name.lower(): 0 for state in ExecutionState}, "total": 0}


def elapsed_ms(start_ms: int, end_ms: int, now_ms: int) -> int:
    """Time from the start to the end or now; 0 when it has not begun."""
    return max(0, (end_ms if end_ms >= 0 else now_ms) - start_ms) if start_ms >= 0 else 0


def job_details(job: JobSummary, now_ms: int) -> j.JobDetails:
    tasks = dict(_NO_TASKS)
    for name, count in job.tasks.items():
        tasks[_LOWER[name]] = count
        tasks["total"] += count
    return j.JobDetails(
        jid=job.job_id,
        name=job.name,
        job_type=job.job_type.name,
        start_time=job.start_time_ms,
        end_time=job.end_time_ms,
        duration=elapsed_ms(job.start_time_ms, job.end_time_ms, now_ms),
        state=job.status.value,
        last_modification=job.modified_ms,
        tasks=tasks,
        owner=job.owner,
        reason=job.reason,
        cluster=job.cluster,
        branch_of=job.branch_of,
    )
