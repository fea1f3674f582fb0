"""What attempts of a batch job leave for its readers, and which of them refuse to do so with a share of the rows."""

import random

from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobVertexID, RegionAttemptID, derived_id
from firesteel.model.jobgraph import JobGraph, JobVertex
from firesteel.model.tasks import SinkCommit, TaskDeployment

NEED_ALL = 0.15
"""Part of the vertices of which nobody has said how many subtasks they have that can be done with all rows only."""


def refusal_of(graph: JobGraph, deployment: TaskDeployment) -> FailureInfo | None:
    """Why the attempt can't be one of several; None where it can, or is alone."""
    head = next(vertex for vertex in graph.vertices if vertex.id in deployment.vertices)
    is_alone = (deployment.subtasks or head.parallelism) == 1
    if is_alone or not head.auto_parallelism or random.Random(head.id).random() >= NEED_ALL:
        return None
    return FailureInfo(kind=FailureKind.NON_RECOVERABLE, message="it needs more than a share", needs_all=True)


def target_of(graph: JobGraph, vertex: JobVertex, subtask: int) -> str:
    """Where readers look for what a sink's subtask has written."""
    return f"{graph.job_id}/{vertex.name}/{subtask}"


def commit_of(attempt: RegionAttemptID, vertex_id: JobVertexID, target: str, staging: str) -> SinkCommit:
    """Its staged output."""
    return SinkCommit(
        commit_id=derived_id(attempt, target),
        vertex_id=vertex_id,
        function="sink",
        format="parquet",
        mode="overwrite",
        target=target,
        staging=staging,
        files=("part-0",),
    )
