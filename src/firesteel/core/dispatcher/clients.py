"""Attached clients: jobs that end with the client that has submitted them."""

from dataclasses import dataclass

from firesteel.core.effects import Timer
from firesteel.model.ids import JobID

CHECK_INTERVAL_MS = 1_000
"""Least time between two looks for clients that are gone."""

LATE_MS = 1_000
"""A look that comes so much later than it was due says nothing of clients: this process was stopped or is overloaded,
and what they have sent may lie unread."""


@dataclass(frozen=True, slots=True)
class ClientsDue(Timer):
    """Time to look for clients that are gone."""


class AttachedClients:
    """Until when the client of each of these jobs is taken to be there. Clocks of clients are not asked: a sign of
    life counts from when it comes, and everybody has all of his time again under a new leader, who makes a new one."""

    def __init__(self) -> None:
        self._timeouts_ms: dict[JobID, int] = {}
        self._until_ms: dict[JobID, int] = {}
        self.due_ms: int | None = None
        """When to look; None while nobody is watched."""

    def watch(self, job_id: JobID, timeout_ms: int, now_ms: int) -> None:
        """A job that ends with its client."""
        self._timeouts_ms[job_id] = timeout_ms
        until_ms = self._until_ms[job_id] = now_ms + timeout_ms
        self.due_ms = until_ms if self.due_ms is None else min(self.due_ms, until_ms)

    def heard(self, job_id: JobID, now_ms: int) -> None:
        """A sign of life; for a job that goes on without its client it means nothing."""
        if job_id in self._until_ms:
            self._until_ms[job_id] = now_ms + self._timeouts_ms[job_id]

    def forget(self, job_id: JobID) -> None:
        """The job ends, for whatever reason."""
        self._timeouts_ms.pop(job_id, None)
        self._until_ms.pop(job_id, None)

    def gone(self, now_ms: int) -> list[tuple[JobID, int]]:
        """Jobs whose client was not heard of for the time that is named; they are forgotten."""
        if self.due_ms is not None and now_ms - self.due_ms > LATE_MS:
            self._until_ms = {job_id: now_ms + self._timeouts_ms[job_id] for job_id in self._until_ms}
        found = [(job_id, self._timeouts_ms[job_id]) for job_id, at_ms in self._until_ms.items() if at_ms <= now_ms]
        for job_id, _ in found:
            self.forget(job_id)
        self.due_ms = max(min(self._until_ms.values()), now_ms + CHECK_INTERVAL_MS) if self._until_ms else None
        return found
