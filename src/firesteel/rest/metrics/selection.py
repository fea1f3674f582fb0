"""Figures as Flink's metric routes give them: names without `get`, texts with it, and numbers where they are aggregated."""

from collections.abc import Callable, Iterable, Sequence

from firesteel.model.metric import MetricValue
from firesteel.rest.schema.cluster import AggregatedMetric, Metric

SUBTASKS_MAX = 1 << 20
"""Most subtasks that a query may name, each as often as it names it."""


def _minimum(values: Sequence[float]) -> float:
    return float(min(values))


def _maximum(values: Sequence[float]) -> float:
    return float(max(values))


def _sum(values: Sequence[float]) -> float:
    return float(sum(values))


def _average(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def skew(values: Sequence[float]) -> float:
    """Mean absolute deviation from the mean, in percent of the mean, at most 100: Flink's measure. 0 for a mean of 0."""
    mean = sum(values) / len(values)
    if not mean:
        return 0.0
    deviation = sum(abs(mean - value) for value in values) / len(values)
    return min(deviation / mean * 100.0, 100.0)


AGGREGATIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "min": _minimum,
    "max": _maximum,
    "avg": _average,
    "sum": _sum,
    "skew": skew,
}


def names(text: str) -> tuple[str, ...]:
    """Names of a query, parted by commas."""
    return tuple(name for name in text.split(",") if name)


def aggregations(text: str) -> tuple[str, ...]:
    """Names of aggregations, parted by commas. Raises ValueError for one that there is not."""
    wanted = names(text.lower())
    if any(name not in AGGREGATIONS for name in wanted):
        raise ValueError(text)
    return wanted


def subtasks(text: str) -> tuple[range, ...]:
    """Indices of subtasks, like `0,3-5`: numbers and ranges, parted by commas; in order, each once. Raises ValueError."""
    found: list[range] = []
    left = SUBTASKS_MAX
    for part in names(text):
        first, is_range, last = part.partition("-")
        start, end = int(first), int(last) if is_range else int(first)
        left -= end + 1 - start
        if not 0 <= start <= end < SUBTASKS_MAX or left < 0:
            raise ValueError(text)
        found.append(range(start, end + 1))
    apart: list[range] = []
    for each in sorted(found, key=lambda indices: indices.start):
        if apart and each.start <= apart[-1].stop:
            apart[-1] = range(apart[-1].start, max(apart[-1].stop, each.stop))
        else:
            apart.append(each)
    return tuple(apart)


def told(values: Iterable[MetricValue], wanted: Sequence[str] | None, prefix: str = "") -> list[Metric]:
    """Every name, when none is wanted; else the wanted ones that there are, in the order of the wish."""
    known = {f"{prefix}{value.id}": value.value for value in values}
    if wanted is None:
        return [Metric(name) for name in known]
    return [Metric(name, number_text(known[name])) for name in wanted if name in known]


def aggregated(
    things: Iterable[Sequence[MetricValue]], wanted: Sequence[str] | None, kinds: Sequence[str] = ()
) -> list[AggregatedMetric]:
    """The same over several things, each of which may lack some: what it lacks does not count."""
    by_name: dict[str, list[float]] = {}
    for values in things:
        for value in values:
            by_name.setdefault(value.id, []).append(value.value)
    if wanted is None:
        return [AggregatedMetric(name) for name in by_name]
    chosen = kinds or tuple(AGGREGATIONS)
    return [
        AggregatedMetric(name, **{kind: AGGREGATIONS[kind](by_name[name]) for kind in chosen})
        for name in wanted
        if name in by_name
    ]


def number_text(value: float) -> str:
    """A figure as Flink writes it: without a point where it is whole."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))
