"""Counts of an attempt's Spark work: progress is told of one operation at a time, figures are of them all."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from firesteel.model.tasks import IOMetrics

OPERATIONS_KEPT_MAX = 10_000
"""Operations of one attempt that are told apart; of a loop of more of them the figures are not known."""


class _Operation(NamedTuple):
    tasks: int
    bytes_read: int


class SparkCounts:
    """Fed with what Connect's progress handlers are told."""

    def __init__(self) -> None:
        self._operations: dict[str, _Operation] = {}

    def note(self, operation_id: str | None, stages: Sequence[Any]) -> None:
        """Note what is known of one operation so far; later word of it counts, unless it says nothing.

        All tasks of its stages, not those that have ended: the last word comes up to an interval before the operation's
        end, and figures are of those that have ended well.
        """
        if stages and operation_id is not None and len(self._operations) <= OPERATIONS_KEPT_MAX:
            self._operations[operation_id] = _Operation(
                sum(stage.num_tasks for stage in stages), sum(stage.num_bytes_read for stage in stages)
            )

    def total(self, rows_read: int) -> IOMetrics:
        """The sum of all operations. Nothing is known where Spark has not told of any."""
        if not self._operations or len(self._operations) > OPERATIONS_KEPT_MAX:
            return IOMetrics(rows_read=rows_read)
        return IOMetrics(
            rows_read=rows_read,
            bytes_read=sum(each.bytes_read for each in self._operations.values()),
            tasks=sum(each.tasks for each in self._operations.values()),
        )
