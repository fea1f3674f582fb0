"""How far a stream's queries fall behind what comes in, as Flink's back pressure tells it."""

from collections.abc import Sequence

from firesteel.model.streams import QueryProgress

OK_MAX, LOW_MAX = 0.10, 0.5
"""Highest ratios of Flink's levels `ok` and `low`."""


def backlog_ratio(queries: Sequence[QueryProgress]) -> float | None:
    """The share of the rows that come in which the slowest of these queries does not work off, by its last batch: 0 for one
    that keeps up. None where Spark has told of no batch."""
    ratios = [_ratio(query) for query in queries if query.batch_duration_ms >= 0]
    return max(ratios, default=None)


def _ratio(query: QueryProgress) -> float:
    given, done = query.input_rows_per_second, query.processed_rows_per_second
    return max(0.0, 1.0 - done / given) if given > 0 else 0.0


def backlog_level(ratio: float) -> str:
    """Flink's word."""
    return "ok" if ratio <= OK_MAX else "low" if ratio <= LOW_MAX else "high"
