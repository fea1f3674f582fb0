"""Jobs that are over, of which some worker that was cut off as they ended has something left."""

from collections.abc import Iterable

from firesteel.core.dispatcher.requests import ReleaseJob, StopJobMaster
from firesteel.core.effects import Effect
from firesteel.model.ids import JobID


class Leftovers:
    """Such a job is led once more, under a new token, by what has workers let go of it, until they have."""

    def __init__(self) -> None:
        self._led: dict[JobID, None] = {}

    def found(self, over: Iterable[JobID]) -> list[Effect]:
        """Workers have something of these jobs, which are over."""
        fresh = dict.fromkeys(job_id for job_id in over if job_id not in self._led)
        self._led.update(fresh)
        return [ReleaseJob(job_id) for job_id in fresh]

    def end(self, job_id: JobID) -> list[Effect]:
        """Workers have let go of it, or that broke, or its id is a new job's. Does nothing for others."""
        if job_id not in self._led:
            return []
        del self._led[job_id]
        return [StopJobMaster(job_id)]
