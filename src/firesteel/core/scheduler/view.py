"""Frozen views of a job, made from the columns and the journal's state: what others see of a scheduler."""

from collections.abc import Mapping

import msgspec
import numpy as np

from firesteel.core.checkpoint.claims import ended_claim
from firesteel.core.execution.graph import ExecutionGraph
from firesteel.core.execution.topology import LogicalRegion
from firesteel.core.journal.endedattempts import EndedAttempt
from firesteel.core.journal.journal import JobState
from firesteel.core.scheduler.commit import SinkCommitter, undeleted
from firesteel.core.scheduler.executions import Executions
from firesteel.model.branches import parent_of
from firesteel.model.checkpoints import CheckpointSettings, CheckpointsView
from firesteel.model.ids import JobVertexID, RegionIndex
from firesteel.model.jobgraph import FunctionKind, JobVertex
from firesteel.model.secrets import redacted_text, redacted_values
from firesteel.model.splits import places_read
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.tasks import RESULT_FORMAT, InputPlace, SinkCommit, TaskProgress
from firesteel.model.views import (
    EVERY_SUBTASK,
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


_STATE_NAMES = tuple(state.name for state in ExecutionState)

BEFORE_END = {
    JobStatus.FINISHED: JobStatus.RUNNING,
    JobStatus.CANCELED: JobStatus.CANCELLING,
    JobStatus.FAILED: JobStatus.FAILING,
}
"""What a job is shown as that has ended, as long as its result is not stored."""


class JobViews:
    """What others may look at. Nothing here changes anything, and what it gives does not change either."""

    def __init__(self, executions: Executions, committer: SinkCommitter, checkpoints: CheckpointSettings) -> None:
        self._executions, self._committer, self._checkpoints = executions, committer, checkpoints

    @property
    def created_ms(self) -> int:
        """When the job began to exist."""
        return self._executions.state.created_ms

    @property
    def instant_ms(self) -> int:
        """The present for all of the job's attempts; 0 before the first is deployed."""
        return self._executions.state.instant_ms

    @property
    def intended(self) -> tuple[SinkCommit, ...]:
        """The commits that the job has announced."""
        return self._executions.state.intended

    def job(self, status: JobStatus, version: int) -> JobView:
        """The job as it is now, shown in `status`. Costs a pass over the vertices and the columns' timestamps."""
        executions = self._executions
        state, graph = executions.state, executions.topology.graph
        times_ms = _times_ms(executions, status)
        ended = times_ms.get(status.value, -1) if status.is_globally_terminal else -1
        producer = {dataset.id: dataset.producer for dataset in graph.datasets}
        running = executions.progress_of_running()
        vertices = tuple(_vertex_view(executions, vertex, running) for vertex in graph.vertices)
        return JobView(
            job_id=graph.job_id,
            name=graph.name,
            status=status,
            version=version,
            timestamps_ms=times_ms,
            status_history=tuple(each for each in state.status_history if each[0] in times_ms),
            start_time_ms=min(times_ms.values(), default=-1),
            end_time_ms=ended,
            reason=self._reason(status, running),
            regions=executions.topology.region_count - _spared(executions),
            restarts=state.restarts,
            vertices=vertices if ended < 0 else _with_subtasks(executions, vertices),
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
            directory=graph.environment.directory,
            branch_of=parent_of(graph.configuration),
            checkpoints=CheckpointsView(settings=self._checkpoints, history=state.checkpoints)
            if executions.is_stream
            else None,
        )

    def summary(self, status: JobStatus, version: int) -> JobSummary:
        """The job's line in an overview, in `status`. Costs a pass over the logical regions' counts."""
        executions = self._executions
        graph, times_ms = executions.topology.graph, _times_ms(executions, status)
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
            reason=self._reason(status, executions.progress_of_running()),
            tasks=_counted_tasks(executions),
            branch_of=parent_of(graph.configuration),
        )

    def subtasks(self, vertex_id: JobVertexID, chosen: range = EVERY_SUBTASK) -> tuple[SubtaskView, ...]:
        """The current attempts of a vertex's subtasks of these indices, as far as there are such, each with those before it.

        Costs 25 microseconds a subtask, and 7 for each attempt before: of a large vertex a part is to be asked for at a time.
        """
        return _subtask_views(self._executions, vertex_id, chosen)

    def result(self) -> JobResult:
        """How a job that has ended, ended."""
        executions = self._executions
        state, graph = executions.state, executions.topology.graph
        assert state.status.is_globally_terminal, "only a job that has ended has a result"
        done = [commit for commit in state.intended if commit.commit_id in state.committed]
        inputs = [each for vertex in graph.vertices for each in _inputs(executions, vertex)]
        return JobResult(
            job_id=graph.job_id,
            name=graph.name,
            status=state.status,
            start_time_ms=min(state.timestamps_ms.values()),
            end_time_ms=state.timestamps_ms[state.status.value],
            failure=state.failure,
            sinks=tuple(_committed(commit, state) for commit in done if commit.format != RESULT_FORMAT),
            restarts=state.restarts,
            returned=tuple(
                ReturnedRows(
                    function=commit.function, sha256=commit.target, rows=commit.rows, size_bytes=commit.size_bytes
                )
                for commit in done
                if commit.format == RESULT_FORMAT
            ),
            owner=graph.owner,
            retained=state.retained,
            tasks=_counted_tasks(executions),
            reads=tuple(dict.fromkeys(each.place for each in inputs)),
            read_columns={each.place: each.columns for each in inputs if each.columns},
        )

    @property
    def retained(self) -> str:
        """Where the last checkpoint of a job that has ended stays; empty where none does."""
        return self._executions.state.retained

    def undeleted(self) -> tuple[str, ...]:
        """What is of no use once the job has ended."""
        state, graph = self._executions.state, self._executions.topology.graph
        return (*undeleted(state, graph), *ended_claim(graph, state))

    def returned_blobs(self) -> tuple[str, ...]:
        """Blobs with rows that the job is going to return."""
        staged = (sink for outcome in self._executions.state.finished.values() for sink in outcome.sinks)
        return tuple(sink.target for sink in staged if sink.format == RESULT_FORMAT)

    def _reason(self, status: JobStatus, running: Mapping[RegionIndex, TaskProgress]) -> str:
        """Why it waits, or was cancelled."""
        state = self._executions.state
        if state.failure is not None and status in (JobStatus.CANCELLING, JobStatus.CANCELED):
            return state.failure.shown_headline()
        if state.outage is not None and status is JobStatus.RESTARTING:
            return f"{state.outage.told}; what has failed of it runs again"
        waits = [item.waits_for for item in running.values() if item.waits_for]
        reasons = [(len(self._executions.pool.waiting), "a slot"), (len(waits), next(iter(waits), ""))]
        commits = self._committer.waits(self._executions.uncommitted()) if status is JobStatus.RUNNING else []
        return ", ".join([*(_waiting(count, what) for count, what in reasons if count), *commits])


def _with_subtasks(executions: Executions, vertices: tuple[VertexView, ...]) -> tuple[VertexView, ...]:
    """For the archive: of a job that has ended this is what stays. As long as there is room."""
    room, found = SUBTASKS_ARCHIVED_MAX, list[VertexView]()
    for vertex in vertices:
        kept = _subtask_views(executions, vertex.id, range(room))
        room -= len(kept)
        found.append(msgspec.structs.replace(vertex, subtasks=kept))
    return tuple(found)


def _committed(commit: SinkCommit, state: JobState) -> CommittedSink:
    """What a sink has written; nothing, when it was ignored."""
    written = CommittedSink(
        function=commit.function,
        target=commit.target,
        mode=commit.mode,
        files=len(commit.files) + sum(len(part.files) for part in commit.parts),
        rows=commit.rows,
        size_bytes=commit.size_bytes,
        note=state.notes.get(commit.commit_id, ""),
        columns=commit.columns,
    )
    if commit.commit_id not in state.ignored:
        return written
    return msgspec.structs.replace(written, files=0, rows=0, size_bytes=0)


def _counted_tasks(executions: Executions) -> dict[str, int]:
    """Subtasks of all vertices together by state. Costs a pass over the logical regions' counts."""
    weights = np.array([len(logical.vertices) for logical in executions.topology.logical])
    counts = weights @ executions.graph.counts
    counts[ExecutionState.FINISHED] -= sum(
        (logical.parallelism - subtasks) * len(logical.vertices) for logical, subtasks in _fewer(executions)
    )
    return {each.name: int(counts[each]) for each in ExecutionState if counts[each]}


def _fewer(executions: Executions) -> list[tuple[LogicalRegion, int]]:
    """Logical regions whose work fewer subtasks do than might, with their number: the others have finished with nothing."""
    return [(executions.topology.logical_of(first), count) for first, count in executions.state.subtasks.items()]


def _spared(executions: Executions) -> int:
    return sum(logical.parallelism - subtasks for logical, subtasks in _fewer(executions))


def _subtask_views(executions: Executions, vertex_id: JobVertexID, chosen: range) -> tuple[SubtaskView, ...]:
    graph, logical = executions.graph, executions.topology.by_vertex[vertex_id]
    (vertex,) = (each for each in logical.vertices if each.id == vertex_id)
    shown = range(executions.subtasks_of(logical))[chosen.start : chosen.stop]
    regions = slice(logical.offset + shown.start, logical.offset + shown.stop)
    states, attempts = graph.state[regions].tolist(), graph.attempt[regions].tolist()
    times_ms, ios = (
        graph.entered_ms[:, regions].T.tolist(),
        graph.figures.of_subtasks(vertex, slice(shown.start, shown.stop)),
    )
    return tuple(
        SubtaskView(
            subtask=subtask,
            state=ExecutionState(state),
            attempt=attempt,
            task_manager=graph.worker_of(logical.offset + subtask),
            entered_ms={name: at_ms for name, at_ms in zip(_STATE_NAMES, entered_ms, strict=True) if at_ms},
            io=io,
            earlier=_earlier(executions, logical, subtask, attempt),
        )
        for subtask, state, attempt, entered_ms, io in zip(shown, states, attempts, times_ms, ios, strict=True)
    )


def _times_ms(executions: Executions, status: JobStatus) -> dict[str, int]:
    """When the job came to its states; not to an end that is not shown yet."""
    hidden = {end.value for end in BEFORE_END} - {status.value}
    return {name: at_ms for name, at_ms in executions.state.timestamps_ms.items() if name not in hidden}


def _waiting(count: int, what: str) -> str:
    return f"1 region waits for {what}" if count == 1 else f"{count} regions wait for {what}"


def _earlier(executions: Executions, logical: LogicalRegion, subtask: int, attempt: int) -> tuple[SubtaskView, ...]:
    history = executions.state.history.get(RegionIndex(logical.offset + subtask), ())
    return tuple(_ended_attempt(subtask, each) for each in history if each.attempt < attempt)


def _ended_attempt(subtask: int, ended: EndedAttempt) -> SubtaskView:
    return SubtaskView(
        subtask=subtask,
        state=ended.state,
        attempt=ended.attempt,
        task_manager=ended.task_manager,
        entered_ms={ExecutionState.DEPLOYING.name: ended.deployed_ms, ended.state.name: ended.ended_ms},
        followed_ms=ended.followed_ms,
    )


def _vertex_view(executions: Executions, vertex: JobVertex, progress: Mapping[RegionIndex, TaskProgress]) -> VertexView:
    logical, graph = executions.topology.by_vertex[vertex.id], executions.graph
    subtasks = executions.subtasks_of(logical)
    rows = slice(logical.offset, logical.offset + subtasks)
    counts = graph.counts[logical.index]
    if subtasks < logical.parallelism:
        counts = np.bincount(graph.state[rows], minlength=len(ExecutionState))
    status = next(state for state in _STATUS_ORDER if counts[state])
    shown = [progress[r] for r in progress if rows.start <= r < rows.stop]
    io, lacking = graph.figures.of_vertex(vertex)
    return VertexView(
        id=vertex.id,
        name=vertex.name,
        functions=tuple(function.name for function in vertex.functions),
        kinds=tuple(function.kind.value for function in vertex.functions),
        parallelism=subtasks,
        max_parallelism=vertex.parallelism,
        status=status,
        tasks={state.name: int(counts[state]) for state in ExecutionState if counts[state]},
        attempts=int(graph.attempt[rows].max()) + 1,
        start_time_ms=_first_deployed(graph, logical),
        end_time_ms=int(graph.entered_ms[status, rows].max()) if status.is_terminal else -1,
        progress=tuple(shown[:PROGRESS_PER_VERTEX_MAX]),
        io=io,
        io_lacking=lacking,
        io_uncounted=graph.figures.uncounted(vertex, graph.state[logical.rows] == ExecutionState.FINISHED),
        first_region=logical.offset,
        is_script=vertex.functions[0].is_script,
        labels=vertex.resources.labels,
        reads=_inputs(executions, vertex),
    )


def _inputs(executions: Executions, vertex: JobVertex) -> tuple[InputPlace, ...]:
    """What its sources declare to read, and what the first of its subtasks was seen to read: each once."""
    found: list[InputPlace] = []
    if any(each.splits is not None for each in vertex.functions):  # seldom, and this is made at every look
        values = redacted_values(executions.topology.graph.parameters)
        declared = ((each.name, each.splits) for each in vertex.functions if each.kind is FunctionKind.SOURCE)
        found += [InputPlace(name, at) for name, splits in declared if splits for at in places_read(splits, values)]
    outcome = executions.partitions.outcomes.get(RegionIndex(executions.topology.by_vertex[vertex.id].offset))
    if outcome is not None:
        mine = {each.name for each in vertex.functions}
        found += [each for each in outcome.reads if each.function in mine]
    told = (msgspec.structs.replace(each, place=redacted_text(each.place)) for each in found)
    return tuple({(each.function, each.place): each for each in told}.values())


def _first_deployed(graph: ExecutionGraph, logical: LogicalRegion) -> int:
    times = graph.entered_ms[ExecutionState.DEPLOYING, logical.rows]
    deployed = times[times > 0]
    return int(deployed.min()) if len(deployed) else -1
