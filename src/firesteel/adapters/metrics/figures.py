"""Figures on their way to Prometheus."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from firesteel.model.metric import MetricValue, Scope


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one thing. All things of a scope have labels of the same names."""

    scope: Scope
    values: Sequence[MetricValue]
    labels: Mapping[str, str] = field(default_factory=dict)
    """Tell the thing from others."""
