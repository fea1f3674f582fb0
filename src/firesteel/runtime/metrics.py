"""What a process measures of itself: sources of figures, read when somebody asks."""

import asyncio
import logging
from collections.abc import Callable, Iterable

from firesteel.model.metric import VALUES_MAX, MetricValue
from firesteel.model.metrics import ProcessMetrics

WINDOW_S = 10.0
"""A recent maximum is of one to two of these."""

LOOK_S = 0.25
"""Time between two looks at whether the event loop is late."""

logger = logging.getLogger(__name__)

Source = Callable[[], Iterable[MetricValue]]


class MetricRegistry:
    """Sources of one process. Asking costs what they cost, and nothing is measured for nobody but the loop's lag."""

    def __init__(self) -> None:
        self._sources: list[Source] = []
        self._failing: set[Source] = set()

    def add(self, source: Source) -> None:
        """A source is called on the event loop, and must not block it. What it raises costs its figures only."""
        self._sources.append(source)

    def values(self) -> tuple[MetricValue, ...]:
        """What all sources tell now; at most VALUES_MAX figures."""
        return tuple(value for source in self._sources for value in self._values_of(source))[:VALUES_MAX]

    def _values_of(self, source: Source) -> tuple[MetricValue, ...]:
        """Nothing of one that fails, which is logged once until it can be read again: who has no files left can't measure
        himself, but goes on."""
        try:
            values = tuple(source())
        except Exception:
            if source not in self._failing:
                logger.warning("figures are missing: a source of them can't be read", exc_info=True)
            self._failing.add(source)
            return ()
        self._failing.discard(source)
        return values


class RecentMaximum:
    """The largest figure of this window and the one before it: of the last 10 to 20 s."""

    def __init__(self) -> None:
        self._window = 0
        self._current: float | None = None
        self._former: float | None = None

    def note(self, figure: float, now_s: float) -> None:
        self._turn(now_s)
        self._current = figure if self._current is None else max(self._current, figure)

    def read(self, now_s: float) -> float | None:
        """None where nothing was noted for long."""
        self._turn(now_s)
        return max((each for each in (self._current, self._former) if each is not None), default=None)

    def _turn(self, now_s: float) -> None:
        window = int(now_s // WINDOW_S)
        if window != self._window:
            self._former = self._current if window == self._window + 1 else None
            self._window, self._current = window, None


class LoopLag:
    """How late the event loop is: what is due at a time is done later, by as much as something else blocks it."""

    def __init__(self, metrics: ProcessMetrics) -> None:
        self._metrics, self._loop = metrics, asyncio.get_running_loop()
        self._worst = RecentMaximum()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        due_s = self._loop.time() + LOOK_S
        self._timer = self._loop.call_at(due_s, self._look, due_s)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def values(self) -> list[MetricValue]:
        worst_ms = self._worst.read(self._loop.time())
        return [] if worst_ms is None else [self._metrics.loop_lag.of(worst_ms)]

    def _look(self, due_s: float) -> None:
        now_s = self._loop.time()
        self._worst.note(max(0.0, now_s - due_s) * 1_000, now_s)
        self.start()
