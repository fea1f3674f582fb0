"""A candidate for the leadership of one component: when it takes part, and after how many failures no more."""

from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from firesteel.core.effects import Effect, Event
from firesteel.core.leadership.contender import (
    ContenderEffect,
    ContenderEvent,
    Granted,
    LeaderContender,
    Revoked,
    ServiceStarted,
    ServiceStopped,
    StartService,
)
from firesteel.model.backoff import ExponentialBackoff

FAILURES_MAX = 8
"""Sessions of one component that may fail in a row; then it is lost."""

RETRIES = ExponentialBackoff(100, 5_000)
"""Milliseconds between a failure and the next session."""

STABLE_MS = 60_000
"""A session that lasted this long was a good one: failures are counted from nought again."""


class SessionFailure(Enum):
    STORAGE = "STORAGE"
    """What is stored can't be read or written: nobody's mistake. A disk that is full is waited for."""
    STALE = "STALE"
    """Another leader has written since."""
    BUG = "BUG"
    """Ours."""


@dataclass(frozen=True, slots=True)
class Began(Event):
    """It is to take part from now on."""


@dataclass(frozen=True, slots=True)
class SessionFailed(Event):
    """The service of this session did not come up, or is of no use any more."""

    failure: SessionFailure


@dataclass(frozen=True, slots=True)
class RetryDue(Event):
    """Answers RetryLater."""


@dataclass(frozen=True, slots=True)
class Retired(Event):
    """It is to take part no more."""


@dataclass(frozen=True, slots=True)
class Contend(Effect):
    """Take part in the election; answered by Granted, if ever."""


@dataclass(frozen=True, slots=True)
class Leave(Effect):
    """Let others lead."""


@dataclass(frozen=True, slots=True)
class RetryLater(Effect):
    """Answered by RetryDue."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class GiveUp(Effect):
    """The component is lost: the last failure was one too many, or of a kind that does not pass."""


CandidateEvent = Began | SessionFailed | RetryDue | Retired | ContenderEvent
CandidateEffect = Contend | Leave | RetryLater | GiveUp | ContenderEffect


class Candidacy(Enum):
    NONE = "NONE"
    """It does not take part: not yet, or not before its next try."""
    STANDS = "STANDS"
    """It takes part, and may lead."""
    OVER = "OVER"
    """For good."""


class LeaderCandidate:
    """Whoever leads after a failure does so under a new token, from what is stored: so what has failed leaves the
    election, and comes back after a while. With `outlives_bugs` also what has failed by a bug does.
    """

    def __init__(self, *, outlives_bugs: bool = True) -> None:
        self.candidacy = Candidacy.NONE
        self._contender = LeaderContender()
        self._outlives_bugs = outlives_bugs
        self._failures = 0
        self._since_ms = 0
        """When the last session began."""

    def handle(self, event: CandidateEvent, now_ms: int) -> list[CandidateEffect]:
        """The one door. `now_ms` is of a clock that never goes back."""
        match event:
            case Began() | RetryDue():
                return self._contend()
            case SessionFailed():
                return self._fail(event.failure, now_ms) if self.candidacy is Candidacy.STANDS else []
            case Retired():
                return self._leave(Candidacy.OVER)
            case Granted():
                return self._lead(event, now_ms) if self.candidacy is Candidacy.STANDS else []
            case Revoked() | ServiceStarted() | ServiceStopped():
                return self._lead(event, now_ms)
            case _:
                assert_never(event)

    def _contend(self) -> list[CandidateEffect]:
        if self.candidacy is not Candidacy.NONE:
            return []
        self.candidacy = Candidacy.STANDS
        return [Contend()]

    def _lead(self, event: ContenderEvent, now_ms: int) -> list[CandidateEffect]:
        effects = self._contender.handle(event)
        if any(isinstance(effect, StartService) for effect in effects):
            self._since_ms = now_ms
        return [*effects]

    def _leave(self, candidacy: Candidacy) -> list[CandidateEffect]:
        left = [Leave()] if self.candidacy is Candidacy.STANDS else []
        self.candidacy = candidacy
        return [*left, *self._contender.handle(Revoked())]

    def _fail(self, failure: SessionFailure, now_ms: int) -> list[CandidateEffect]:
        self._failures = 1 if now_ms - self._since_ms >= STABLE_MS else self._failures + 1
        if self._is_lost(failure):
            return [*self._leave(Candidacy.OVER), GiveUp()]
        return [*self._leave(Candidacy.NONE), RetryLater(round(RETRIES.after(self._failures)))]

    def _is_lost(self, failure: SessionFailure) -> bool:
        if failure is SessionFailure.BUG and not self._outlives_bugs:
            return True
        return failure is not SessionFailure.STORAGE and self._failures > FAILURES_MAX
