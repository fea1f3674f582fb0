"""What a job's journal says has happened, as lines with their times."""

from collections.abc import Iterator

from firesteel.model.checkpoints import Checkpoint, CheckpointStatus
from firesteel.model.views import ExceptionEntry, JobView
from firesteel.rest.call import Call
from firesteel.rest.schema.journal import JournalEvent, JournalInfo

EVENTS_MAX = 1_000
"""Events of one answer, the newest ones."""

WORDS_MAX = 500
"""Characters of a line: what user code raises may be long."""


async def of_job(call: Call) -> JournalInfo:
    """Oldest first: states, vertices, failures, checkpoints and savepoints, as far as the journal's state keeps them: of states
    that were entered more than once the last time, the last failures, the last checkpoints."""
    view = (await call.job()).redacted()
    found = sorted(_events(view), key=lambda event: event.time)
    return JournalInfo(events=found[-EVENTS_MAX:], truncated=len(found) > EVENTS_MAX)


def _events(view: JobView) -> Iterator[JournalEvent]:
    for status, at_ms in view.timestamps_ms.items():
        if at_ms > 0:
            yield JournalEvent(at_ms, "state", status)
    for vertex in view.vertices:
        if vertex.start_time_ms > 0:
            yield JournalEvent(vertex.start_time_ms, "deployed", f"{vertex.name} was deployed")
        if vertex.end_time_ms > 0:
            yield JournalEvent(vertex.end_time_ms, vertex.status.name.lower(), f"{vertex.name}: {vertex.status.name}")
    for entry in view.exceptions:
        yield JournalEvent(entry.timestamp_ms, "failure", _failure(view, entry))
    for checkpoint in view.checkpoints.history.newest if view.checkpoints is not None else ():
        if checkpoint.ended_ms > 0:
            yield JournalEvent(checkpoint.ended_ms, *_checkpoint(checkpoint))


def _failure(view: JobView, entry: ExceptionEntry) -> str:
    """In one line: which attempt, where, of what."""
    vertex = next(
        (
            each
            for each in view.vertices
            if 0 <= entry.region - each.first_region < each.parallelism and entry.region >= 0
        ),
        None,
    )
    who = (
        f"{vertex.name} ({entry.region - vertex.first_region + 1}/{vertex.parallelism}) #{entry.attempt}"
        if vertex is not None
        else "the job"
    )
    where = f" on {entry.task_manager}" if entry.task_manager is not None else ""
    return f"{who} failed{where}: {' '.join(entry.failure.shown_headline().split())}"[:WORDS_MAX]


def _checkpoint(checkpoint: Checkpoint) -> tuple[str, str]:
    kind = "savepoint" if checkpoint.savepoint else "checkpoint"
    if checkpoint.status is CheckpointStatus.FAILED:
        return "failure", f"{kind} {checkpoint.checkpoint_id} failed: {checkpoint.failure}"[:WORDS_MAX]
    place = f" in {checkpoint.savepoint}" if checkpoint.savepoint else ""
    return kind, f"{kind} {checkpoint.checkpoint_id}{place}"
