"""Whether the sinks of a job write one target: then one's rows would be gone, or which are there would be chance."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.tasks import SinkCommit, TaskOutcome

APPEND, BY_PARTITION = "append", "overwrite-partitions"
"""Modes that leave alone what they don't write."""
SinkKey = tuple[str, str, str, int]
"""Function, place, mode, and how many of the kind its region staged before: what subtasks have in common."""


@dataclass(slots=True)
class Target:
    """What one sink, with all its subtasks, writes in one place."""

    commit: SinkCommit
    partitions: dict[str, None] = field(default_factory=dict)
    """Directories below the place that hold its files, as far as the commit names files."""

    def clash(self, other: "Target") -> str:
        """Why the two can't be in one job, or empty."""
        if self.commit.place == other.commit.place:
            return "" if self._keeps(other) else "write the same target"
        outer, inner = (self, other) if _is_below(other.commit.place, self.commit.place) else (other, self)
        if not _is_below(inner.commit.place, outer.commit.place):
            return ""
        within = inner.commit.place[len(outer.commit.place.rstrip("/")) + 1 :]
        replaced = outer.commit.mode not in (APPEND, BY_PARTITION)
        if outer.commit.mode == BY_PARTITION:
            replaced = any(within == each or _is_below(within, each) for each in outer.partitions)
        replaces = inner.commit.mode != APPEND and any(
            within == each or _is_below(each, within) for each in outer.partitions
        )
        return "write one into the other" if replaced or replaces else ""

    def _keeps(self, other: "Target") -> bool:
        """Whether the rows of both are there afterwards, in whatever order they are committed."""
        modes = {self.commit.mode, other.commit.mode}
        apart = modes <= {APPEND, BY_PARTITION} and not any(each in other.partitions for each in self.partitions)
        return modes == {APPEND} or apart


class SinkTargets:
    """Targets of the regions whose results are registered."""

    def __init__(self) -> None:
        self._known: dict[SinkKey, Target] = {}
        self._at: dict[str, dict[SinkKey, None]] = {}
        """By place, and by every directory above one: what writes there or below."""
        self.conflict: FailureInfo | None = None

    def note(self, outcome: TaskOutcome) -> None:
        """A region has staged this. `conflict` says what it clashes with. One that runs again writes the same."""
        seen: dict[tuple[str, str, str], int] = {}
        for commit in outcome.sinks:
            if commit.place:
                kind = (commit.function, commit.place, commit.mode)
                seen[kind] = seen.get(kind, 0) + 1
                self._note((*kind, seen[kind]), commit)

    def _note(self, key: SinkKey, commit: SinkCommit) -> None:
        is_new = key not in self._known
        target = self._known.setdefault(key, Target(commit))
        held = len(target.partitions)
        target.partitions.update(dict.fromkeys(_partitions(commit)))
        if not is_new and len(target.partitions) == held:
            return
        for place in _with_parents(commit.place):
            self._at.setdefault(place, {})[key] = None
        for other in self._near(key):
            why = target.clash(other)
            if why and self.conflict is None:
                self.conflict = _failure(other.commit, commit, why)

    def _near(self, key: SinkKey) -> Iterator[Target]:
        """Targets at the same place, below it, or above."""
        place = key[1]
        near = dict(self._at.get(place, {}))
        for parent in _with_parents(place):
            near.update((each, None) for each in self._at.get(parent, {}) if each[1] == parent)
        return (self._known[each] for each in near if each != key)


def clash_of(earlier: SinkCommit, later: SinkCommit) -> str:
    """Why two sinks can't be in one job, as far as their targets and modes tell before the rows are written; or empty."""
    if not (earlier.place and later.place) or BY_PARTITION in (earlier.mode, later.mode):
        return ""
    return Target(earlier, dict.fromkeys(_partitions(earlier))).clash(Target(later))


def clash_sentence(earlier: SinkCommit, later: SinkCommit, why: str) -> str:
    """What is wrong and what to do."""
    names = f"{earlier.function} and {later.function}" if earlier.function != later.function else earlier.function
    shown = earlier.target if earlier.place == later.place else f"{earlier.target} and {later.target}"
    times = "" if earlier.function != later.function else " twice"
    return (
        f"{names} {why}{times} ({shown}, by {earlier.mode} and {later.mode}): rows of one would be gone, and which ones would be"
        " chance; give each a target of its own, write their union in one sink, or write both with mode='append'"
    )


def _failure(earlier: SinkCommit, later: SinkCommit, why: str) -> FailureInfo:
    message = clash_sentence(earlier, later, why)
    return FailureInfo(kind=FailureKind.NON_RECOVERABLE, message=message, vertex=later.function)


def _is_below(place: str, other: str) -> bool:
    return place.startswith(f"{other.rstrip('/')}/")


def _with_parents(place: str) -> Iterator[str]:
    yield place
    while place.startswith("/") and len(place) > 1:
        place = place.rpartition("/")[0] or "/"
        yield place


def _partitions(commit: SinkCommit) -> tuple[str, ...]:
    return commit.partitions or tuple(name.rpartition("/")[0] for name in commit.files)
