"""What a standby makes of the signs of life of a leader: a hint, since fencing makes a wrong guess harmless."""

from dataclasses import dataclass
from enum import Enum


class Liveness(Enum):
    ALIVE = "ALIVE"
    SUSPECT = "SUSPECT"
    """It has missed signs: whoever wants to lead asks whether it can be reached."""
    DEAD = "DEAD"
    """It has given no sign for a whole lease, or has given up."""


@dataclass(frozen=True, slots=True)
class Sign:
    """What there is to see of a leader; `moment` differs each time it has given one, and is 0 once it gave up."""

    epoch: int
    moment: int


class LeaseWatch:
    """Watches one leader after the other, by the watcher's clock alone: clocks of two hosts need not agree."""

    def __init__(self, suspicion_ms: int, lease_ms: int) -> None:
        self._suspicion_ms, self._lease_ms = suspicion_ms, lease_ms
        self._sign = Sign(0, 0)
        self._since_ms = 0

    def look(self, sign: Sign, now_ms: int) -> Liveness:
        if sign != self._sign:
            self._sign, self._since_ms = sign, now_ms
        silent_ms = now_ms - self._since_ms
        if sign.moment == 0 or silent_ms >= self._lease_ms:
            return Liveness.DEAD
        return Liveness.SUSPECT if silent_ms >= self._suspicion_ms else Liveness.ALIVE
