"""What every core does: one door, fencing, a story; and what one with a journal holds back."""

from firesteel.core.effects import (
    Effect,
    Event,
    Persist,
    Persisted,
    PersistFailed,
    Received,
    Send,
    SetTimer,
    Started,
    TimerFired,
)
from firesteel.core.journal.records import JobStatusRecord
from firesteel.core.machine import STORY_LENGTH, JournaledCore
from firesteel.core.requests import Reply
from firesteel.core.timers import HeartbeatDue, WakeUp
from firesteel.model.ids import Address, FencingToken
from firesteel.model.messages import Envelope, HeartbeatRequest
from firesteel.model.states import JobStatus

ME, OLD = FencingToken(2, "m"), FencingToken(1, "m")
FACT = JobStatusRecord(at_ms=1, status=JobStatus.CREATED)


class Notary(JournaledCore):
    """Journals what it is asked to when it is started, says so at once, and answers messages."""

    def __init__(self) -> None:
        super().__init__(Address("me"), ME)

    def _on(self, event: Event) -> None:
        match event:
            case Started():
                self._journal(FACT)
                self._reply(7, "done")
                self._set_timer(HeartbeatDue(), 10)
            case TimerFired():
                self._send(Address("you"), HeartbeatRequest())
            case Persisted():
                self._on_persisted(event)
            case PersistFailed():
                self._on_persist_failed(event)
            case _:
                self._narrate("heard")

    def validate(self) -> None:
        """Nothing to check."""


def kinds(effects: list[Effect]) -> list[type[Effect]]:
    return [type(effect) for effect in effects]


def test_what_is_said_waits_until_all_that_was_decided_is_durable() -> None:
    core = Notary()
    assert core.handle(Started(), 5) == [SetTimer(HeartbeatDue(), 15), Persist(1, (FACT,))]
    assert core.handle(TimerFired(WakeUp()), 6) == []
    assert core.handle(Started(), 7)[-1] == Persist(2, (FACT,))
    assert kinds(core.handle(Persisted(1), 8)) == [Reply, Send]
    assert kinds(core.handle(Persisted(1), 9)) == []
    assert kinds(core.handle(Persisted(2), 10)) == [Reply]
    assert kinds(core.handle(TimerFired(WakeUp()), 11)) == [Send]


def test_after_a_failed_journal_nothing_more_is_said() -> None:
    core = Notary()
    core.handle(Started(), 0)
    assert core.handle(PersistFailed("fenced"), 1) == []
    assert core.handle(TimerFired(WakeUp()), 2) == []
    assert core.story[-1] == "1 journal failed: fenced"


def letter(token: FencingToken | None) -> Received:
    return Received(
        Envelope(sender=Address("you"), recipient=Address("me"), recipient_token=token, body=HeartbeatRequest())
    )


def test_only_letters_for_this_session_are_opened() -> None:
    core = Notary()
    for token in (OLD, None, FencingToken(2, "other"), FencingToken(3, "m")):
        assert core.handle(letter(token), 0) == []
        assert core.story[-1] == "0 refused HeartbeatRequest of you: stale token"
    core.handle(letter(ME), 0)
    assert core.story[-1] == "0 heard"


def test_time_never_goes_back_and_the_story_has_an_end() -> None:
    core = Notary()
    core.handle(letter(ME), 9)
    core.handle(letter(ME), 3)
    assert core.now_ms == 9
    for _ in range(2 * STORY_LENGTH):
        core.handle(letter(ME), 10)
    assert len(core.story) == STORY_LENGTH
