"""How long a job needs the savepoint that it has claimed.

It is the job's own as its checkpoints are. So it goes when there is something newer to go back to, and never before: a job that
ends without that gives it back.
"""

from firesteel.core.journal.journal import JobState
from firesteel.model.checkpoints import CheckpointSettings
from firesteel.model.jobgraph import FunctionKind, JobGraph, JobType
from firesteel.model.options import CLAIM_MODE, RESTORE_PATH, Configuration
from firesteel.model.states import JobStatus
from firesteel.model.streams import ClaimedSavepoint


def claimed_location(graph: JobGraph) -> str:
    """The savepoint that the job starts from as its owner; empty where there is none."""
    configuration = Configuration(graph.configuration)
    owns = graph.job_type is JobType.STREAMING and configuration.get_option(CLAIM_MODE) == "CLAIM"
    return configuration.get_option(RESTORE_PATH) if owns else ""


def subsumed_claim(graph: JobGraph, state: JobState, settings: CheckpointSettings) -> tuple[str, ...]:
    """What a worker is to delete of it while the job goes on: as soon as a checkpoint has completed where all workers find it.
    Where each worker has its own, a worker that is lost takes the checkpoint with it."""
    location = claimed_location(graph)
    if not location or not _is_subsumed(state, settings):
        return ()
    return (ClaimedSavepoint(job_id=graph.job_id, location=location).reference(),)


def ended_claim(graph: JobGraph, state: JobState, settings: CheckpointSettings) -> tuple[str, ...]:
    """What becomes of it with the job's end. A job that has FINISHED goes back to nothing."""
    location = claimed_location(graph)
    if not location:
        return ()
    has_newer = _is_subsumed(state, settings) or state.checkpoints.latest_savepoint is not None or bool(state.retained)
    goes = has_newer or state.status is JobStatus.FINISHED
    newer = state.retained if goes else ""
    claimed = ClaimedSavepoint(
        job_id=graph.job_id,
        location=location,
        is_given_back=not goes,
        newer=newer,
        sinks=_sinks(graph) if newer else (),
    )
    return (claimed.reference(),)


def _sinks(graph: JobGraph) -> tuple[str, ...]:
    """Their uids."""
    functions = (function for vertex in graph.vertices for function in vertex.functions)
    return tuple(function.uid for function in functions if function.kind is FunctionKind.SINK)


def _is_subsumed(state: JobState, settings: CheckpointSettings) -> bool:
    return bool(settings.shared_dir) and state.checkpoints.latest_completed is not None
