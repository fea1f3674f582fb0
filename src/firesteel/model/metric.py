"""A metric, and a figure of one. Import metrics from `model.metrics`, which declares them."""

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

import msgspec

VALUES_MAX = 256
"""Figures that a worker sends of itself at a time; others are left out."""

_VARIABLE = re.compile(r"<([a-z]+)>")
_WORD_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Scope(Enum):
    """Thing that a figure is of."""

    JOBMANAGER = "jobmanager"
    """The cluster, as its leading master sees it, and that master's process."""
    TASKMANAGER = "taskmanager"
    """A worker's process and its Spark backends."""
    JOB = "job"
    TASK = "task"
    """A subtask."""


class Kind(Enum):
    GAUGE = "gauge"
    COUNTER = "counter"
    """Grows, and begins at 0 with each process, or with each attempt."""


class Unit(Enum):
    """Unit in which REST tells a figure."""

    NUMBER = "number"
    BYTES = "bytes"
    MILLISECONDS = "milliseconds"
    NANOSECONDS = "nanoseconds"


class BaseUnit(NamedTuple):
    """Prometheus' unit, as a name's ending, and what a figure is multiplied with to be in it."""

    suffix: str
    factor: float


_BASE_UNITS = {
    Unit.NUMBER: BaseUnit("", 1.0),
    Unit.BYTES: BaseUnit("_bytes", 1.0),
    Unit.MILLISECONDS: BaseUnit("_seconds", 1e-3),
    Unit.NANOSECONDS: BaseUnit("_seconds", 1e-9),
}


class MetricValue(msgspec.Struct, frozen=True, array_like=True):
    """A figure of one metric of a scope. What was not measured has none."""

    name: str
    """Name of the metric as it is declared, with variables in angle brackets."""
    value: float
    variables: tuple[str, ...] = ()
    """Words for the variables, in their order."""

    @property
    def id(self) -> str:
        """Name with the words put in: what REST calls it."""
        words = iter(self.variables)
        return _VARIABLE.sub(lambda _: next(words, ""), self.name)


class Metric:
    """One metric. `name` is Flink's where the thing is the same, then `is_flinks`; `<queue>` in it is a variable."""

    def __init__(
        self,
        scope: Scope,
        name: str,
        unit: Unit,
        description: str,
        *,
        kind: Kind = Kind.GAUGE,
        is_flinks: bool = False,
    ) -> None:
        assert (scope, name) not in METRICS, f"metric {name} of {scope.value} is declared twice"
        self.scope, self.name, self.unit, self.description = scope, name, unit, description
        self.kind, self.is_flinks = kind, is_flinks
        self.labels = tuple(_VARIABLE.findall(name))
        """Names of its variables."""
        METRICS[scope, name] = self

    def of(self, value: float, *variables: str) -> MetricValue:
        """A figure of this metric, in its unit."""
        assert len(variables) == len(self.labels), f"{self.name} has the variables {self.labels}"
        return MetricValue(self.name, value, variables)

    @property
    def base_unit(self) -> BaseUnit:
        return _BASE_UNITS[self.unit]

    @property
    def prometheus_name(self) -> str:
        """Name by the habits of Prometheus: words in lower case, base unit last; `_total` for what only grows."""
        words = [word for word in _VARIABLE.sub("", self.name).split(".") if word and word != "Count"]
        text = "_".join(_WORD_BOUNDARY.sub("_", word).lower() for word in words).removesuffix("_total")
        total = "_total" if self.kind is Kind.COUNTER else ""
        return f"firesteel_{self.scope.value}_{text}{self.base_unit.suffix}{total}"


METRICS: dict[tuple[Scope, str], Metric] = {}


def known_values(scope: Scope, values: Iterable[MetricValue]) -> list[tuple[Metric, MetricValue]]:
    """Figures with their metrics. Those of metrics that another version has, and this one not, are left out."""
    found = ((METRICS.get((scope, value.name)), value) for value in values)
    return [(metric, value) for metric, value in found if metric and len(metric.labels) == len(value.variables)]


def measured(figures: Mapping[Metric, float | None]) -> list[MetricValue]:
    """The figures that there are."""
    return [metric.of(value) for metric, value in figures.items() if value is not None]
