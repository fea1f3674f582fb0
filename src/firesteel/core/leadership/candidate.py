"""A candidate for the leadership of one component: when it takes part, and after how many failures no more."""

from enum import Enum
from typing import assert_never

from firesteel.core.leadership import events as e
from firesteel.core.leadership.contender import LeaderContender
from firesteel.model.backoff import ExponentialBackoff

FAILURES_MAX = 8
"""Sessions of one component that may fail in a row; then it is lost."""

RETRIES = ExponentialBackoff(100, 5_000)
"""Milliseconds between a failure and the next session."""

STABLE_MS = 60_000
"""A session that lasted this long was a good one: failures are counted from nought again."""


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

    def handle(self, event: e.CandidateEvent, now_ms: int) -> list[e.CandidateEffect]:
        """The one door. `now_ms` is of a clock that never goes back."""
        match event:
            case e.Began() | e.RetryDue():
                return self._contend()
            case e.SessionFailed():
                return self._fail(event.failure, now_ms) if self.candidacy is Candidacy.STANDS else []
            case e.Retired():
                return self._leave(Candidacy.OVER)
            case e.Granted():
                return self._lead(event, now_ms) if self.candidacy is Candidacy.STANDS else []
            case e.Revoked() | e.ServiceStarted() | e.ServiceStopped():
                return self._lead(event, now_ms)
            case _:
                assert_never(event)

    def _contend(self) -> list[e.CandidateEffect]:
        if self.candidacy is not Candidacy.NONE:
            return []
        self.candidacy = Candidacy.STANDS
        return [e.Contend()]

    def _lead(self, event: e.ContenderEvent, now_ms: int) -> list[e.CandidateEffect]:
        effects = self._contender.handle(event)
        if any(isinstance(effect, e.StartService) for effect in effects):
            self._since_ms = now_ms
        return [*effects]

    def _leave(self, candidacy: Candidacy) -> list[e.CandidateEffect]:
        left = [e.Leave()] if self.candidacy is Candidacy.STANDS else []
        self.candidacy = candidacy
        return [*left, *self._contender.handle(e.Revoked())]

    def _fail(self, failure: e.SessionFailure, now_ms: int) -> list[e.CandidateEffect]:
        self._failures = 1 if now_ms - self._since_ms >= STABLE_MS else self._failures + 1
        if self._is_lost(failure):
            return [*self._leave(Candidacy.OVER), e.GiveUp()]
        return [*self._leave(Candidacy.NONE), e.RetryLater(round(RETRIES.after(self._failures)))]

    def _is_lost(self, failure: e.SessionFailure) -> bool:
        if failure is e.SessionFailure.BUG and not self._outlives_bugs:
            return True
        return failure is not e.SessionFailure.STORAGE and self._failures > FAILURES_MAX
