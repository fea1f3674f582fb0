"""Figures in Prometheus' text format."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, cast

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from firesteel.adapters.metrics.figures import Figures
from firesteel.model.metric import Kind, Metric, known_values

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

CONTENT_TYPE = str(CONTENT_TYPE_LATEST)


def exposition(things: Iterable[Figures]) -> bytes:
    """All figures, each metric with its help once. Takes about 10 µs a figure: on a thread, where there are many."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(cast("Collector", _Families(things)))
    return bytes(generate_latest(registry))


class _Families:
    """A collector: what prometheus_client asks for metrics."""

    def __init__(self, things: Iterable[Figures]) -> None:
        self._by_metric: dict[Metric, list[tuple[tuple[str, ...], float]]] = {}
        self._labels: dict[Metric, tuple[str, ...]] = {}
        for thing in things:
            for metric, value in known_values(thing.scope, thing.values):
                self._labels[metric] = (*thing.labels, *metric.labels)
                words = (*thing.labels.values(), *value.variables)
                number = value.value * metric.base_unit.factor
                self._by_metric.setdefault(metric, []).append((words, number))

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        for metric, samples in self._by_metric.items():
            kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
            family = kind(metric.prometheus_name, metric.description, labels=self._labels[metric])
            for words, number in samples:
                family.add_metric(words, number)
            yield family
