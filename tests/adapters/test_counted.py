"""Figures of an attempt, from what Spark tells of its operations."""

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from firesteel.adapters.spark import internals
from firesteel.adapters.spark.session.counted import OPERATIONS_KEPT_MAX, SparkCounts, counted_once


def stage(tasks: int, number: int = 0, *, ended: int = 0) -> SimpleNamespace:
    return SimpleNamespace(stage_id=number, num_tasks=tasks, num_completed_tasks=ended, done=ended == tasks)


def tasks_of(counts: SparkCounts) -> int:
    return counts.total(-1, -1).tasks


def test_the_time_in_spark_counts_once_where_operations_run_together(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    monkeypatch.setattr("firesteel.adapters.spark.session.counted.time.monotonic", lambda: now[0])
    counts = SparkCounts()
    with counts.under_way():
        now[0] += 1
        with counts.under_way():
            now[0] += 2
    now[0] += 50
    with contextlib.suppress(ValueError), counts.under_way():
        now[0] += 4
        raise ValueError
    assert counts.total(0, 0).spark_ms == 7_000
    assert counts.total(0, 0).memory_peak_bytes > 1 << 20, "of this process"


def test_what_is_done_with_rows_as_they_come_is_not_sparks_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    monkeypatch.setattr("firesteel.adapters.spark.session.counted.time.monotonic", lambda: now[0])
    counts = SparkCounts()

    def fetched() -> Iterator[int]:
        for number in range(3):
            now[0] += 1
            yield number

    client = SimpleNamespace(_execute=None, _execute_and_fetch_as_iterator=fetched)
    internals.watch_operations(client, counts.under_way)
    for _ in client._execute_and_fetch_as_iterator():
        now[0] += 20
    assert counts.total(0, 0).spark_ms == 3_000


def test_operations_are_added_up_and_later_word_of_one_counts() -> None:
    counts = SparkCounts()
    assert tasks_of(counts) == -1, "nothing was told"
    counts.note("a", [stage(1)])
    counts.note("a", [stage(2), stage(1)])
    counts.note("a", [])
    counts.note("b", [stage(4)])
    counts.note(None, [stage(9)])
    total = counts.total(5, 60)
    assert (total.rows_read, total.bytes_read, total.tasks) == (5, 60, 7)


def test_a_loop_of_operations_is_not_counted_wrong() -> None:
    counts = SparkCounts()
    for number in range(OPERATIONS_KEPT_MAX + 5):
        counts.note(str(number), [stage(1)])
    assert tasks_of(counts) == -1


def numbers(*stages: SimpleNamespace) -> list[int]:
    return [each.stage_id for each in counted_once(stages)]


def test_stages_that_spark_skips_count_once() -> None:
    first = stage(8000, 0, ended=8000)
    assert numbers() == []
    assert numbers(first, stage(8000, 1), stage(1, 2)) == [0, 2]
    assert numbers(first, stage(8000, 1), stage(200, 2, ended=200), stage(8000, 3), stage(200, 4), stage(1, 5)) == [
        0,
        2,
        5,
    ]


def test_a_stage_that_runs_or_is_to_run_counts_whatever_its_size() -> None:
    done = stage(200, 0, ended=200)
    assert numbers(done, stage(200, 1)) == [0, 1], "what the job is about"
    assert numbers(done, stage(200, 1, ended=1), stage(1, 2)) == [0, 1, 2]
    assert numbers(done, stage(199, 1), stage(1, 2)) == [0, 1, 2]
    assert numbers(stage(200, 0, ended=199), stage(200, 1), stage(1, 2)) == [0, 1, 2], "both of a join"
    assert numbers(stage(200, 0), stage(200, 1, ended=200), stage(1, 2)) == [0, 1, 2], "nothing before it is done"
