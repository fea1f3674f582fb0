"""What a standby makes of the signs of life of a leader: a hint, since fencing makes a wrong guess harmless."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sign:
    """What there is to see of a leader; `moment` differs each time it has given one, and is 0 once it gave up."""

    epoch: int
    moment: int


class LeaseWatch:
    """Watches one leader after the other, by the watcher's clock alone: clocks of two hosts need not agree."""

    def __init__(self, lease_ms: int) -> None:
        self._lease_ms = lease_ms
        self._sign = Sign(0, 0)
        self._since_ms = 0

    def is_over(self, sign: Sign, now_ms: int) -> bool:
        """Whether the leader has given no sign for a whole lease, or has given up."""
        if sign != self._sign:
            self._sign, self._since_ms = sign, now_ms
        return sign.moment == 0 or now_ms - self._since_ms >= self._lease_ms
