"""What a process on the network measures of itself, put together."""

from collections.abc import Callable
from typing import Self

from firesteel.adapters.metrics.processes import ProcessFigures
from firesteel.adapters.rpc.network import NetworkRpc
from firesteel.model.metric import MetricValue
from firesteel.model.metrics import ProcessMetrics
from firesteel.runtime.metrics import LoopLag, MetricRegistry


class ProcessMeasures:
    """A registry with the sources that masters and workers have in common; within the block the event loop is watched."""

    def __init__(self, metrics: ProcessMetrics, rpc: NetworkRpc, mailbox_length: Callable[[], int]) -> None:
        self._metrics, self._rpc, self._mailbox_length = metrics, rpc, mailbox_length
        self._lag = LoopLag(metrics)
        self.registry = MetricRegistry()
        for source in (ProcessFigures(metrics).values, self._lag.values, self._messages):
            self.registry.add(source)

    def __enter__(self) -> Self:
        self._lag.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._lag.stop()

    def _messages(self) -> list[MetricValue]:
        return [
            self._metrics.mailbox_length.of(self._mailbox_length()),
            self._metrics.frames_in.of(self._rpc.frames_in),
            self._metrics.frames_out.of(self._rpc.frames_out),
            self._metrics.connections.of(self._rpc.connections),
        ]
