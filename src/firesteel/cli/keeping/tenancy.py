"""Who uses a kept cluster, and when its time is over; and what a command does that has found one, or none.

Pure: the caller has the clock, in seconds.
"""

from enum import Enum

from firesteel.cli.keeping.identity import Identity, difference
from firesteel.cli.keeping.words import Answer, Busy, Differs, Hello, Welcome


class Step(Enum):
    """What a command does next."""

    USE = "use the kept cluster"
    BEGIN = "begin one, in place of another or where there is none"
    OWN = "use a cluster of its own"


def next_step(answer: Answer | None, *, keeps: bool) -> Step:
    """What follows from the answer of the kept cluster, None where there is none; `keeps` is whether the command was told
    to leave one behind. Nobody's job is ended for another's, and only who asked for a kept cluster begins one."""
    match answer:
        case Welcome():
            return Step.USE
        case Busy():
            return Step.OWN
        case _:
            return Step.BEGIN if keeps else Step.OWN


class Tenancy:
    """One command at a time uses the cluster: from its word of greeting until it, and its job, have ended."""

    def __init__(self, identity: Identity, keep_s: float, now_s: float) -> None:
        """For the first `keep_s`, whoever has begun the cluster may come."""
        self._identity, self._keep_s, self._idle_since_s = identity, keep_s, now_s
        self._is_used = False

    @property
    def is_used(self) -> bool:
        return self._is_used

    @property
    def keep_s(self) -> float:
        return self._keep_s

    def enter(self, hello: Hello) -> Busy | Differs | None:
        """Why not, or None: then it is used until `leave`. A command that does not say for how long it is to be kept changes nothing of that."""
        if self._is_used:
            return Busy()
        if names := difference(self._identity, hello.identity):
            return Differs(names)
        self._is_used = True
        if hello.keep_s is not None:
            self._keep_s = hello.keep_s
        return None

    def leave(self, now_s: float) -> None:
        assert self._is_used, "who leaves has entered"
        self._is_used, self._idle_since_s = False, now_s

    def left_s(self, now_s: float) -> float:
        """Time until the end, if nobody comes."""
        return self._keep_s if self._is_used else max(0.0, self._idle_since_s + self._keep_s - now_s)
