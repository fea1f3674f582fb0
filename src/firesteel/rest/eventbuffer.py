"""The last events of a cluster as bytes, numbered: each is encoded once, however many read it."""

import bisect
import uuid
from collections import deque

from firesteel.model.ids import JobID

EVENTS_MAX, EVENTS_BYTES_MAX = 10_000, 16 << 20
"""Events that are kept for those who read slowly, or come back, and most bytes that they have together; one is always kept."""

BATCH_BYTES_MAX = 256 << 10
"""About how much is handed to a reader at a time."""

_BATCHES_KEPT = 64
"""Batches that are put together once for all readers who are at the same place."""


class EventBuffer:
    """Events by number, from 1 on; who knows number `n` reads on behind it. `name` tells it from other buffers."""

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex[:12]
        self.newest = 0
        self._events: deque[tuple[int, JobID | None, bytes]] = deque()
        self._size_bytes = 0
        self._batches: dict[tuple[int, JobID | None], tuple[bytes, int]] = {}

    def add(self, kind: str, data: bytes, job_id: JobID | None = None) -> None:
        self.newest += 1
        whole = b"id: %s\n%s" % (self.id(self.newest), event(kind, data))
        self._events.append((self.newest, job_id, whole))
        self._size_bytes += len(whole)
        while len(self._events) > EVENTS_MAX or (self._size_bytes > EVENTS_BYTES_MAX and len(self._events) > 1):
            self._size_bytes -= len(self._events.popleft()[2])
        self._batches.clear()

    def id(self, number: int) -> bytes:
        """The text that names a place in this buffer."""
        return b"%s-%d" % (self.name.encode(), number)

    def place(self, text: str) -> int | None:
        """The number that a reader has come to, by the id of its last event; None when it can't go on from there."""
        name, _, digits = text.partition("-")
        if name != self.name or not (digits.isascii() and digits.isdigit() and len(digits) < 16):
            return None
        return int(digits) if int(digits) <= self.newest and not self.has_outrun(int(digits)) else None

    def has_outrun(self, number: int) -> bool:
        """Whether events behind that number are gone already."""
        return bool(self._events) and number + 1 < self._events[0][0]

    def batch(self, number: int, job_id: JobID | None) -> tuple[bytes, int]:
        """Events behind that number, of one job or of all, and the number to go on from. Empty when there are none."""
        key = (number, job_id)
        if key not in self._batches:
            if len(self._batches) >= _BATCHES_KEPT:
                self._batches.clear()
            self._batches[key] = self._joined(number, job_id)
        return self._batches[key]

    def _joined(self, number: int, job_id: JobID | None) -> tuple[bytes, int]:
        parts, size = [], 0
        start = bisect.bisect_right(self._events, number, key=lambda each: each[0])
        for index in range(start, len(self._events)):
            number, of_job, data = self._events[index]
            if job_id is None or job_id == of_job:
                parts.append(data)
                size += len(data)
                if size >= BATCH_BYTES_MAX:
                    break
        return b"".join(parts), number


def event(kind: str, data: bytes) -> bytes:
    """A server-sent event. `data` has no line ends."""
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), data)
