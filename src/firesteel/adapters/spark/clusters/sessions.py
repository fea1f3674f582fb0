"""Names of Connect sessions of attempts. Pure."""

import uuid

from firesteel.adapters.spark.wire import SessionName
from firesteel.model.ids import RegionAttemptID

FORMER_MAX = 8
"""Attempts before one whose sessions are closed first, should they be open."""
MORE_MAX = 4
"""Sessions that an attempt has opened beside its first that are closed with that: the oldest."""
_SESSION_NAMESPACE = uuid.UUID("6f1d3c1e-5b0a-5c57-9a5e-f17e57ee1000")


def session_of(attempt: RegionAttemptID, user: str) -> SessionName:
    """The attempt's session: derived, so that any worker can find and close it."""
    name = f"{attempt.job_id}/{attempt.region}/{attempt.attempt}"
    return SessionName(user, str(uuid.uuid5(_SESSION_NAMESPACE, name)))


def further_session(first: SessionName, number: int) -> SessionName:
    """A session that an attempt opens beside its first: `number` counts them, from 1."""
    return SessionName(first.user, str(uuid.uuid5(uuid.UUID(first.session_id), str(number))))


def former_sessions(attempt: RegionAttemptID, user: str) -> list[SessionName]:
    """Sessions of the attempts of its region before it, newest first: on a server that outlives workers, what a host that
    has died was running there runs on."""
    numbers = range(attempt.attempt - 1, max(-1, attempt.attempt - 1 - FORMER_MAX), -1)
    firsts = [session_of(RegionAttemptID(attempt.job_id, attempt.region, number), user) for number in numbers]
    return [
        session
        for first in firsts
        for session in (first, *(further_session(first, number) for number in range(1, MORE_MAX + 1)))
    ]
