"""Figures of some subtasks together, taken up one after the other: those of a large vertex come in turns."""

from collections.abc import Iterable

from firesteel.model.states import ExecutionState
from firesteel.model.tasks import PEAKS, IOMetrics
from firesteel.model.views import SubtaskView, VertexView
from firesteel.rest.handlers.jobs import all_states, io_info, io_metrics
from firesteel.rest.joblines import elapsed_ms
from firesteel.rest.schema import vertices as v

UNASSIGNED = "(unassigned)"
"""Flink's word for the worker of a subtask that has none."""

_ENDED = ("FINISHED", "CANCELED", "FAILED")
_BEFORE_THE_END = ("CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING")
_FIGURES = {
    "read-bytes": "bytes_read",
    "read-records": "rows_read",
    "write-bytes": "bytes_written",
    "write-records": "rows_written",
}
"""Fields of IOMetrics by Flink's name."""
_NOT_MEASURED = ("accumulated-backpressured-time", "accumulated-idle-time", "accumulated-busy-time")


def worker_name(subtask: SubtaskView) -> str:
    return subtask.task_manager or UNASSIGNED


def start_ms(subtask: SubtaskView) -> int:
    return subtask.entered_ms.get(ExecutionState.DEPLOYING.name, -1)


def end_ms(subtask: SubtaskView) -> int:
    return max((subtask.entered_ms.get(name, -1) for name in _ENDED), default=-1)


def duration_ms(subtask: SubtaskView, now_ms: int) -> int:
    return elapsed_ms(start_ms(subtask), end_ms(subtask), now_ms)


def state_durations(subtask: SubtaskView, now_ms: int) -> dict[str, int]:
    """Milliseconds in each state; -1 for those it was never in, and those it ended in."""
    durations = dict.fromkeys((state.name for state in ExecutionState), -1)
    entered = sorted(subtask.entered_ms.items(), key=lambda item: item[1])
    left = [at_ms for _, at_ms in entered[1:]] + [now_ms]
    for (name, at_ms), until_ms in zip(entered, left, strict=False):
        if name not in _ENDED:
            durations[name] = max(0, until_ms - at_ms)
    return durations


class Aggregate:
    """Statistics over subtasks."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._figures = {name: list[int]() for name in _FIGURES}
        self._durations_ms = {name: list[int]() for name in _BEFORE_THE_END}

    def add(self, subtask: SubtaskView) -> None:
        for name, field in _FIGURES.items():
            self._figures[name].append(getattr(subtask.io, field))
        durations_ms = state_durations(subtask, self._now_ms)
        for name, values in self._durations_ms.items():
            values.append(durations_ms[name])

    def info(self) -> v.AggregatedTaskDetailsInfo:
        metrics = {name: _statistics(values) for name, values in self._figures.items()}
        return v.AggregatedTaskDetailsInfo(
            metrics={**metrics, **{name: _statistics([0]) for name in _NOT_MEASURED}},
            status_duration={name: _statistics(values) for name, values in self._durations_ms.items()},
        )


class OnWorker:
    """A vertex's subtasks on one worker."""

    def __init__(self, name: str, now_ms: int) -> None:
        self._name, self._now_ms, self._aggregate = name, now_ms, Aggregate(now_ms)
        self._state: ExecutionState | None = None
        """That of the first one that has not ended; of the first one, when all have."""
        self._counts: dict[str, int] = {}
        self._starts_ms: list[int] = []
        self._ends_ms: list[int] = []
        self._sums = dict.fromkeys(IOMetrics.__struct_fields__, 0)
        self._lacking: dict[str, None] = {}

    def add(self, subtask: SubtaskView) -> None:
        self._aggregate.add(subtask)
        if self._state is None or (self._state.is_terminal and not subtask.state.is_terminal):
            self._state = subtask.state
        self._counts[subtask.state.name] = self._counts.get(subtask.state.name, 0) + 1
        self._starts_ms.append(start_ms(subtask))
        self._ends_ms.append(end_ms(subtask))
        for name in self._sums:
            value: int = getattr(subtask.io, name)
            if value >= 0:
                self._sums[name] = max(self._sums[name], value) if name in PEAKS else self._sums[name] + value
            else:
                self._lacking[name] = None

    def info(self, vertex: VertexView, *, is_reader: bool) -> v.VertexTaskManager:
        assert self._state is not None, "it has a subtask"
        start = min((each for each in self._starts_ms if each >= 0), default=-1)
        end = max(self._ends_ms) if min(self._ends_ms) >= 0 else -1
        is_all = len(self._ends_ms) == vertex.parallelism
        return v.VertexTaskManager(
            endpoint=self._name,
            status=self._state.name,
            start_time=start,
            end_time=end,
            duration=elapsed_ms(start, end, self._now_ms),
            metrics=io_metrics(vertex, is_reader=is_reader)
            if is_all
            else io_info(IOMetrics(**self._sums), self._lacking),
            status_counts=all_states(self._counts),
            taskmanager_id=self._name,
            aggregated=self._aggregate.info(),
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
