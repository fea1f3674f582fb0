"""What a job's journal keeps of failures: its exception history."""

import msgspec

from firesteel.model.views import ExceptionEntry

CONCURRENT_FAILURES_MAX = 16
"""Failures that are kept with the one they came with: the first of them."""


def with_failure(
    known: tuple[ExceptionEntry, ...], entry: ExceptionEntry, roots_max: int, *, is_root: bool = True
) -> tuple[ExceptionEntry, ...]:
    """The history with one more failure: as one of its own, or among those that came with the newest."""
    if is_root or not known:
        return (entry, *known)[:roots_max]
    root, *older = known
    alone = msgspec.structs.replace(entry, concurrent=())
    together = (*root.concurrent, alone, *entry.concurrent)[:CONCURRENT_FAILURES_MAX]
    return (msgspec.structs.replace(root, concurrent=together), *older)
