"""Subtasks of a large vertex, a few at a time: making twenty thousand views in one go would hold up all who ask this master."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from firesteel.model.views import SubtaskView, VertexView
from firesteel.rest.call import Call

SUBTASKS_A_TURN = 100
"""Views of subtasks that are made before others get their turn on the loop: about 2 ms, and 10 with all attempts before."""


async def subtasks_in_turns(
    call: Call, vertex: VertexView, chosen: Sequence[range] | None = None
) -> AsyncIterator[Sequence[SubtaskView]]:
    """The vertex's subtasks, or those of indices in `chosen`, in order, as far as they are known. Each is shown as it is when
    it is its turn."""
    for indices in (range(vertex.parallelism),) if chosen is None else chosen:
        for start in range(indices.start, min(indices.stop, vertex.parallelism), SUBTASKS_A_TURN):
            part = range(start, min(start + SUBTASKS_A_TURN, indices.stop))
            found = await subtasks_of(call, vertex, part)
            if not found:
                return  # more of this job is not kept
            yield found
            await asyncio.sleep(0)


async def subtasks_of(call: Call, vertex: VertexView, chosen: range) -> Sequence[SubtaskView]:
    """Subtasks of these indices. Of a job that has ended the view itself has those that are kept."""
    kept = vertex.subtasks[chosen.start : chosen.stop]
    return kept or await call.gateway.request_subtasks(call.job_id, vertex, chosen)
