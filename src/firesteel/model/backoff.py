"""Exponential backoff: the time between tries of what has failed, and may go well the next time."""

from dataclasses import dataclass

DOUBLINGS_MAX = 62
"""More make no difference, and would be numbers without end."""


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """The first time, doubled with each failure up to the longest. Times are in one unit, whichever it is.

    Jitter keeps those who lost the same peer at the same moment from coming back as one crowd. It is the "equal jitter"
    of M. Brooker, *Exponential Backoff And Jitter* (AWS Architecture Blog, 2015): half of the time is certain.
    """

    first: float
    longest: float

    def after(self, failures: int, *, chance: float = 1.0) -> float:
        """Time before the next try, after so many failures in a row; none after none.

        `chance`, from 0 to 1, is drawn by whoever has a source of it; the time without jitter is that of 1.
        """
        if failures == 0:
            return 0.0
        whole = min(self.first * float(1 << min(failures - 1, DOUBLINGS_MAX)), self.longest)
        return whole / 2 + whole / 2 * chance
