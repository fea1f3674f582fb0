"""The death of a Spark backend is one failure, of all attempts that were in it. Pure functions of the journal.

Their worker tells of each by itself, in one message or in several. The first of them is answered, and the others are part
of that. This is decided before a restart strategy is asked: Flink's fixed-delay and failure-rate count each failure that
they are asked about, and so do these.
"""

from collections.abc import Iterable

from firesteel.core.journal.journal import JobState
from firesteel.model.failures import FailureInfo
from firesteel.model.ids import RegionIndex, ResourceID


def told_of_death(
    state: JobState, failure: FailureInfo, worker: ResourceID | None, regions: Iterable[int]
) -> tuple[RegionIndex, ...]:
    """Regions whose failures were answered already, and were of the backend that these regions, too, have failed of;
    ascending. An attempt that was begun after it had been told of was in another backend, whatever its name."""
    if not failure.backend:
        return ()
    begun_ms = max(_begun_ms(state, region) for region in regions)
    known = (each for root in state.exceptions for each in root.together())
    return tuple(
        sorted(
            {
                RegionIndex(each.region)
                for each in known
                if (each.failure.backend, each.task_manager) == (failure.backend, worker)
                and each.timestamp_ms > begun_ms
            }
        )
    )


def _begun_ms(state: JobState, region: int) -> int:
    """When the attempt that has just ended was deployed."""
    return state.history[RegionIndex(region)][-1].deployed_ms
