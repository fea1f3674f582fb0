"""Who is asked, and who is lost."""

import pytest

from firesteel.core.heartbeat import HeartbeatMonitor, HeartbeatTick


def monitor(*peers: str) -> HeartbeatMonitor[str]:
    made: HeartbeatMonitor[str] = HeartbeatMonitor(10, 50)
    for peer in peers:
        made.watch(peer, 0)
    return made


def test_a_silent_peer_is_lost_when_the_timeout_is_over_and_not_before() -> None:
    made = monitor("a", "b")
    made.heard("b", 20)
    assert made.tick(49) == HeartbeatTick(due=("a", "b"), lost=())
    assert made.tick(50) == HeartbeatTick(due=("b",), lost=("a",))
    assert made.tick(70) == HeartbeatTick(due=(), lost=("b",))
    assert made.tick(500) == HeartbeatTick(due=(), lost=())


def test_a_sign_of_life_of_a_peer_that_is_not_watched_is_nothing() -> None:
    made = monitor()
    made.heard("a", 5)
    assert made.last_heard_ms("a") == -1
    made.watch("a", 5)
    assert made.last_heard_ms("a") == 5
    made.unwatch("a")
    made.unwatch("a")
    assert made.tick(9) == HeartbeatTick(due=(), lost=())


def test_a_heartbeat_fits_into_its_timeout() -> None:
    with pytest.raises(AssertionError, match="must fit"):
        HeartbeatMonitor(50, 50)
