"""A job's vertices, their subtasks and attempts, and what Spark keeps no figures of."""

from collections.abc import Iterable, Sequence

from firesteel.model.states import ExecutionState
from firesteel.model.tasks import IOMetrics
from firesteel.model.views import SubtaskView, VertexView
from firesteel.rest.call import Call
from firesteel.rest.errors import not_found
from firesteel.rest.handlers.jobs import all_states, io_info, io_metrics
from firesteel.rest.joblines import elapsed_ms
from firesteel.rest.schema import vertices as v
from firesteel.rest.schema.jobs import IOMetricsInfo

UNASSIGNED = "(unassigned)"
"""Flink's word for the worker of a subtask that has none."""

_ENDED = ("FINISHED", "CANCELED", "FAILED")
_BEFORE_THE_END = ("CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING")


async def vertex(call: Call) -> v.JobVertexDetailsInfo:
    found, now_ms = await call.vertex(), call.now_ms
    subtasks = await call.gateway.request_subtasks(call.job_id, found)
    return v.JobVertexDetailsInfo(
        id=found.id,
        name=found.name,
        parallelism=found.parallelism,
        max_parallelism=found.parallelism,
        now=now_ms,
        subtasks=[_details(each, now_ms) for each in subtasks],
        aggregated=_aggregated(subtasks, now_ms),
    )


async def subtask(call: Call) -> v.SubtaskDetails:
    return _details(await found_subtask(call), call.now_ms)


async def attempt(call: Call) -> v.SubtaskDetails:
    """Also one before the last, as far as it was deployed and is kept."""
    return _details(await _attempt(call), call.now_ms)


async def attempt_accumulators(call: Call) -> v.SubtaskAttemptAccumulators:
    found = await _attempt(call)
    identity = f"{call.id('vertexid')}_{found.subtask}_{found.attempt}"
    return v.SubtaskAttemptAccumulators(subtask=found.subtask, attempt=found.attempt, id=identity)


async def subtask_times(call: Call) -> v.SubtasksTimesInfo:
    found, now_ms = await call.vertex(), call.now_ms
    subtasks = await call.gateway.request_subtasks(call.job_id, found)
    times = [
        v.SubtaskTimeInfo(each.subtask, _worker(each), _duration_ms(each, now_ms), all_states(each.entered_ms))
        for each in subtasks
    ]
    return v.SubtasksTimesInfo(found.id, found.name, now_ms, times)


async def vertex_task_managers(call: Call) -> v.JobVertexTaskManagersInfo:
    found, now_ms = await call.vertex(), call.now_ms
    by_worker: dict[str, list[SubtaskView]] = {}
    for each in await call.gateway.request_subtasks(call.job_id, found):
        by_worker.setdefault(_worker(each), []).append(each)
    workers = [_on_worker(found, name, subtasks, now_ms) for name, subtasks in by_worker.items()]
    return v.JobVertexTaskManagersInfo(found.id, found.name, now_ms, workers)


async def back_pressure(call: Call) -> v.JobVertexBackPressureInfo:
    """Spark pulls, and nobody measures who waits for whom."""
    await call.vertex()
    return v.JobVertexBackPressureInfo("deprecated")


async def accumulators(call: Call) -> v.UserAccumulators:
    return v.UserAccumulators(id=(await call.vertex()).id)


async def subtasks_accumulators(call: Call) -> v.SubtasksAllAccumulatorsInfo:
    found = await call.vertex()
    subtasks = [
        v.SubtaskAccumulatorsInfo(subtask=each.subtask, attempt=each.attempt, endpoint=_worker(each))
        for each in await call.gateway.request_subtasks(call.job_id, found)
    ]
    return v.SubtasksAllAccumulatorsInfo(id=found.id, parallelism=found.parallelism, subtasks=subtasks)


async def flame_graph(call: Call) -> v.VertexFlameGraph:
    await call.vertex()
    return v.VertexFlameGraph(call.now_ms)


async def found_subtask(call: Call) -> SubtaskView:
    """The subtask that the path names. Raises RestError 404."""
    found = await call.vertex()
    index = call.number("subtaskindex")
    subtasks = await call.gateway.request_subtasks(call.job_id, found)
    if index >= len(subtasks):
        raise not_found(f"Subtask {index} of {found.name} is not known.")
    return subtasks[index]


async def _attempt(call: Call) -> SubtaskView:
    found, wanted = await found_subtask(call), call.number("attempt")
    for each in (found, *found.earlier):
        if each.attempt == wanted:
            return each
    known = ", ".join(str(each.attempt) for each in (*found.earlier, found))
    raise not_found(f"Attempt {wanted} of subtask {found.subtask} is not known: these are: {known}.")


def _worker(subtask: SubtaskView) -> str:
    return subtask.task_manager or UNASSIGNED


def _start_ms(subtask: SubtaskView) -> int:
    return subtask.entered_ms.get(ExecutionState.DEPLOYING.name, -1)


def _end_ms(subtask: SubtaskView) -> int:
    return max((subtask.entered_ms.get(name, -1) for name in _ENDED), default=-1)


def _duration_ms(subtask: SubtaskView, now_ms: int) -> int:
    return elapsed_ms(_start_ms(subtask), _end_ms(subtask), now_ms)


def _state_durations(subtask: SubtaskView, now_ms: int) -> dict[str, int]:
    """Milliseconds in each state; -1 for those it was never in, and those it ended in."""
    durations = dict.fromkeys((state.name for state in ExecutionState), -1)
    entered = sorted(subtask.entered_ms.items(), key=lambda item: item[1])
    left = [at_ms for _, at_ms in entered[1:]] + [now_ms]
    for (name, at_ms), until_ms in zip(entered, left, strict=False):
        if name not in _ENDED:
            durations[name] = max(0, until_ms - at_ms)
    return durations


def _details(subtask: SubtaskView, now_ms: int) -> v.SubtaskDetails:
    return v.SubtaskDetails(
        subtask=subtask.subtask,
        status=subtask.state.name,
        attempt=subtask.attempt,
        endpoint=_worker(subtask),
        start_time=_start_ms(subtask),
        end_time=_end_ms(subtask),
        duration=_duration_ms(subtask, now_ms),
        metrics=io_info(subtask.io),
        taskmanager_id=_worker(subtask),
        status_duration=_state_durations(subtask, now_ms),
        start_time_of_old=_start_ms(subtask),
    )


def _on_worker(vertex: VertexView, name: str, subtasks: Sequence[SubtaskView], now_ms: int) -> v.VertexTaskManager:
    counts: dict[str, int] = {}
    for each in subtasks:
        counts[each.state.name] = counts.get(each.state.name, 0) + 1
    start_ms = min((start for each in subtasks if (start := _start_ms(each)) >= 0), default=-1)
    ends_ms = [_end_ms(each) for each in subtasks]
    end_ms = -1 if -1 in ends_ms else max(ends_ms)
    return v.VertexTaskManager(
        endpoint=name,
        status=next((each.state.name for each in subtasks if not each.state.is_terminal), subtasks[0].state.name),
        start_time=start_ms,
        end_time=end_ms,
        duration=elapsed_ms(start_ms, end_ms, now_ms),
        metrics=io_metrics(vertex) if len(subtasks) == vertex.parallelism else _together(subtasks),
        status_counts=all_states(counts),
        taskmanager_id=name,
        aggregated=_aggregated(subtasks, now_ms),
    )


def _together(subtasks: Sequence[SubtaskView]) -> IOMetricsInfo:
    """Figures of some of a vertex's subtasks."""
    names = IOMetrics.__struct_fields__
    values = {name: [int(getattr(each.io, name)) for each in subtasks] for name in names}
    sums = {name: sum(value for value in found if value >= 0) for name, found in values.items()}
    return io_info(IOMetrics(**sums), [name for name, found in values.items() if min(found) < 0])


def _aggregated(subtasks: Sequence[SubtaskView], now_ms: int) -> v.AggregatedTaskDetailsInfo:
    durations = [_state_durations(each, now_ms) for each in subtasks]
    figures = {
        "read-bytes": [each.io.bytes_read for each in subtasks],
        "read-records": [each.io.rows_read for each in subtasks],
        "write-bytes": [each.io.bytes_written for each in subtasks],
        "write-records": [each.io.rows_written for each in subtasks],
        "accumulated-backpressured-time": [0],
        "accumulated-idle-time": [0],
        "accumulated-busy-time": [0],
    }
    return v.AggregatedTaskDetailsInfo(
        metrics={name: _statistics(values) for name, values in figures.items()},
        status_duration={name: _statistics(each[name] for each in durations) for name in _BEFORE_THE_END},
    )


def _statistics(values: Iterable[int]) -> v.MetricStatistics:
    """Statistics of what is not below 0; zeros of nothing."""
    known = sorted(value for value in values if value >= 0) or [0]

    def quantile(share: float) -> int:
        return known[min(len(known) - 1, int(share * len(known)))]

    return v.MetricStatistics(
        min=known[0],
        max=known[-1],
        avg=sum(known) // len(known),
        sum=sum(known),
        median=quantile(0.5),
        p25=quantile(0.25),
        p75=quantile(0.75),
        p95=quantile(0.95),
    )
