"""Frozen views of a job, made from the columns."""

from collections.abc import Mapping

import msgspec
import numpy as np

from firesteel.core.execution.graph import ExecutionGraph
from firesteel.core.execution.topology import MAX_REGIONS, LogicalRegion
from firesteel.core.journal import EndedAttempt
from firesteel.core.scheduler.scheduler import DefaultScheduler
from firesteel.model.ids import JobVertexID, RegionIndex
from firesteel.model.jobgraph import JobVertex
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.tasks import RESULT_FORMAT, TaskProgress
from firesteel.model.views import (
    CommittedSink,
    EdgeView,
    JobResult,
    JobSummary,
    JobView,
    ReturnedRows,
    SubtaskView,
    VertexView,
)

SUBTASKS_ARCHIVED_MAX = 1_000
"""Subtasks of an ended job, of all vertices together, that are kept with its view."""

PROGRESS_PER_VERTEX_MAX = 16
"""Running regions whose progress a vertex's view shows."""

_STATUS_ORDER = (
    ExecutionState.FAILED,
    ExecutionState.CANCELING,
    ExecutionState.RUNNING,
    ExecutionState.INITIALIZING,
    ExecutionState.DEPLOYING,
    ExecutionState.RECONCILING,
    ExecutionState.SCHEDULED,
    ExecutionState.CANCELED,
    ExecutionState.CREATED,
    ExecutionState.FINISHED,
)
"""A vertex's status is the first of these that any of its subtasks is in."""


BEFORE_END = {
    JobStatus.FINISHED: JobStatus.RUNNING,
    JobStatus.CANCELED: JobStatus.CANCELLING,
    JobStatus.FAILED: JobStatus.FAILING,
}
"""What a job is shown as that has ended, as long as its result is not stored."""


def job_view(
    scheduler: DefaultScheduler, progress: Mapping[RegionIndex, TaskProgress], version: int, status: JobStatus
) -> JobView:
    """The job as it is now, shown in `status`. Costs a pass over the vertices and the columns' timestamps."""
    state, graph = scheduler.state, scheduler.topology.graph
    times_ms = _times_ms(scheduler, status)
    ended = times_ms.get(status.value, -1) if status.is_globally_terminal else -1
    producer = {dataset.id: dataset.producer for dataset in graph.datasets}
    running = progress_of_running(scheduler.graph, progress)
    vertices = tuple(_vertex_view(scheduler, vertex, running) for vertex in graph.vertices)
    return JobView(
        job_id=graph.job_id,
        name=graph.name,
        status=status,
        version=version,
        timestamps_ms=times_ms,
        start_time_ms=min(times_ms.values(), default=-1),
        end_time_ms=ended,
        reason=_reason(scheduler, running),
        regions=scheduler.topology.region_count,
        restarts=state.restarts,
        vertices=vertices if ended < 0 else _with_subtasks(scheduler, vertices),
        edges=tuple(
            EdgeView(
                source=producer[edge.source],
                target=edge.target,
                dataset=edge.source,
                exchange=edge.exchange.value,
                partitioner=edge.partitioner.value,
            )
            for edge in graph.edges
        ),
        exceptions=state.exceptions,
        job_type=graph.job_type,
        owner=graph.owner,
        parameters=graph.parameters,
        configuration=graph.configuration,
        client_heartbeat_timeout_ms=graph.client_heartbeat_timeout_ms,
    )


def _with_subtasks(scheduler: DefaultScheduler, vertices: tuple[VertexView, ...]) -> tuple[VertexView, ...]:
    """For the archive: of a job that has ended this is what stays. As long as there is room."""
    room, found = SUBTASKS_ARCHIVED_MAX, list[VertexView]()
    for vertex in vertices:
        kept = subtask_views(scheduler, vertex.id, room)
        room -= len(kept)
        found.append(msgspec.structs.replace(vertex, subtasks=kept))
    return tuple(found)


def job_summary(
    scheduler: DefaultScheduler, progress: Mapping[RegionIndex, TaskProgress], version: int, status: JobStatus
) -> JobSummary:
    """The job's line in an overview, in `status`. Costs a pass over the logical regions' counts."""
    graph, times_ms = scheduler.topology.graph, _times_ms(scheduler, status)
    weights = np.array([len(logical.vertices) for logical in scheduler.topology.logical])
    counts = weights @ scheduler.graph.counts
    return JobSummary(
        job_id=graph.job_id,
        name=graph.name,
        status=status,
        version=version,
        job_type=graph.job_type,
        owner=graph.owner,
        start_time_ms=min(times_ms.values(), default=-1),
        end_time_ms=times_ms[status.value] if status.is_globally_terminal else -1,
        modified_ms=max(times_ms.values(), default=-1),
        reason=_reason(scheduler, progress_of_running(scheduler.graph, progress)),
        tasks={each.name: int(counts[each]) for each in ExecutionState if counts[each]},
    )


def subtask_views(
    scheduler: DefaultScheduler, vertex_id: JobVertexID, limit: int = MAX_REGIONS
) -> tuple[SubtaskView, ...]:
    """The current attempts of one vertex's first subtasks, each with those before it."""
    logical = scheduler.topology.by_vertex[vertex_id]
    (vertex,) = (each for each in logical.vertices if each.id == vertex_id)
    shown = range(min(limit, logical.parallelism))
    return tuple(_subtask_view(scheduler, vertex, logical, subtask) for subtask in shown)


def _times_ms(scheduler: DefaultScheduler, status: JobStatus) -> dict[str, int]:
    """When the job came to its states; not to an end that is not shown yet."""
    hidden = {end.value for end in BEFORE_END} - {status.value}
    return {name: at_ms for name, at_ms in scheduler.state.timestamps_ms.items() if name not in hidden}


def _reason(scheduler: DefaultScheduler, running: Mapping[RegionIndex, TaskProgress]) -> str:
    """Why it waits, or was cancelled."""
    if scheduler.state.failure is not None and scheduler.phase.status in (JobStatus.CANCELLING, JobStatus.CANCELED):
        return scheduler.state.failure.headline()
    waits = [item.waits_for for item in running.values() if item.waits_for]
    reasons = [(len(scheduler.pool.waiting), "a slot"), (len(waits), next(iter(waits), ""))]
    return ", ".join(_waiting(count, what) for count, what in reasons if count)


def _waiting(count: int, what: str) -> str:
    return f"1 region waits for {what}" if count == 1 else f"{count} regions wait for {what}"


def _subtask_view(scheduler: DefaultScheduler, vertex: JobVertex, logical: LogicalRegion, subtask: int) -> SubtaskView:
    graph, region = scheduler.graph, RegionIndex(logical.offset + subtask)
    entered, attempt = graph.entered_ms[:, region], int(graph.attempt[region])
    history = scheduler.state.history.get(region, ())
    return SubtaskView(
        subtask=subtask,
        state=graph.state_of(region),
        attempt=attempt,
        task_manager=graph.worker_of(region),
        entered_ms={state.name: int(entered[state]) for state in ExecutionState if entered[state]},
        io=graph.figures.of_subtask(vertex, subtask),
        earlier=tuple(_ended_attempt(subtask, each) for each in history if each.attempt < attempt),
    )


def _ended_attempt(subtask: int, ended: EndedAttempt) -> SubtaskView:
    return SubtaskView(
        subtask=subtask,
        state=ended.state,
        attempt=ended.attempt,
        task_manager=ended.task_manager,
        entered_ms={ExecutionState.DEPLOYING.name: ended.deployed_ms, ended.state.name: ended.ended_ms},
    )


def progress_of_running(
    graph: ExecutionGraph, progress: Mapping[RegionIndex, TaskProgress]
) -> dict[RegionIndex, TaskProgress]:
    """What is known of attempts that run; of others it is of no use any more."""
    return {
        region: item
        for region, item in progress.items()
        if graph.is_current(item.attempt) and graph.state_of(region) is ExecutionState.RUNNING
    }


def job_result(scheduler: DefaultScheduler) -> JobResult:
    """How a job that has ended, ended."""
    state, graph = scheduler.state, scheduler.topology.graph
    assert state.status.is_globally_terminal, "only a job that has ended has a result"
    done = [commit for commit in state.intended if commit.commit_id in state.committed]
    return JobResult(
        job_id=graph.job_id,
        name=graph.name,
        status=state.status,
        start_time_ms=min(state.timestamps_ms.values()),
        end_time_ms=state.timestamps_ms[state.status.value],
        failure=state.failure,
        sinks=tuple(
            CommittedSink(
                function=commit.function,
                target=commit.target,
                mode=commit.mode,
                files=len(commit.files) + sum(len(part.files) for part in commit.parts),
                rows=commit.rows,
                size_bytes=commit.size_bytes,
                told=state.told.get(commit.commit_id, ""),
            )
            for commit in done
            if commit.format != RESULT_FORMAT
        ),
        restarts=state.restarts,
        returned=tuple(
            ReturnedRows(function=commit.function, sha256=commit.target, rows=commit.rows, size_bytes=commit.size_bytes)
            for commit in done
            if commit.format == RESULT_FORMAT
        ),
        owner=graph.owner,
    )


def _vertex_view(
    scheduler: DefaultScheduler, vertex: JobVertex, progress: Mapping[RegionIndex, TaskProgress]
) -> VertexView:
    logical, graph = scheduler.topology.by_vertex[vertex.id], scheduler.graph
    rows = slice(logical.offset, logical.offset + logical.parallelism)
    counts = graph.counts[logical.index]
    status = next(state for state in _STATUS_ORDER if counts[state])
    shown = [progress[r] for r in progress if rows.start <= r < rows.stop]
    io, lacking = graph.figures.of_vertex(vertex)
    return VertexView(
        id=vertex.id,
        name=vertex.name,
        functions=tuple(function.name for function in vertex.functions),
        kinds=tuple(function.kind.value for function in vertex.functions),
        parallelism=vertex.parallelism,
        status=status,
        tasks={state.name: int(counts[state]) for state in ExecutionState if counts[state]},
        attempts=int(graph.attempt[rows].max()) + 1,
        start_time_ms=_first_deployed(graph, logical),
        end_time_ms=int(graph.entered_ms[status, rows].max()) if status.is_terminal else -1,
        progress=tuple(shown[:PROGRESS_PER_VERTEX_MAX]),
        io=io,
        io_lacking=lacking,
        first_region=logical.offset,
        is_script=vertex.functions[0].is_script,
    )


def _first_deployed(graph: ExecutionGraph, logical: LogicalRegion) -> int:
    times = graph.entered_ms[ExecutionState.DEPLOYING, logical.offset : logical.offset + logical.parallelism]
    deployed = times[times > 0]
    return int(deployed.min()) if len(deployed) else -1
