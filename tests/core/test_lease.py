"""When a standby takes a leader for dead."""

from firesteel.core.leadership.lease import LeaseWatch, Sign


def test_silence_for_a_whole_lease_is_death() -> None:
    watch = LeaseWatch(lease_ms=100)
    seen = [watch.is_over(Sign(1, 7), now_ms) for now_ms in (1_000, 1_010, 1_099, 1_100, 2_000)]
    assert seen == [False, False, False, True, True]
    assert not watch.is_over(Sign(1, 8), 2_010), "it was only slow"


def test_the_next_leader_has_a_lease_of_its_own() -> None:
    watch = LeaseWatch(lease_ms=100)
    assert not watch.is_over(Sign(1, 7), 1_000)
    assert not watch.is_over(Sign(2, 7), 1_100)


def test_who_gives_up_is_gone_at_once() -> None:
    watch = LeaseWatch(lease_ms=100)
    assert not watch.is_over(Sign(1, 7), 1_000)
    assert watch.is_over(Sign(1, 0), 1_001)
