"""When a standby takes a leader for dead."""

from firesteel.core.leadership.lease import LeaseWatch, Liveness, Sign

A, S, D = Liveness.ALIVE, Liveness.SUSPECT, Liveness.DEAD


def test_silence_is_suspect_then_death() -> None:
    watch = LeaseWatch(suspicion_ms=20, lease_ms=100)
    seen = [watch.look(Sign(1, 7), now_ms) for now_ms in (1_000, 1_010, 1_020, 1_099, 1_100, 2_000)]
    assert seen == [A, A, S, S, D, D]
    assert watch.look(Sign(1, 8), 2_010) is A, "it was only slow"


def test_the_next_leader_has_a_lease_of_its_own() -> None:
    watch = LeaseWatch(suspicion_ms=20, lease_ms=100)
    assert watch.look(Sign(1, 7), 1_000) is A
    assert watch.look(Sign(2, 7), 1_100) is A


def test_who_gives_up_is_gone_at_once() -> None:
    watch = LeaseWatch(suspicion_ms=20, lease_ms=100)
    assert watch.look(Sign(1, 7), 1_000) is A
    assert watch.look(Sign(1, 0), 1_001) is D
