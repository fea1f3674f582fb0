"""What is shown of a job: by its JobMaster, as it ended, or as far as its Dispatcher knows."""

import msgspec

from firesteel.core.dispatcher.jobentry import JobEntry, JobStage
from firesteel.core.jobmaster.jobmaster import JobMasterCore
from firesteel.core.jobmaster.jobrelease import JobReleaseCore
from firesteel.core.machine import Core
from firesteel.model.branches import parent_of
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobType
from firesteel.model.secrets import redacted_text
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult, JobSummary, JobView, summary_of

Leads = Core | str | None
"""What leads a job at the moment; or why nothing can, in words; or None, when nothing does and nobody knows why."""


def teller_of(job: JobEntry, leads: Leads) -> JobMasterCore | None:
    """The JobMaster that tells of a job, of what `leads` it; none of one that is shown as it was archived.

    Nor one that only cleans up after a job that has ended, and has not read yet how.
    """
    if not isinstance(leads, JobMasterCore) or (job.has_ended and job.view is not None):
        return None
    return leads if not job.has_ended or leads.status is job.status else None


def view_at_hand(job: JobEntry, leads: Leads) -> JobView | None:
    """None when what there was to see is archived, or lost, or nobody tells yet."""
    teller = teller_of(job, leads)
    if teller is not None:
        return teller.view(may_end=job.has_ended)
    return job.view if job.has_ended else None


def is_read_again(job: JobEntry, leads: Leads) -> bool:
    """Whether more is to be seen soon of a job that has ended under a former leader: a JobMaster reads its journal, to clean
    up after it. Until then nobody can say with which savepoint it has ended."""
    is_left = job.stage is JobStage.RELEASING and job.graph is not None
    return is_left and not isinstance(leads, JobReleaseCore) and view_at_hand(job, leads) is None


def summary_now(job: JobEntry, leads: Leads) -> JobSummary:
    """A job's line in an overview."""
    teller = teller_of(job, leads)
    if teller is not None:
        return teller.summary(may_end=job.has_ended)
    result = job.result if job.has_ended else None
    if result is not None and job.summary is not None:  # most jobs are such, and a line of each is told at every look
        return job.summary
    known = summary_of(last_known_view(job, leads))
    return msgspec.structs.replace(known, tasks=result.tasks) if result is not None else known


def view_now(job: JobEntry, leads: Leads) -> JobView:
    """As much as there is at hand."""
    return view_at_hand(job, leads) or last_known_view(job, leads)


def last_known_view(job: JobEntry, leads: Leads = None) -> JobView:
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
        reason=_cancelled_because(result) if result is not None else _not_led_because(leads),
        branch_of=parent_of(job.graph.configuration) if job.graph is not None else JobID(""),
        client_heartbeat_timeout_ms=job.graph.client_heartbeat_timeout_ms if job.graph is not None else 0,
    )


def _not_led_because(leads: Leads) -> str:
    """Empty when something leads it, or nobody knows why nothing does."""
    return redacted_text(leads) if isinstance(leads, str) else ""


def _cancelled_because(result: JobResult) -> str:
    """Empty when somebody has asked for it, or it was not cancelled."""
    if result.status is not JobStatus.CANCELED or result.failure is None:
        return ""
    return result.failure.shown_headline()
