"""Which regions may begin their next attempt: an index of what the journal's state says."""

import pytest

from firesteel.core.scheduler.restarts import DueRestarts
from firesteel.model.ids import RegionIndex

A, B, C = RegionIndex(1), RegionIndex(2), RegionIndex(3)


def test_a_region_begins_anew_when_it_is_due_and_its_attempt_has_ended() -> None:
    restarts, waiting = DueRestarts(), {A: 1_000, B: 1_000, C: 2_000}
    for due_ms in (2_000, 1_000, 1_000):
        restarts.plan(due_ms)
    restarts.ended([C, A, 7], waiting)
    assert restarts.take(999) == []
    assert restarts.next_ms(999) == 1_000
    assert restarts.take(1_000) == [A]
    assert restarts.next_ms(1_000) == 2_000
    restarts.ended([B], waiting)
    restarts.validate([B, C], waiting)
    assert restarts.take(2_000) == [B, C]
    assert restarts.next_ms(2_000) is None
    restarts.validate([], {})


@pytest.mark.parametrize("later_ms", [3_000, 500])
def test_a_restart_that_is_planned_anew_waits_for_that_time_only(later_ms: int) -> None:
    """Also for an earlier one: the clock of the master that has planned the first may have been ahead."""
    restarts, waiting = DueRestarts(), {A: 1_000, B: 1_000}
    restarts.ended([A, B], waiting)
    waiting[A] = later_ms
    restarts.ended([A], waiting)
    restarts.validate([A, B], waiting)
    first, second = sorted((later_ms, 1_000))
    assert restarts.take(first) == ([A] if first == later_ms else [B])
    assert restarts.take(second) == ([A] if second == later_ms else [B])
    restarts.validate([], {})
