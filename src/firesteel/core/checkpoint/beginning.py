"""Where a query of an attempt begins, and what becomes of a copy that retention has overtaken.

Each attempt has a checkpoint directory of its own, which it makes before the query starts. A worker knows its job by these
directories only: it may have been cut off from the job's master for long.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

COPIES_MAX = 3
"""So often a copy begins again, at a newer batch each time, when retention has overtaken it."""


class Start(Enum):
    """What the directory of an attempt is made from."""

    NOTHING = "nothing"
    SAVEPOINT = "savepoint"
    FORMER = "former"
    """The last committed point of an attempt before."""
    LOST = "lost"
    """From none that is here: those of the attempts before are on another worker, or were deleted, or their file system is
    not mounted. The attempt has to fail, for all rows would be read and written once more."""
    LATE = "late"
    """From none: a later attempt has begun, so this one was taken for dead and ends."""


@dataclass(frozen=True, slots=True)
class Beginning:
    start: Start
    former: int = -1
    """The attempt whose point it goes on from."""
    obsolete: tuple[int, ...] = ()
    """Attempts whose directories nobody needs any more, once the new one is there."""


def beginning_of(
    attempt: int, known: Collection[int], *, former: int, has_run: bool, is_shared: bool, has_savepoint: bool
) -> Beginning:
    """Where a query of `attempt` begins. `known`: attempts that have a directory here; `former`: the newest one before that
    may have one, or -1; `has_run`: whether one before had one for certain; `is_shared`: whether all workers are to see the
    same directories, so that what is not here was not made either, unless somebody has heard that it was.
    """
    if any(each > attempt for each in known):
        return Beginning(Start.LATE)
    earlier = sorted(each for each in known if each < attempt)
    if earlier:
        return Beginning(Start.FORMER, earlier[-1], tuple(earlier[:-1]))
    if has_run or (former >= 0 and not is_shared):
        return Beginning(Start.LOST)
    return Beginning(Start.SAVEPOINT if has_savepoint else Start.NOTHING)


class Missing(Enum):
    """What it means that a file of a point is not there."""

    OVERTAKEN = "overtaken"
    """The query's retention has deleted it: the copy begins again, at a newer batch."""
    TOO_OFTEN = "too often"
    """The same, once too often."""
    DAMAGED = "damaged"
    """The batch is still the last one: nothing may have deleted it."""


def missing_file(batch: int, last: int | None, copies: int, *, is_fixed: bool = False) -> Missing:
    """A copy of the point after `batch`, the `copies`th one, has missed a file, when the query had committed `last`.
    `is_fixed`: no other batch will do."""
    if last == batch:
        return Missing.DAMAGED
    return Missing.TOO_OFTEN if is_fixed or copies >= COPIES_MAX else Missing.OVERTAKEN
