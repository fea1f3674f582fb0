"""What a Dispatcher tells others of its jobs: each state once, when it is a fact."""

from collections.abc import Callable

from firesteel.core.dispatcher.jobentry import JobEntry
from firesteel.model.failures import FailureInfo
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.model.statuschange import JobStatusChange
from firesteel.runtime.services import AnnounceStatus, Clock

FROM_A_FAILURE = (JobStatus.FAILING, JobStatus.RESTARTING)


class StatusAnnouncer:
    """Remembers what was told of each job in one leadership. An end is told when its result is stored, not before."""

    def __init__(self, announce: AnnounceStatus, clock: Clock) -> None:
        self._announce, self._clock = announce, clock
        self._told: dict[JobID, JobStatus] = {}

    def look(self, job: JobEntry, last_failure: Callable[[], FailureInfo | None]) -> None:
        """Tell the job's state if that is news. `last_failure` is asked where a failure is behind it."""
        status, result = job.status, job.result if job.has_ended else None
        if self._told.get(job.job_id) is status or (status.is_globally_terminal and result is None):
            return
        self._told[job.job_id] = status
        failure = last_failure() if status in FROM_A_FAILURE else result.failure if result is not None else None
        self._announce(
            JobStatusChange(
                job_id=job.job_id,
                name=job.name,
                owner=result.owner if result is not None else job.graph.owner if job.graph is not None else "",
                status=status,
                time_ms=result.end_time_ms if result is not None else self._clock.now_ms(),
                failure=failure,
                graph=job.graph,
                result=result,
            )
        )

    def forget(self, job_id: JobID) -> None:
        self._told.pop(job_id, None)
