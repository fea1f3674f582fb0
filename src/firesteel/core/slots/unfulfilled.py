"""Needs that no registered worker could meet, however long a job waited, and since when that is so."""

from collections.abc import Collection

from firesteel.core.slots.queue import lacking, offered_profiles
from firesteel.core.slots.tracker import SlotTracker
from firesteel.model.configuration import duration_text
from firesteel.model.ids import JobID
from firesteel.model.resources import ResourceProfile


class UnfulfillableRequests:
    """Flink's rule for batch jobs: a request fails when nothing that fits was there for `timeout_ms`, taken or free.

    A job that waits for slots which others hold is in line, and its request does not fail.
    """

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._since_ms: dict[tuple[JobID, ResourceProfile], int] = {}

    def overdue(self, tracker: SlotTracker, now_ms: int) -> list[tuple[JobID, ResourceProfile, str]]:
        """The needs whose time is over, with the reason. A need that is named, or could be met meanwhile, has all of its
        time again: the job may ask once more."""
        offered = offered_profiles(tracker)
        unmet = [
            (job_id, profile)
            for job_id, job in tracker.jobs.items()
            for profile, _ in job.requirements
            if not any(slot.fits(profile) for slot in offered)
        ]
        self._since_ms = {need: self._since_ms.get(need, now_ms) for need in unmet}
        over = [need for need, since_ms in self._since_ms.items() if now_ms - since_ms >= self._timeout_ms]
        self._since_ms.update(dict.fromkeys(over, now_ms))
        limit = duration_text(self._timeout_ms)
        return [(job_id, profile, _reason(offered, profile, limit)) for job_id, profile in over]


def _reason(offered: Collection[ResourceProfile], profile: ResourceProfile, limit: str) -> str:
    if offered:
        return f"no registered worker had {lacking(offered, profile)} for {limit}, which is slot.request.timeout"
    return f"no worker was registered for {limit}, which is slot.request.timeout: start one first"
