"""The way of a job that has ended as spans: from its submission over the line for slots and its attempts to its commits."""

import hashlib
from collections.abc import Iterator

from firesteel.adapters.notifications.otlp import Attribute, Span
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.views import JobResult, JobView, SubtaskView, VertexView

ATTEMPTS_MAX = 500
"""Attempts of a job that have spans; of more it is said how many there were."""

_ENDS = (ExecutionState.FINISHED.name, ExecutionState.FAILED.name, ExecutionState.CANCELED.name)
_STEPS = (("schedule", "SCHEDULED", "DEPLOYING"), ("deploy", "DEPLOYING", "RUNNING"))
"""Name of a span, the state that it begins with, and the one that ends it."""


def spans_of(view: JobView, result: JobResult) -> list[Span]:
    """The job's own span first. Ids follow from the job's: who tells the same job again tells the same spans.

    The trace's id is the job's. Nothing is known of more than the view has: of former attempts, when they were deployed and
    ended.
    """
    return list(_Trace(view, result).spans())


class _Trace:
    def __init__(self, view: JobView, result: JobResult) -> None:
        self._view, self._result = view, result
        self._id = bytes.fromhex(view.job_id)
        self._attempts = 0

    def spans(self) -> Iterator[Span]:
        view, result = self._view, self._result
        times = {name: at_ms for name, at_ms in view.timestamps_ms.items() if at_ms > 0}
        begun_ms, end_ms = min(times.values(), default=result.start_time_ms), result.end_time_ms
        failure = result.failure.shown_headline() if result.failure is not None else result.status.value
        steps = list(self._steps(times, begun_ms, end_ms))
        yield self._span(
            "", view.name, begun_ms, end_ms, error=failure if _failed(result) else None, attributes=self._facts()
        )
        yield from steps

    def _facts(self) -> dict[str, Attribute]:
        view, result = self._view, self._result
        attempts = sum(1 + len(each.earlier) for vertex in view.vertices for each in vertex.subtasks)
        owner: dict[str, Attribute] = {"enduser.id": result.owner} if result.owner else {}
        return {
            "firesteel.job.id": view.job_id,
            "firesteel.job.type": view.job_type.value,
            "firesteel.job.status": result.status.value,
            "firesteel.job.restarts": result.restarts,
            "firesteel.job.attempts": attempts,
            **owner,
        }

    def _steps(self, times: dict[str, int], begun_ms: int, end_ms: int) -> Iterator[Span]:
        created_ms = times.get(JobStatus.CREATED.value, begun_ms)
        starts = [vertex.start_time_ms for vertex in self._view.vertices if vertex.start_time_ms > 0]
        deployed_ms = min(starts, default=end_ms)
        if created_ms > begun_ms:
            yield self._span("submit", "submit", begun_ms, created_ms, parent="")
        yield self._span("queue", "queue", created_ms, max(created_ms, deployed_ms), parent="")
        for vertex in self._view.vertices:
            if vertex.start_time_ms > 0:
                yield from self._vertex(vertex, end_ms)
        ran_ms = max((vertex.end_time_ms for vertex in self._view.vertices), default=-1)
        if self._result.sinks and ran_ms > 0:
            files = sum(sink.files for sink in self._result.sinks)
            facts: dict[str, Attribute] = {"firesteel.sinks": len(self._result.sinks), "firesteel.files": files}
            yield self._span("commit", "commit", ran_ms, max(ran_ms, end_ms), parent="", attributes=facts)

    def _vertex(self, vertex: VertexView, end_ms: int) -> Iterator[Span]:
        key, last_ms = f"vertex {vertex.id}", vertex.end_time_ms if vertex.end_time_ms > 0 else end_ms
        attempts = [each for subtask in vertex.subtasks for each in (*subtask.earlier, subtask)]
        first_ms = min((_began_ms(each) for each in attempts if _began_ms(each) > 0), default=vertex.start_time_ms)
        facts: dict[str, Attribute] = {"firesteel.vertex.id": vertex.id, "firesteel.parallelism": vertex.parallelism}
        yield self._span(key, f"vertex {vertex.name}", first_ms, last_ms, parent="", attributes=facts)
        for attempt in attempts[: ATTEMPTS_MAX - self._attempts]:
            self._attempts += 1
            yield from self._attempt(vertex, attempt, key)

    def _attempt(self, vertex: VertexView, attempt: SubtaskView, parent: str) -> Iterator[Span]:
        entered = attempt.entered_ms
        end_ms = max((entered.get(name, -1) for name in _ENDS), default=-1)
        began_ms = _began_ms(attempt)
        if began_ms <= 0 or end_ms <= 0:
            return
        key = f"{parent} {attempt.subtask} {attempt.attempt}"
        name = f"{vertex.name} ({attempt.subtask + 1}/{vertex.parallelism}) #{attempt.attempt}"
        error = attempt.state.name if attempt.state is ExecutionState.FAILED else None
        facts: dict[str, Attribute] = {"firesteel.subtask": attempt.subtask, "firesteel.attempt": attempt.attempt}
        if attempt.task_manager is not None:
            facts["firesteel.taskmanager.id"] = attempt.task_manager
        yield self._span(key, name, began_ms, max(began_ms, end_ms), parent=parent, error=error, attributes=facts)
        for step, first, then in _STEPS:
            if entered.get(first, -1) > 0 and entered.get(then, -1) >= entered[first]:
                yield self._span(f"{key} {step}", step, entered[first], entered[then], parent=key)
        if entered.get("RUNNING", -1) > 0:
            yield self._span(f"{key} run", "run", entered["RUNNING"], max(entered["RUNNING"], end_ms), parent=key)

    def _span(
        self,
        key: str,
        name: str,
        start_ms: int,
        end_ms: int,
        *,
        parent: str | None = None,
        error: str | None = None,
        attributes: dict[str, Attribute] | None = None,
    ) -> Span:
        return Span(
            trace_id=self._id,
            span_id=self._span_id(key),
            parent_id=b"" if parent is None else self._span_id(parent),
            name=name,
            start_ms=start_ms,
            end_ms=max(start_ms, end_ms),
            attributes=attributes or {},
            error=error,
        )

    def _span_id(self, key: str) -> bytes:
        return hashlib.sha256(self._id + key.encode()).digest()[:8]


def _began_ms(attempt: SubtaskView) -> int:
    """When it stood in line for a slot, or was deployed where no more is known."""
    return min(
        (attempt.entered_ms[name] for name in ("SCHEDULED", "DEPLOYING") if name in attempt.entered_ms), default=-1
    )


def _failed(result: JobResult) -> bool:
    return result.status is JobStatus.FAILED
