"""What firesteel's dashboard asks beside Flink's routes: the cluster's events, who waits, who one is, attempts."""

from collections.abc import AsyncIterator, Sequence

import msgspec
from starlette.responses import Response, StreamingResponse

from firesteel.model.ids import JobID
from firesteel.model.states import ExecutionState
from firesteel.model.views import SubtaskView
from firesteel.rest.broadcast import queue_info
from firesteel.rest.call import Call
from firesteel.rest.codecs import checked_id
from firesteel.rest.errors import RestError
from firesteel.rest.eventbuffer import EventBuffer, event
from firesteel.rest.handlers.cluster import leader
from firesteel.rest.schema import events as e
from firesteel.rest.subtasks import subtasks_in_turns

STREAMS_MAX = 1_000
"""Streams of events that are open at a time."""

KEEP_ALIVE_S = 15.0
"""Time after which a stream that has nothing to tell shows that it is there."""

ATTEMPTS_MAX = 20_000
"""Attempts that one answer tells."""

QUEUE_MAX = 1_000
"""Waiting jobs that one answer names."""

_ENDED = tuple(state.name for state in ExecutionState if state.is_terminal)


async def events(call: Call) -> Response:
    """Server-sent events of the whole cluster, or of one job."""
    job_id = JobID(checked_id(call.query["job"], "job")) if call.query["job"] else None
    if job_id is not None:
        await call.gateway.request_job_summary(job_id)
    if call.services.read_only:
        raise RestError(405, call.services.read_only)
    if call.services.broadcast.readers >= STREAMS_MAX:
        raise RestError(429, f"{STREAMS_MAX} streams of events are open: close one.")
    buffer = await call.services.broadcast.current()
    stream = _stream(call, buffer, job_id)
    return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


async def _stream(call: Call, buffer: EventBuffer, job_id: JobID | None) -> AsyncIterator[bytes]:
    """Ends when another master leads, or this endpoint stops: who listens connects again, with its last event's id."""
    broadcast, last = call.services.broadcast, call.request.headers.get("last-event-id", "")
    known = buffer.place(last)
    number = buffer.newest if known is None else known
    with broadcast.reading():
        yield b"id: %s\n%s" % (buffer.id(number), event("leader", msgspec.json.encode(await _leading(call))))
        if known is None and last:
            yield event("resync", b"{}")
        while broadcast.is_current(buffer) and not call.services.waits.is_stopping:
            if buffer.has_outrun(number):
                number = buffer.newest
                yield b"id: %s\n%s" % (buffer.id(number), event("resync", b"{}"))
            data, number = buffer.batch(number, job_id)
            if data := data or await _quiet(call):
                yield data


async def _quiet(call: Call) -> bytes:
    """Wait until there may be more; a sign of life when that takes long."""
    try:
        async with call.services.waits.limited(KEEP_ALIVE_S):
            await call.services.broadcast.more()
    except TimeoutError:
        return b":\n\n"
    return b""


async def _leading(call: Call) -> e.Leading:
    known = await leader(call)
    return e.Leading(name=known.name, rest_address=known.rest_address, epoch=known.epoch, now=call.now_ms)


async def queue(call: Call) -> e.QueueInfo:
    """The line for slots; it is worked out anew ten times a second at most, whoever asks."""
    return queue_info(await call.gateway.request_queue(), QUEUE_MAX)


async def user(call: Call) -> e.UserInfo:
    roles = sorted(role.value for role in call.user.roles)
    return e.UserInfo(name=call.user.name, roles=roles, needs_token=not call.services.users_are_anybody)


async def attempts(call: Call) -> e.AttemptsInfo:
    """Every attempt of a job, or of one of its vertices, as far as they are kept and one answer tells them."""
    view, wanted = await call.job(), call.query["vertex"]
    rows: list[e.AttemptRow] = []
    is_truncated = False
    for place, vertex in enumerate(view.vertices):
        told = 0
        if wanted in ("", vertex.id) and len(rows) <= ATTEMPTS_MAX:
            async for subtasks in subtasks_in_turns(call, vertex):
                rows += attempt_rows(place, subtasks)
                told += len(subtasks)
                if len(rows) > ATTEMPTS_MAX:
                    break
            is_truncated |= told < vertex.parallelism
    return e.AttemptsInfo(
        now=call.now_ms,
        vertices=[vertex.id for vertex in view.vertices],
        attempts=rows[:ATTEMPTS_MAX],
        truncated=is_truncated or len(rows) > ATTEMPTS_MAX,
    )


def attempt_rows(vertex: int, subtasks: Sequence[SubtaskView]) -> list[e.AttemptRow]:
    """Of the vertex at this place: all attempts of some of its subtasks."""
    return [_row(vertex, each) for subtask in subtasks for each in (*subtask.earlier, subtask)]


def _row(vertex: int, attempt: SubtaskView) -> e.AttemptRow:
    entered, io = attempt.entered_ms, attempt.io
    return e.AttemptRow(
        vertex=vertex,
        subtask=attempt.subtask,
        attempt=attempt.attempt,
        state=attempt.state.name,
        taskmanager=attempt.task_manager or "",
        deployed=entered.get("DEPLOYING", -1),
        running=entered.get("RUNNING", -1),
        ended=max((entered.get(name, -1) for name in _ENDED), default=-1),
        read_records=io.rows_read,
        read_bytes=io.bytes_read,
        write_records=io.rows_written,
        write_bytes=io.bytes_written,
        followed=attempt.followed_ms,
        spark_time=io.spark_ms,
        memory_peak=io.memory_peak_bytes,
    )
