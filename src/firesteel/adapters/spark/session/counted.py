"""Counts of an attempt's Spark work: progress is told of one operation at a time, figures are of them all."""

import contextlib
import resource
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from firesteel.model.tasks import IOMetrics

OPERATIONS_KEPT_MAX = 10_000
"""Operations of one attempt that are told apart; of a loop of more of them the figures are not known."""


class SparkCounts:
    """Fed with what Connect's progress handlers are told.

    Bytes are not among its figures: Spark does not count what Parquet's readers read ahead in threads of their own, and
    its last word comes up to an interval before the operation's end.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, int] = {}
        """By operation."""
        self._lock, self._count = threading.Lock(), 0
        self._since, self._seconds = 0.0, 0.0
        """When the first of those that are under way has begun, and the time in which others were before that."""

    def note(self, operation_id: str | None, stages: Sequence[Any]) -> None:
        """Note what is known of one operation so far; later word of it counts, unless it says nothing.

        All tasks of its stages, not those that have ended: figures are of operations that have ended well.
        """
        if stages and operation_id is not None and len(self._tasks) <= OPERATIONS_KEPT_MAX:
            self._tasks[operation_id] = sum(stage.num_tasks for stage in counted_once(stages))

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """An operation is, within the block; others may be at the same time."""
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._since = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1
                if self._count == 0:
                    self._seconds += time.monotonic() - self._since

    def total(self, rows_read: int, bytes_read: int) -> IOMetrics:
        """The sum of all operations, and what others have counted. Of tasks nothing is known where Spark has not told."""
        is_known = 0 < len(self._tasks) <= OPERATIONS_KEPT_MAX
        tasks = sum(self._tasks.values()) if is_known else -1
        peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        return IOMetrics(
            rows_read=rows_read,
            bytes_read=bytes_read,
            tasks=tasks,
            spark_ms=round(self._seconds * 1000),
            memory_peak_bytes=peak_bytes,
        )


def counted_once(stages: Sequence[Any]) -> list[Any]:
    """The stages of an operation but for those that Spark skips: each of its jobs names the stages of all that it reads once
    more, under new numbers, and runs none of those whose shuffle is there.

    Connect does not say which they are. One of which no task has ended is taken for a stage before it that is done and has
    as many tasks, until a task of it ends; but never the last, which a job is about.
    """
    newest_first = sorted((stage for stage in stages if stage.done), key=lambda stage: -stage.stage_id)
    first_done = {stage.num_tasks: stage.stage_id for stage in newest_first}
    last = max((stage.stage_id for stage in stages), default=-1)

    def is_again(stage: Any) -> bool:
        has_begun = stage.done or stage.num_completed_tasks > 0 or stage.stage_id == last
        return not has_begun and first_done.get(stage.num_tasks, last) < stage.stage_id

    return [stage for stage in stages if not is_again(stage)]
