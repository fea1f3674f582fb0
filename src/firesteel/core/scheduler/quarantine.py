"""Quarantine: regions whose attempts were in Spark backends when these died. Pure functions of the journal.

Who of those that share a backend has killed it can't be seen from outside. But one that was there when it died twice is
suspect enough to run alone from then on: an innocent one just runs, one that kills a third backend has shown that it is
the cause, and has hurt nobody else by it. A batch region that has done so fails for good, since it begins anew and comes to
the same place again. A streaming region goes on where it was, in a backend that it may only harm itself with: how long that
is tried is for the restart strategy to say. After a long run it is not suspect any more.
"""

import msgspec

from firesteel.core.journal.journal import JobState
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import RegionIndex

DEATHS_BEFORE_ALONE = 2
"""Backends that may die with attempts of a region in them before it runs alone."""

SETTLED_MS = 3_600_000
"""Time for which a streaming region has to run until backends that have died under it before do not count any more."""


def runs_alone(state: JobState, region: RegionIndex) -> bool:
    """Whether the region's current attempt has a backend of its own."""
    return state.backend_deaths.get(region, 0) >= DEATHS_BEFORE_ALONE


def had_settled(state: JobState, region: RegionIndex, *, is_stream: bool) -> bool:
    """Whether the region's current attempt, which has ended, was long past what has happened to those before it."""
    known = state.history.get(region, ())
    return is_stream and bool(known) and known[-1].ended_ms - known[-1].deployed_ms >= SETTLED_MS


def judged(state: JobState, region: RegionIndex, failure: FailureInfo, *, is_stream: bool) -> FailureInfo:
    """The failure as it is to be dealt with: for good when a backend has died with nothing but this batch region in it."""
    if is_stream or not failure.is_suspect or not runs_alone(state, region):
        return failure
    deaths = state.backend_deaths[region] + 1
    message = f"{deaths} Spark backends have died under it, the last with nothing else in it: {failure.message}"
    return msgspec.structs.replace(failure, kind=FailureKind.NON_RECOVERABLE, message=message)
