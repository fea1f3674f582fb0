"""Whether the last checkpoint of a job stays when it has ended, and where."""

from firesteel.core.journal.endedattempts import Reached
from firesteel.core.journal.journal import JobState
from firesteel.model.checkpoints import CheckpointSettings
from firesteel.model.jobgraph import JobGraph, JobType
from firesteel.model.states import JobStatus
from firesteel.model.streams import retained_name


def retained_location(
    state: JobState, graph: JobGraph, settings: CheckpointSettings, status: JobStatus, now_ms: int
) -> str:
    """Where the last checkpoint of a job that comes to `status` now is to stay; empty where none does. A job none of whose
    queries has run has none."""
    has_run = any(each.reached is Reached.RAN for known in state.history.values() for each in known)
    is_stream = graph.job_type is JobType.STREAMING
    if not (is_stream and has_run and settings.shared_dir and settings.retention.retains(status)):
        return ""
    return f"{settings.shared_dir}/{graph.job_id}/{retained_name(state.checkpoints.last_id + 1, now_ms)}"
