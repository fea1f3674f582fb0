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
    made.heard("b", 15)
    for now_ms in (9, 19, 29, 39, 49):
        assert made.tick(now_ms) == HeartbeatTick(due=("a", "b"), lost=())
    assert made.tick(59) == HeartbeatTick(due=("b",), lost=("a",))
    assert made.tick(69) == HeartbeatTick(due=(), lost=("b",))
    assert made.tick(79) == HeartbeatTick(due=(), lost=())


def test_time_in_which_the_watching_process_stood_still_does_not_count() -> None:
    made = monitor("silent", "unread")
    made.tick(10)
    made.tick(20)
    assert made.tick(1_020) == HeartbeatTick(due=("silent", "unread"), lost=()), "what was sent meanwhile lies unread"
    made.heard("unread", 1_020)
    made.tick(1_030)
    assert made.tick(1_040) == HeartbeatTick(due=("unread",), lost=("silent",)), "30 ms before it stood still, 20 after"
    assert made.last_heard_ms("unread") == 1_020


def test_nor_does_it_before_the_first_look() -> None:
    made = monitor("unread")
    assert made.tick(5_000) == HeartbeatTick(due=("unread",), lost=())


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
