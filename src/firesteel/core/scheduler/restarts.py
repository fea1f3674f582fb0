"""Regions that may begin their next attempt now: those whose restart is due and whose last attempt has ended.

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
    """Regions whose attempts have ended, by the time at which they are to run again."""
    _due_ms: dict[RegionIndex, int] = field(default_factory=dict)
    """The same, by region: each waits once, for the time that was planned last, earlier or later than the one before."""
    _times_ms: list[int] = field(default_factory=list)
    """When something becomes due, ascending, each time once."""

    def plan(self, due_ms: int) -> None:
        """Something is to run again then."""
        if due_ms not in self._times_ms:
            self._times_ms = sorted((*self._times_ms, due_ms))

    def ended(self, regions: Iterable[int], waiting: Mapping[RegionIndex, int]) -> None:
        """These attempts are gone, or are so and are planned anew; some of them may be waited for."""
        for region in map(RegionIndex, regions):
            if region in waiting:
                if region in self._due_ms:
                    del self._ended[self._due_ms[region]][region]
                due_ms = self._due_ms[region] = waiting[region]
                self._ended.setdefault(due_ms, {})[region] = None

    def take(self, now_ms: int) -> list[RegionIndex]:
        """The regions to reset now, ascending."""
        times_ms = [due_ms for due_ms in self._ended if due_ms <= now_ms]
        due = sorted(region for due_ms in times_ms for region in self._ended.pop(due_ms))
        for region in due:
            del self._due_ms[region]
        return due

    def next_ms(self, now_ms: int) -> int | None:
        """When to look again, at the latest."""
        self._times_ms = [time_ms for time_ms in self._times_ms if time_ms > now_ms]
        return min(self._times_ms, default=None)

    def validate(self, ended: Iterable[RegionIndex], waiting: Mapping[RegionIndex, int]) -> None:
        """It knows all regions that wait and whose attempt has ended, and no others, and when they are due."""
        expected = {region: waiting[region] for region in ended}
        assert self._due_ms == expected, "an attempt that has ended is not followed by the next"
        indexed = {region: due_ms for due_ms, regions in self._ended.items() for region in regions}
        assert self._due_ms == indexed, "a region waits for two times"
