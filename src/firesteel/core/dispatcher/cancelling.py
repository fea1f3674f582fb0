"""A job that can't be cancelled any more."""

from firesteel.core.dispatcher.jobentry import JobEntry
from firesteel.model import messages as m
from firesteel.model.refusals import CancelRefused


def too_late(job: JobEntry | None, envelope: m.Envelope) -> CancelRefused | None:
    """What those are told who have asked for the job's end, when its JobMaster says so; its next one is not asked again."""
    if job is None or job.master is None:
        return None
    if (envelope.sender, envelope.sender_token) != (job.master.address, job.master.token):
        return None
    job.cancel = False
    return CancelRefused(
        f"job {job.job_id} is making its outputs visible: it can't be cancelled any more, and goes on to its end"
    )
