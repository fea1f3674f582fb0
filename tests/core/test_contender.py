"""A contender runs one service at a time, the one of the newest grant."""

from hypothesis import given
from hypothesis import strategies as st

from firesteel.core.leadership import events as e
from firesteel.core.leadership.contender import ContenderState, LeaderContender
from firesteel.model.ids import FencingToken

ONE, TWO = FencingToken(1, "m"), FencingToken(2, "m")


def test_grant_service_confirmation_and_end() -> None:
    contender = LeaderContender()
    assert contender.handle(e.Granted(ONE)) == [e.StartService(ONE)]
    assert contender.handle(e.ServiceStarted(ONE)) == [e.ConfirmLeadership(ONE)]
    assert contender.handle(e.Revoked()) == [e.StopService(ONE)]
    assert contender.handle(e.ServiceStopped(ONE)) == []
    assert contender.state is ContenderState.WAITING


def test_a_new_grant_waits_for_the_old_service_to_be_gone() -> None:
    contender = LeaderContender()
    contender.handle(e.Granted(ONE))
    assert contender.handle(e.Granted(TWO)) == [e.StopService(ONE)]
    assert contender.handle(e.ServiceStarted(ONE)) == [], "it came up too late"
    assert contender.handle(e.ServiceStopped(ONE)) == [e.StartService(TWO)]


def test_a_repeated_grant_changes_nothing() -> None:
    contender = LeaderContender()
    contender.handle(e.Granted(ONE))
    assert contender.handle(e.Granted(ONE)) == []
    assert contender.state is ContenderState.STARTING


def test_events_of_others_do_nothing() -> None:
    contender = LeaderContender()
    assert contender.handle(e.Revoked()) == []
    assert contender.handle(e.ServiceStarted(ONE)) == []
    assert contender.handle(e.ServiceStopped(ONE)) == []


@given(st.lists(st.sampled_from(("grant", "revoke", "started", "stopped")), max_size=30))
def test_services_never_overlap_and_tokens_only_grow(steps: list[str]) -> None:
    """Starts and stops are answered late, or not yet; grants and revocations come at any time."""
    contender, epoch = LeaderContender(), 0
    up: list[FencingToken] = []
    starting: list[FencingToken] = []
    stopping: list[FencingToken] = []
    begun: list[FencingToken] = []
    for step in steps:
        effects = []
        if step == "grant":
            epoch += 1
            effects = contender.handle(e.Granted(FencingToken(epoch, "m")))
        elif step == "revoke":
            effects = contender.handle(e.Revoked())
        elif step == "started" and starting:
            effects = contender.handle(e.ServiceStarted(starting.pop(0)))
        elif step == "stopped" and stopping:
            up.remove(stopping[0])
            effects = contender.handle(e.ServiceStopped(stopping.pop(0)))
        for effect in effects:
            if isinstance(effect, e.StartService):
                up.append(effect.token)
                starting.append(effect.token)
                begun.append(effect.token)
            elif isinstance(effect, e.StopService):
                stopping.append(effect.token)
        assert len(up) <= 1
        assert begun == sorted(set(begun))
