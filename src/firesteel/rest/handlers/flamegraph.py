"""Flame graphs of what runs: of the Python of attempts, and of the JVMs that work for them."""

import asyncio

from firesteel.model import options
from firesteel.model.ids import RegionAttemptID, RegionIndex
from firesteel.model.inquiries import InquiryRefused, SampleStacks, StacksSampled
from firesteel.model.refusals import NoAnswer, UnknownTaskManager
from firesteel.model.stacks import SampledStack, StackOrder
from firesteel.model.states import ExecutionState
from firesteel.model.views import SubtaskView, VertexView
from firesteel.rest.call import Call, Query
from firesteel.rest.errors import RestError
from firesteel.rest.flamegraphs import FULL, TYPES, flame_graph, flame_type
from firesteel.rest.queries import natural
from firesteel.rest.schema.vertices import VertexFlameGraph
from firesteel.rest.subtasks import subtasks_in_turns
from firesteel.runtime.client import INQUIRY_LIMIT_S

NOTHING_RUNS, SWITCHED_OFF = -1, -2
"""Times of graphs that are none."""

SUBTASKS_MAX = 8
"""Running subtasks of a vertex that are looked at, the first ones."""

ASKED = (
    Query("type", "Samples that computed, waited, or all.", flame_type, FULL, {"enum": list(TYPES)}),
    Query("subtaskindex", "Of one subtask; without it, of the first that run.", natural, None, {"type": "integer"}),
)


async def of_vertex(call: Call) -> VertexFlameGraph:
    """Answers when it is made: a graph that is young enough at once, else after all looks."""
    vertex, config = await call.vertex(), call.services.config
    if not config.get_option(options.FLAMEGRAPH_ENABLED):
        return VertexFlameGraph(SWITCHED_OFF)
    index, kept = call.query["subtaskindex"], call.services.samples
    key = (call.job_id, vertex.id, -1 if index is None else index)
    async with call.services.sampling:
        found = kept.get(key, call.now_ms - config.get_option(options.FLAMEGRAPH_REFRESH))
        if found is None:
            running = await _running(call, vertex, index)
            if not running:
                return VertexFlameGraph(NOTHING_RUNS)
            stacks = await _sampled(call, vertex, running)
            kept.put(key, call.now_ms, stacks)
            found = (call.now_ms, stacks)
    return VertexFlameGraph(found[0], flame_graph(found[1], call.query["type"]))


async def _running(call: Call, vertex: VertexView, index: int | None) -> list[SubtaskView]:
    found: list[SubtaskView] = []
    chosen = None if index is None else [range(index, index + 1)]
    async for subtasks in subtasks_in_turns(call, vertex, chosen):
        found += [each for each in subtasks if each.state is ExecutionState.RUNNING and each.task_manager is not None]
        if len(found) >= SUBTASKS_MAX:
            break
    return found[:SUBTASKS_MAX]


async def _sampled(call: Call, vertex: VertexView, running: list[SubtaskView]) -> tuple[SampledStack, ...]:
    """Raises RestError where nobody answers."""
    answers = await asyncio.gather(*(_ask(call, vertex, each) for each in running))
    stacks = tuple(stack for answer in answers if isinstance(answer, StacksSampled) for stack in answer.stacks)
    refusals = [answer.reason for answer in answers if isinstance(answer, InquiryRefused)]
    if not stacks and refusals:
        raise RestError(400, refusals[0])
    return stacks


async def _ask(call: Call, vertex: VertexView, subtask: SubtaskView) -> object:
    config = call.services.config
    samples, delay_ms = config.get_option(options.FLAMEGRAPH_SAMPLES), config.get_option(options.FLAMEGRAPH_DELAY)
    region = RegionIndex(vertex.first_region + subtask.subtask)
    order = StackOrder(
        attempt=RegionAttemptID(call.job_id, region, subtask.attempt),
        samples=samples,
        delay_ms=delay_ms,
        depth=config.get_option(options.FLAMEGRAPH_DEPTH),
    )
    assert subtask.task_manager is not None, "what runs runs somewhere"
    limit_s = INQUIRY_LIMIT_S + samples * delay_ms / 1_000
    try:
        return await call.gateway.ask_task_manager(subtask.task_manager, SampleStacks(order=order), limit_s)
    except (UnknownTaskManager, NoAnswer) as error:
        return InquiryRefused(reason=str(error))
