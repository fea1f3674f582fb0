"""Which start of a query an output is of, and what of former ones counts: `fs.stream_files` decides by these.

Each start of a query is a *generation* of the output. A later one goes on from some batch: what earlier ones have from there on
counts no more.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Claim:
    """Who has begun a generation: an attempt of a job, or nobody's (an empty job)."""

    job_id: str
    attempt: int


class Fit(Enum):
    """Whether a query may go on with an output."""

    FITS = "fits"
    OTHER_QUERY = "other query"
    """It holds the batches of another one."""
    GAP = "gap"
    """Batches before the one that it goes on with are not there."""


def is_late(claim: Claim, others: Iterable[Claim]) -> bool:
    """Whether a later attempt of the same job has begun a generation: then this one was taken for dead."""
    return bool(claim.job_id) and any(each.job_id == claim.job_id and each.attempt > claim.attempt for each in others)


def may_stay(batch: int, known: Iterable[int]) -> bool:
    """Whether what earlier generations have of `batch` may stay, where a query goes on with it as it was planned: they have
    nothing after it, so whoever planned it ended there. Else somebody goes back to have it replaced."""
    return max(known, default=batch) <= batch


def fit_of(batch: int, query_id: str, held: Collection[int], owner: str) -> Fit:
    """Whether a query goes on with `batch` where earlier generations, the newest of which is of the query `owner`, hold the
    batches `held`."""
    if not held:
        return Fit.FITS
    if owner != query_id:
        return Fit.OTHER_QUERY
    return Fit.GAP if max(held) < batch - 1 else Fit.FITS


def is_ended(held: int, batch: int) -> bool:
    """Whether a generation that begins with `batch` ends what an earlier one has of the batch `held`."""
    return held >= batch


def in_order_of_ending(generations: Iterable[int]) -> list[int]:
    """Earlier generations as the first batch of a new one is to end them: the newest first, so that what is left is at any
    time what the query had written up to some batch."""
    return sorted(generations, reverse=True)
