"""Which regions may begin their next attempt now: those whose restart is due and whose last attempt has ended.

The journal's state says what is to run again and when. This is an index of it, kept so that an event costs what it
changes, and not a look at everything that waits.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from firesteel.model.ids import RegionIndex


@dataclass(slots=True)
class DueRestarts:
    """`waiting`, where it is asked for, is `JobState.restarting`."""

    _ended: dict[int, dict[RegionIndex, None]] = field(default_factory=dict)
    """Regions whose attempts have ended, by the time at which they were to run again when that was noted."""
    _times_ms: list[int] = field(default_factory=list)
    """When something becomes due, ascending, each time once."""

    def plan(self, due_ms: int) -> None:
        """Something is to run again then."""
        if due_ms not in self._times_ms:
            self._times_ms = sorted((*self._times_ms, due_ms))

    def ended(self, regions: Iterable[int], waiting: Mapping[RegionIndex, int]) -> None:
        """These attempts are gone; some of them may be waited for."""
        for region in map(RegionIndex, regions):
            if region in waiting:
                self._ended.setdefault(waiting[region], {})[region] = None

    def take(self, waiting: Mapping[RegionIndex, int], now_ms: int) -> list[RegionIndex]:
        """The regions to reset now, ascending. One whose restart was put off since it was noted is noted anew."""
        noted: dict[RegionIndex, None] = {}
        for due_ms in [due_ms for due_ms in self._ended if due_ms <= now_ms]:
            noted |= self._ended.pop(due_ms)
        self.ended((region for region in noted if waiting[region] > now_ms), waiting)
        return sorted(region for region in noted if waiting[region] <= now_ms)

    def next_ms(self, now_ms: int) -> int | None:
        """When to look again, at the latest."""
        self._times_ms = [time_ms for time_ms in self._times_ms if time_ms > now_ms]
        return min(self._times_ms, default=None)

    def validate(self, ended: Iterable[RegionIndex]) -> None:
        """It knows all regions that wait and whose attempt has ended, and no others."""
        noted = dict.fromkeys(region for regions in self._ended.values() for region in regions)
        assert sorted(noted) == sorted(ended), "an attempt that has ended is not followed by the next"
