"""Figures of an attempt, from what Spark tells of its operations."""

from types import SimpleNamespace

from firesteel.adapters.spark.session.counted import OPERATIONS_KEPT_MAX, SparkCounts
from firesteel.model.tasks import IOMetrics


def stage(tasks: int) -> SimpleNamespace:
    return SimpleNamespace(num_tasks=tasks, num_completed_tasks=0)


def test_operations_are_added_up_and_later_word_of_one_counts() -> None:
    counts = SparkCounts()
    assert counts.total(5, 60) == IOMetrics(rows_read=5, bytes_read=60), "nothing was told"
    counts.note("a", [stage(1)])
    counts.note("a", [stage(2), stage(1)])
    counts.note("a", [])
    counts.note("b", [stage(4)])
    counts.note(None, [stage(9)])
    assert counts.total(5, 60) == IOMetrics(rows_read=5, bytes_read=60, tasks=7)


def test_a_loop_of_operations_is_not_counted_wrong() -> None:
    counts = SparkCounts()
    for number in range(OPERATIONS_KEPT_MAX + 5):
        counts.note(str(number), [stage(1)])
    assert counts.total(-1, -1) == IOMetrics()
