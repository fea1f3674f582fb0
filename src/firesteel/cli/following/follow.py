"""Texts of a job's view for a person. Pure: views in, texts out."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from firesteel.cli.exits import FINISHED, JOB_FAILED
from firesteel.model.counts import counted
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.streams import QueryProgress
from firesteel.model.views import CommittedSink, ExceptionEntry, JobResult, JobView, VertexView

_TOLD = (
    ExecutionState.RUNNING,
    ExecutionState.FINISHED,
    ExecutionState.CANCELING,
    ExecutionState.CANCELED,
    ExecutionState.FAILED,
)
"""States worth a line where every change is one; the others last for milliseconds."""


class VertexProgress(msgspec.Struct, frozen=True):
    """Progress of a vertex, as texts; empty where nothing is known."""

    done: float = -1.0
    """Share of its Spark tasks that are done, from 0 to 1; -1 where nothing is known, and of a stream."""
    tasks: str = ""
    rows: str = ""
    rate: str = ""
    left: str = ""


def changes(previous: JobView | None, view: JobView) -> list[str]:
    """A line for each thing that is new in `view`."""
    lines: list[str] = []
    if previous is None or previous.status is not view.status:
        lines.append(f"{view.name} ({view.job_id[:8]}): {view.status.value}")
    if (why := _reason(view)) and (previous is None or _kind(_reason(previous)) != _kind(why)):
        lines.append(f"{view.name}: {why}")
    lines += [f"failed: {describe_failure(failure)}" for failure in new_failures(previous, view)]
    if previous is not None and view.restarts > previous.restarts:
        lines.append(f"{view.name}: restart {view.restarts}")
    known = {vertex.id: vertex for vertex in previous.vertices} if previous else {}
    for vertex in view.vertices:
        before = known.get(vertex.id)
        is_new = before is None or (before.status, before.attempts) != (vertex.status, vertex.attempts)
        if is_new and vertex.status in _TOLD:
            lines.append(f"{vertex.name}: {vertex_state(vertex)}{_figures(vertex)}")
    return lines


def _figures(vertex: VertexView) -> str:
    """Figures of what a finished vertex has read, where that was counted."""
    if vertex.status is not ExecutionState.FINISHED or vertex.io.rows_read <= 0:
        return ""
    return f", {counted(vertex.io.rows_read, 'row')} read"


def new_failures(previous: JobView | None, view: JobView) -> list[ExceptionEntry]:
    """Failures that `previous` did not have, oldest first."""
    known = set(map(_failure_key, _distinct_failures(previous))) if previous else set()
    return [entry for entry in _distinct_failures(view) if _failure_key(entry) not in known]


def describe_failure(entry: ExceptionEntry) -> str:
    """One line: where and what, and which attempt it was."""
    where = f" (region {entry.region}, attempt {entry.attempt + 1})" if entry.region >= 0 else ""
    return entry.failure.headline() + where


def vertex_state(vertex: VertexView) -> str:
    """State, with counts where there are several subtasks and the attempt where it is not the first."""
    text = vertex.status.name
    if vertex.parallelism > 1:
        text += f" {vertex.tasks.get('FINISHED', 0)}/{vertex.parallelism} finished"
    if waits(vertex):
        text += ", waits"
    return f"{text} (attempt {vertex.attempts})" if vertex.attempts > 1 else text


def vertex_progress(vertex: VertexView, now_ms: int, computes_since_ms: int = -1) -> VertexProgress:
    """Spark tasks, rows, and the time left if it goes on like this. Subtasks that have finished count as what they were;
    where nobody counts the rows that are read, those that were written are shown.

    A vertex may have waited for Spark before it `computes_since_ms`; by default it computes since its start.
    """
    queries = [query for each in vertex.progress for query in each.queries]
    if queries:
        return _stream_progress(queries)
    finished = max(0, vertex.io.tasks)
    done = finished + sum(each.tasks_done for each in vertex.progress)
    total = finished + sum(each.tasks_total for each in vertex.progress)
    rows_read = max(0, vertex.io.rows_read) + sum(each.rows_read for each in vertex.progress)
    rows = rows_read or max(0, vertex.io.rows_written)
    until_ms = vertex.end_time_ms if vertex.end_time_ms >= 0 else now_ms
    elapsed_ms = until_ms - max(vertex.start_time_ms, computes_since_ms) if vertex.start_time_ms >= 0 else 0
    rate = rows * 1_000 / elapsed_ms if elapsed_ms > 0 else 0.0
    left_ms = elapsed_ms * (total - done) / done if done else 0.0
    return VertexProgress(
        done=min(1.0, done / total) if total else -1.0,
        tasks=f"{done}/{total}" if total else "",
        rows=f"{rows:,}" if rows else "",
        rate=f"{rate:,.0f}/s" if rate else "",
        left=duration(left_ms) if left_ms > 0 else "",
    )


def _stream_progress(queries: Sequence[QueryProgress]) -> VertexProgress:
    """Batches in place of tasks: those of several queries from the fewest to the most."""
    batches = sorted({query.batch_id for query in queries})
    numbers = "-".join(str(each) for each in dict.fromkeys((batches[0], batches[-1])) if each >= 0)
    rows, rate = sum(query.input_rows for query in queries), sum(query.processed_rows_per_second for query in queries)
    return VertexProgress(
        tasks=f"batch {numbers}" if numbers else "",
        rows=f"{rows:,}" if rows else "",
        rate=f"{rate:,.0f}/s" if rate else "",
    )


def waits(vertex: VertexView) -> bool:
    """Whether it runs, and nothing of it can compute before something is there: Spark, or a storage."""
    return bool(vertex.progress) and all(each.waits_for for each in vertex.progress)


def result_lines(result: JobResult) -> list[str]:
    """Lines on how a job ended, and what it wrote."""
    lines = [f"{result.name} {result.status.value} in {duration(result.duration_ms)}"]
    lines += [f"  {describe_sink(sink)}" for sink in result.sinks]
    lines += [f"  {rows.function}: {counted(rows.rows, 'row')}" for rows in result.returned]
    if result.retained:
        lines.append(f"  its last checkpoint stays at {result.retained}, start from it with --from-savepoint")
    return lines


def describe_sink(sink: CommittedSink) -> str:
    """A text on what a sink wrote, and where."""
    rows = counted(sink.rows, "row") if sink.rows >= 0 else ""
    files = counted(sink.files, "file") if sink.files else ""  # a table's are the catalog's
    size = _size(sink.size_bytes) if sink.size_bytes >= 0 else ""
    written = ", ".join(filter(None, (" in ".join(filter(None, (rows, files))), size)))
    return f"{sink.function}: {written}{' ' if written else ''}-> {sink.target} ({sink.mode})" + (
        f"\n    note: {sink.note}" if sink.note else ""
    )


def exit_code(result: JobResult) -> int:
    """Exit code of a command that has followed the job: of a script, its own."""
    if result.status is JobStatus.FINISHED:
        return FINISHED
    return (result.failure.exit_code if result.failure is not None else 0) or JOB_FAILED


def result_json(result: JobResult, rows: Mapping[str, list[dict[str, Any]]] | None = None) -> bytes:
    """One JSON object with everything that is known; `rows` are what was returned, by function."""
    fields = {**msgspec.to_builtins(result), "duration_ms": result.duration_ms}
    fields["returned"] = [{**each, "records": (rows or {}).get(each["function"])} for each in fields["returned"]]
    return msgspec.json.encode(fields, enc_hook=str)


def duration(milliseconds: float) -> str:
    """Like `850 ms`, `3.2 s`, `4 min 10 s` or `2 h 5 min`."""
    seconds = milliseconds / 1_000
    if seconds < 1:
        return f"{milliseconds:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _reason(view: JobView) -> str:
    """Why it waits. A job that runs lacks a slot for a moment with each region that is due: that is no news."""
    is_held = view.queue is not None or any(each.waits_for for vertex in view.vertices for each in vertex.progress)
    commits = all(vertex.status is ExecutionState.FINISHED for vertex in view.vertices)
    return view.reason if view.status is not JobStatus.RUNNING or is_held or commits else ""


def _kind(reason: str) -> str:
    """The part of a reason that stays the same while numbers change."""
    return "".join(letter for letter in reason if not letter.isdigit())


def _distinct_failures(view: JobView) -> list[ExceptionEntry]:
    """A job's failures, oldest first, and none twice: others of one cause go with the first."""
    found: dict[tuple[int, int, int, str], ExceptionEntry] = {}
    for root in reversed(view.exceptions):
        others = (
            each for each in root.concurrent if each.failure != root.failure or each.timestamp_ms != root.timestamp_ms
        )
        for entry in (root, *others):
            found.setdefault(_failure_key(entry), entry)
    return list(found.values())


def _failure_key(entry: ExceptionEntry) -> tuple[int, int, int, str]:
    return entry.timestamp_ms, entry.region, entry.attempt, entry.failure.message


def _size(size_bytes: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 1_000 or unit == "GB":
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1_000
    raise AssertionError("the last unit takes everything")
