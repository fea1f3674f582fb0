"""A job's vertices, their subtasks and attempts, and what Spark keeps no figures of."""

from firesteel.model.views import SubtaskView, VertexView
from firesteel.rest.call import Call
from firesteel.rest.errors import not_found
from firesteel.rest.handlers.aggregates import (
    Aggregate,
    OnWorker,
    duration_ms,
    end_ms,
    start_ms,
    state_durations,
    worker_name,
)
from firesteel.rest.handlers.jobs import all_states, io_info
from firesteel.rest.metrics.backlog import backlog_level, backlog_ratio
from firesteel.rest.readers import readers
from firesteel.rest.schema import vertices as v
from firesteel.rest.subtasks import subtasks_in_turns, subtasks_of


async def vertex(call: Call) -> v.JobVertexDetailsInfo:
    found, now_ms = await call.vertex(), call.now_ms
    details, aggregate = list[v.SubtaskDetails](), Aggregate(now_ms)
    async for subtasks in subtasks_in_turns(call, found):
        for each in subtasks:
            details.append(_details(each, now_ms))
            aggregate.add(each)
    return v.JobVertexDetailsInfo(
        id=found.id,
        name=found.name,
        parallelism=found.parallelism,
        max_parallelism=max(found.max_parallelism, found.parallelism),
        now=now_ms,
        subtasks=details,
        aggregated=aggregate.info(),
    )


async def subtask(call: Call) -> v.SubtaskDetails:
    return _details((await found_subtask(call))[1], call.now_ms)


async def attempt(call: Call) -> v.SubtaskDetails:
    """Also one before the last, as far as it was deployed and is kept."""
    return _details((await found_attempt(call))[1], call.now_ms)


async def attempt_accumulators(call: Call) -> v.SubtaskAttemptAccumulators:
    found = (await found_attempt(call))[1]
    identity = f"{call.id('vertexid')}_{found.subtask}_{found.attempt}"
    return v.SubtaskAttemptAccumulators(subtask=found.subtask, attempt=found.attempt, id=identity)


async def subtask_times(call: Call) -> v.SubtasksTimesInfo:
    found, now_ms = await call.vertex(), call.now_ms
    times = [
        v.SubtaskTimeInfo(each.subtask, worker_name(each), duration_ms(each, now_ms), all_states(each.entered_ms))
        async for subtasks in subtasks_in_turns(call, found)
        for each in subtasks
    ]
    return v.SubtasksTimesInfo(found.id, found.name, now_ms, times)


async def vertex_task_managers(call: Call) -> v.JobVertexTaskManagersInfo:
    found, now_ms = await call.vertex(), call.now_ms
    by_worker: dict[str, OnWorker] = {}
    async for subtasks in subtasks_in_turns(call, found):
        for each in subtasks:
            name = worker_name(each)
            if name not in by_worker:
                by_worker[name] = OnWorker(name, now_ms)
            by_worker[name].add(each)
    is_reader = found.id in readers(await call.job())
    workers = [each.info(found, is_reader=is_reader) for each in by_worker.values()]
    return v.JobVertexTaskManagersInfo(found.id, found.name, now_ms, workers)


async def back_pressure(call: Call) -> v.JobVertexBackPressureInfo:
    """Of streams, how far their queries fall behind; in a batch job Spark pulls, and nobody measures who waits for whom."""
    found = await call.vertex()
    told = [(each.attempt, ratio) for each in found.progress if (ratio := backlog_ratio(each.queries)) is not None]
    if not told:
        return v.JobVertexBackPressureInfo(status="deprecated")
    return v.JobVertexBackPressureInfo(
        status="ok",
        level=backlog_level(max(ratio for _, ratio in told)),
        end_timestamp=call.now_ms,
        subtasks=[
            v.SubtaskBackPressureInfo(
                subtask=attempt.region - found.first_region,
                attempt=attempt.attempt,
                level=backlog_level(ratio),
                ratio=ratio,
            )
            for attempt, ratio in told
        ],
    )


async def accumulators(call: Call) -> v.UserAccumulators:
    return v.UserAccumulators(id=(await call.vertex()).id)


async def subtasks_accumulators(call: Call) -> v.SubtasksAllAccumulatorsInfo:
    found = await call.vertex()
    told = [
        v.SubtaskAccumulatorsInfo(subtask=each.subtask, attempt=each.attempt, endpoint=worker_name(each))
        async for subtasks in subtasks_in_turns(call, found)
        for each in subtasks
    ]
    return v.SubtasksAllAccumulatorsInfo(id=found.id, parallelism=found.parallelism, subtasks=told)


async def found_subtask(call: Call) -> tuple[VertexView, SubtaskView]:
    """The vertex and the subtask that the path names. Raises RestError 404."""
    found, index = await call.vertex(), call.number("subtaskindex")
    for each in await subtasks_of(call, found, range(index, index + 1)):
        return found, each
    raise not_found(f"Subtask {index} of {found.name} is not known.")


async def found_attempt(call: Call) -> tuple[VertexView, SubtaskView]:
    """The vertex and the attempt that the path names. Raises RestError 404."""
    (vertex, found), wanted = await found_subtask(call), call.number("attempt")
    for each in (found, *found.earlier):
        if each.attempt == wanted:
            return vertex, each
    known = ", ".join(str(each.attempt) for each in (*found.earlier, found))
    raise not_found(f"Attempt {wanted} of subtask {found.subtask} is not known: these are: {known}.")


def _details(subtask: SubtaskView, now_ms: int) -> v.SubtaskDetails:
    return v.SubtaskDetails(
        subtask=subtask.subtask,
        status=subtask.state.name,
        attempt=subtask.attempt,
        endpoint=worker_name(subtask),
        start_time=start_ms(subtask),
        end_time=end_ms(subtask),
        duration=duration_ms(subtask, now_ms),
        metrics=io_info(subtask.io),
        taskmanager_id=worker_name(subtask),
        status_duration=state_durations(subtask, now_ms),
        start_time_of_old=start_ms(subtask),
    )
