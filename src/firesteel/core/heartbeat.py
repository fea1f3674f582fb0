"""Who was heard of when: the decisions of a heartbeat, without its sending."""

from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class HeartbeatTick(Generic[K]):
    """What to do now: ask `due`, give up `lost`."""

    due: tuple[K, ...]
    lost: tuple[K, ...]


class HeartbeatMonitor(Generic[K]):
    """Watches peers. A peer that was not heard of for `timeout_ms` is lost, and no longer watched.

    Time in which the watching process stood still does not count: what peers have sent meanwhile may lie unread.
    """

    def __init__(self, interval_ms: int, timeout_ms: int) -> None:
        assert 0 < interval_ms < timeout_ms, "a heartbeat must fit into its timeout"
        self.interval_ms, self.timeout_ms = interval_ms, timeout_ms
        self._heard_ms: dict[K, int] = {}
        self._tick_due_ms: int | None = None

    def watch(self, peer: K, now_ms: int) -> None:
        """Begin to watch a peer, as heard of now."""
        self._heard_ms[peer] = now_ms
        if self._tick_due_ms is None:
            self._tick_due_ms = now_ms + self.interval_ms

    def unwatch(self, peer: K) -> None:
        self._heard_ms.pop(peer, None)

    def heard(self, peer: K, now_ms: int) -> None:
        """A sign of life. Of a peer that is not watched: nothing."""
        if peer in self._heard_ms:
            self._heard_ms[peer] = now_ms

    def last_heard_ms(self, peer: K) -> int:
        """When a watched peer was heard of last; -1 when it is not watched."""
        return self._heard_ms.get(peer, -1)

    def tick(self, now_ms: int) -> HeartbeatTick[K]:
        """Called once an interval; later, when the process stood still."""
        late_ms = max(0, now_ms - self._tick_due_ms) if self._tick_due_ms is not None else 0
        self._tick_due_ms = now_ms + self.interval_ms
        if late_ms:
            self._heard_ms = {peer: min(now_ms, heard + late_ms) for peer, heard in self._heard_ms.items()}
        lost = tuple(peer for peer, heard in self._heard_ms.items() if now_ms - heard >= self.timeout_ms)
        for peer in lost:
            del self._heard_ms[peer]
        return HeartbeatTick(due=tuple(self._heard_ms), lost=lost)
