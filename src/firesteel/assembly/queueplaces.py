"""Jobs that stand in the line for slots are shown with their places."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from firesteel.model.counts import counted
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.model.views import JobSummary, JobView, QueuePlace

Seen = TypeVar("Seen", JobView, JobSummary)


def with_place(view: JobView, queue: Mapping[JobID, QueuePlace]) -> JobView:
    """The view of a job with its place in the line for slots, when it stands there."""
    return msgspec.structs.replace(with_reason(view, queue), queue=_place_of(view, queue))


def _place_of(seen: JobView | JobSummary, queue: Mapping[JobID, QueuePlace]) -> QueuePlace | None:
    """None for a job that has ended: a line that is a moment old may still have it."""
    return None if seen.status.is_globally_terminal else queue.get(seen.job_id)


def with_reason(seen: Seen, queue: Mapping[JobID, QueuePlace]) -> Seen:
    """Why the job waits, when it stands in the line for slots."""
    place = _place_of(seen, queue)
    if place is None:
        return seen
    if seen.status is JobStatus.CREATED:
        reason = f"place {place.place} in queue {place.queue}: {place.reason}"
    else:
        count = place.slots_missing
        reason = f"lacks {counted(count, 'slot')}: {place.reason}"
    return msgspec.structs.replace(seen, reason=reason)
