"""How long a job needs the savepoint that it has claimed.

It is the job's own as its checkpoints are. So it goes when there is something newer to go back to, and never before: a job that
ends without that gives it back.
"""

from firesteel.core.checkpoint.orders import queries_of
from firesteel.core.execution.topology import LogicalRegion
from firesteel.core.journal.journal import JobState
from firesteel.core.scheduler.executions import Executions
from firesteel.model.checkpoints import CheckpointSettings
from firesteel.model.ids import RegionIndex
from firesteel.model.jobgraph import FunctionKind, JobGraph, JobType
from firesteel.model.options import CLAIM_MODE, RESTORE_PATH, Configuration
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.streams import ClaimedSavepoint


def claimed_location(graph: JobGraph) -> str:
    """The savepoint that the job starts from as its owner; empty where there is none."""
    configuration = Configuration(graph.configuration)
    owns = graph.job_type is JobType.STREAMING and configuration.get_option(CLAIM_MODE) == "CLAIM"
    return configuration.get_option(RESTORE_PATH) if owns else ""


def subsumes_claim(executions: Executions, settings: CheckpointSettings) -> bool:
    """Whether a checkpoint that completes now is newer: all workers find it, and each query has begun. Where each worker has its
    own, a worker that is lost takes the checkpoint with it. A query that has not begun may never do: its function fails, or its
    plan does not fit; then its point is nothing but a copy of the savepoint's, which goes with the job."""
    if not (claimed_location(executions.topology.graph) and settings.shared_dir):
        return False
    return all(_has_begun(executions, logical) for logical in executions.topology.logical)


def _has_begun(executions: Executions, logical: LogicalRegion) -> bool:
    """Whether the region's queries have: who runs them tells of queries that were started, and of no others."""
    if executions.graph.state_of(logical.offset) is ExecutionState.FINISHED:
        return True
    told = executions.progress.get(RegionIndex(logical.offset))
    begun = [query.uid for query in told.queries] if told is not None else []
    return all(uid in begun for uid in queries_of(executions, logical).uids)


def subsumed_claim(graph: JobGraph, state: JobState) -> tuple[str, ...]:
    """What a worker is to delete of it while the job goes on: as soon as a checkpoint has completed that subsumes it."""
    location = claimed_location(graph)
    if not location or not state.checkpoints.claim_subsumed:
        return ()
    return (ClaimedSavepoint(job_id=graph.job_id, location=location).reference(),)


def ended_claim(graph: JobGraph, state: JobState) -> tuple[str, ...]:
    """What becomes of it with the job's end. A job that has FINISHED goes back to nothing."""
    location = claimed_location(graph)
    if not location:
        return ()
    known = state.checkpoints
    has_newer = known.claim_subsumed or known.latest_savepoint is not None or bool(state.retained)
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
