"""What the system knows of this process."""

import psutil

from firesteel.model.metric import MetricValue
from firesteel.model.metrics import ProcessMetrics


class ProcessFigures:
    """A source of a MetricRegistry."""

    def __init__(self, metrics: ProcessMetrics) -> None:
        self._metrics, self._process = metrics, psutil.Process()

    def values(self) -> list[MetricValue]:
        """Processor time, memory and open files. What the system does not tell is left out."""
        with self._process.oneshot():
            times = self._process.cpu_times()
            values = [
                self._metrics.cpu_time.of((times.user + times.system) * 1_000),
                self._metrics.resident_memory.of(self._process.memory_info().rss),
            ]
        try:
            values.append(self._metrics.open_files.of(self._process.num_fds()))
        except psutil.Error:
            pass
        return values
