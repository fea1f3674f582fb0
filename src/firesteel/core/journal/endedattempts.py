"""What a job's journal keeps of attempts that have ended."""

from enum import Enum

import msgspec

from firesteel.model.ids import ResourceID
from firesteel.model.states import ExecutionState

ATTEMPTS_KEPT_MAX = 16
"""Former attempts of each region that are remembered: the newest."""


class Reached(Enum):
    """How far an attempt of a stream has come, as far as that counts for its checkpoint directories."""

    NOTHING = "nothing"
    """It has failed before it had any, or before a query was started in one, as its worker says."""
    UNHEARD = "unheard"
    """Nobody has heard that it runs: it may have made them, or not."""
    RAN = "ran"
    """It had them; or a former JobMaster may have heard so."""


class EndedAttempt(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What stays known of an attempt that ran, or may have, and has ended."""

    attempt: int
    state: ExecutionState
    task_manager: ResourceID
    deployed_ms: int
    ended_ms: int
    reached: Reached = Reached.RAN
    followed_ms: int = -1
    """When the next attempt of its region began to wait; -1: none has, or a version wrote this that did not say."""


def with_newest(known: tuple[EndedAttempt, ...], ended: EndedAttempt) -> tuple[EndedAttempt, ...]:
    """The newest, and among them the last one that has run: that it has must not be forgotten."""
    kept = (*known, ended)[-ATTEMPTS_KEPT_MAX - 1 :]
    ran = [each for each in (*known, ended) if each.reached is Reached.RAN][-1:]
    return kept if not ran or ran[0] in kept else (ran[0], *kept[1:])


def followed(known: tuple[EndedAttempt, ...], attempt: int, at_ms: int) -> tuple[EndedAttempt, ...]:
    """The same, where this attempt, if it is known, has been followed by the next one."""
    if known[-1].attempt != attempt:
        return known
    return *known[:-1], msgspec.structs.replace(known[-1], followed_ms=at_ms)


def checkpointed(known: tuple[EndedAttempt, ...], current: int) -> tuple[int, bool]:
    """The newest attempt before the current one that has, or may have, made checkpoint directories, -1 for none; and whether
    one has for certain, that one or another."""
    former = [each for each in known if each.attempt < current]
    may_have = [each.attempt for each in former if each.reached is not Reached.NOTHING]
    return max(may_have, default=-1), any(each.reached is Reached.RAN for each in former)
