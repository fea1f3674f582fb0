"""What was read last is kept in memory, up to a size."""

from collections import OrderedDict
from typing import Generic, TypeVar

from firesteel.model.ids import JobID

T = TypeVar("T")


class JobCache(Generic[T]):
    """Values by job. Together they have at most `limit_bytes`, unless the newest alone has more."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes, self._size_bytes = limit_bytes, 0
        self._known: OrderedDict[JobID, tuple[T, int]] = OrderedDict()

    def jobs(self) -> list[JobID]:
        """Those of which something is kept; the one that was wanted last is the last."""
        return list(self._known)

    def get(self, job_id: JobID) -> T | None:
        found = self._known.get(job_id)
        if found is None:
            return None
        self._known.move_to_end(job_id)
        return found[0]

    def put(self, job_id: JobID, value: T, size_bytes: int) -> None:
        self.drop(job_id)
        self._known[job_id] = (value, size_bytes)
        self._size_bytes += size_bytes
        while self._size_bytes > self._limit_bytes and len(self._known) > 1:
            self.drop(next(iter(self._known)))

    def drop(self, job_id: JobID) -> None:
        """One that is not known is fine."""
        if job_id in self._known:
            self._size_bytes -= self._known.pop(job_id)[1]
