"""Which regions may begin their next attempt: an index of what the journal's state says."""

from firesteel.core.scheduler.restarts import DueRestarts
from firesteel.model.ids import RegionIndex

A, B, C = RegionIndex(1), RegionIndex(2), RegionIndex(3)


def test_a_region_begins_anew_when_it_is_due_and_its_attempt_has_ended() -> None:
    restarts, waiting = DueRestarts(), {A: 1_000, B: 1_000, C: 2_000}
    for due_ms in (2_000, 1_000, 1_000):
        restarts.plan(due_ms)
    restarts.ended([C, A, 7], waiting)
    assert restarts.take(waiting, 999) == []
    assert restarts.next_ms(999) == 1_000
    assert restarts.take(waiting, 1_000) == [A]
    assert restarts.next_ms(1_000) == 2_000
    restarts.ended([B], waiting)
    restarts.validate([B, C])
    assert restarts.take(waiting, 2_000) == [B, C]
    assert restarts.next_ms(2_000) is None
    restarts.validate([])


def test_a_restart_that_is_put_off_waits_for_the_later_time() -> None:
    restarts, waiting = DueRestarts(), {A: 1_000}
    restarts.ended([A], waiting)
    waiting[A] = 3_000
    assert restarts.take(waiting, 2_000) == []
    restarts.validate([A])
    restarts.ended([A], {A: 2_500})
    assert restarts.take(waiting, 3_000) == [A], "once, though it was noted twice"
