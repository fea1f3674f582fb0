"""Whether another task process takes the place of one that has died while its streaming queries run on. Pure."""

from collections import deque

import msgspec

from firesteel.adapters.spark import wire
from firesteel.model.failures import FailureInfo, FailureKind

WINDOW_SECONDS = 600.0
"""Time within which processes that follow one another are counted."""


class Succession:
    """Of one attempt, which has `limit` successors within a while."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known = wire.QueriesRun(())
        self._number = 0
        self._times: deque[float] = deque()

    def note(self, known: wire.QueriesRun) -> None:
        """What the process that lives says of its queries."""
        self._known = known

    @property
    def has_queries(self) -> bool:
        """Whether any may run on."""
        return bool(self._known.queries)

    def answer(self, death: FailureInfo, sessions: int, now_seconds: float) -> wire.FollowQueries | FailureInfo:
        """What a process is to take over from one that nobody here has killed, or why the attempt has failed.

        One that has ended by itself was ended by the user's code. `sessions` is the number of those that were opened.
        """
        if not self.has_queries or death.kind is not FailureKind.ENVIRONMENT:
            return death
        while self._times and self._times[0] <= now_seconds - WINDOW_SECONDS:
            self._times.popleft()
        why = self._known.bound_by
        if not why and len(self._times) >= self._limit:
            why = f"{self._limit} were within {WINDOW_SECONDS / 60:.0f} minutes" if self._limit else ""
        if why or not self._limit:
            more = f" (no other process has followed its queries: {why})" if why else ""
            return msgspec.structs.replace(death, message=f"{death.message}{more}")
        self._times.append(now_seconds)
        self._number += 1
        notice = f"{death.message}. Its queries run on, and another process follows them"
        return wire.FollowQueries(queries=self._known.queries, sessions=sessions, number=self._number, notice=notice)
