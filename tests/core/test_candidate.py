"""A candidate takes part, comes back after failures, and gives up after too many of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.core.leadership import events as e
from firesteel.core.leadership.candidate import FAILURES_MAX, STABLE_MS, LeaderCandidate
from firesteel.model.ids import FencingToken

STORAGE, STALE, BUG = e.SessionFailure.STORAGE, e.SessionFailure.STALE, e.SessionFailure.BUG


def token(epoch: int) -> FencingToken:
    return FencingToken(epoch, "m")


def one_session(
    candidate: LeaderCandidate, epoch: int, failure: e.SessionFailure, lasts_ms: int
) -> list[e.CandidateEffect]:
    """Leads from second `epoch` on and fails after a while; its service is gone at once."""
    began_ms = epoch * 1_000_000
    assert candidate.handle(e.RetryDue(), began_ms) == [e.Contend()]
    assert candidate.handle(e.Granted(token(epoch)), began_ms) == [e.StartService(token(epoch))]
    assert candidate.handle(e.ServiceStarted(token(epoch)), began_ms) == [e.ConfirmLeadership(token(epoch))]
    left, stopped, *then = candidate.handle(e.SessionFailed(failure), began_ms + lasts_ms)
    assert (left, stopped) == (e.Leave(), e.StopService(token(epoch)))
    assert candidate.handle(e.ServiceStopped(token(epoch)), began_ms + lasts_ms) == []
    return then


def test_it_takes_part_leads_and_retires() -> None:
    candidate = LeaderCandidate()
    assert candidate.handle(e.Granted(token(1)), 0) == [], "it does not take part"
    assert candidate.handle(e.Began(), 0) == [e.Contend()]
    assert candidate.handle(e.Began(), 0) == [], "once"
    assert candidate.handle(e.Granted(token(1)), 0) == [e.StartService(token(1))]
    assert candidate.handle(e.Revoked(), 0) == [e.StopService(token(1))]
    assert candidate.handle(e.ServiceStopped(token(1)), 0) == []
    assert candidate.handle(e.Granted(token(2)), 0) == [e.StartService(token(2))]
    assert candidate.handle(e.Retired(), 0) == [e.Leave(), e.StopService(token(2))]
    assert candidate.handle(e.Retired(), 0) == []
    for late in (e.Began(), e.RetryDue(), e.Granted(token(3)), e.SessionFailed(BUG)):
        assert candidate.handle(late, 0) == [], "it is over"


def test_a_failure_while_it_waits_to_come_back_is_old_news() -> None:
    candidate = LeaderCandidate()
    assert one_session(candidate, 1, STALE, 10) == [e.RetryLater(100)]
    assert candidate.handle(e.SessionFailed(STALE), 0) == []
    assert candidate.handle(e.Granted(token(2)), 0) == []


@pytest.mark.parametrize("failure", [STALE, BUG])
def test_it_is_lost_after_too_many_failures(failure: e.SessionFailure) -> None:
    candidate = LeaderCandidate()
    told = [one_session(candidate, number, failure, 10) for number in range(1, FAILURES_MAX + 2)]
    delays = [effect.delay_ms for (effect,) in told[:-1] if isinstance(effect, e.RetryLater)]
    assert delays == [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]
    assert told[-1] == [e.GiveUp()]
    assert candidate.handle(e.RetryDue(), 0) == []


def test_a_storage_that_fails_is_waited_for() -> None:
    candidate = LeaderCandidate()
    told = [one_session(candidate, number, STORAGE, 10) for number in range(1, 3 * FAILURES_MAX)]
    assert told[-1] == [e.RetryLater(5_000)]
    assert one_session(candidate, 3 * FAILURES_MAX, STALE, 10) == [e.GiveUp()]


@pytest.mark.parametrize(("lasted_ms", "delay_ms"), [(STABLE_MS - 1, 400), (STABLE_MS, 100)])
def test_failures_of_long_ago_are_forgotten(lasted_ms: int, delay_ms: int) -> None:
    candidate = LeaderCandidate()
    for number in (1, 2):
        one_session(candidate, number, STALE, 10)
    assert one_session(candidate, 3, STALE, lasted_ms) == [e.RetryLater(delay_ms)]


def test_what_does_not_outlive_bugs_is_lost_by_the_first() -> None:
    candidate = LeaderCandidate(outlives_bugs=False)
    assert one_session(candidate, 1, STALE, 10) == [e.RetryLater(100)]
    assert one_session(candidate, 2, BUG, 10) == [e.GiveUp()]


STEPS = st.sampled_from(("begin", "grant", "revoke", "up", "down", "fail", "due", "retire"))


@given(st.lists(STEPS, max_size=40))
def test_it_leads_only_while_it_takes_part_and_never_after_its_end(steps: list[str]) -> None:
    candidate, epoch, stands, is_over = LeaderCandidate(), 0, False, False
    starting: list[FencingToken] = []
    stopping: list[FencingToken] = []
    for step in steps:
        event: e.CandidateEvent
        match step:
            case "begin":
                event = e.Began()
            case "grant":
                epoch += 1
                event = e.Granted(token(epoch))
            case "revoke":
                event = e.Revoked()
            case "up":
                event = e.ServiceStarted(starting.pop(0) if starting else token(0))
            case "down":
                event = e.ServiceStopped(stopping.pop(0) if stopping else token(0))
            case "fail":
                event = e.SessionFailed(BUG)
            case "due":
                event = e.RetryDue()
            case _:
                event = e.Retired()
        for effect in candidate.handle(event, 0):
            match effect:
                case e.Contend():
                    assert not stands
                    assert not is_over
                    stands = True
                case e.Leave():
                    assert stands
                    stands = False
                case e.StartService():
                    assert stands
                    assert not stopping, "two services"
                    starting.append(effect.token)
                case e.StopService():
                    stopping.append(effect.token)
                case e.GiveUp():
                    is_over = True
                case _:
                    pass
        is_over = is_over or isinstance(event, e.Retired)
