"""Who follows a job is woken when it changes."""

import asyncio

from firesteel.model.ids import JobID


class JobChanges:
    """One future for each job that anybody follows, done at the job's next change."""

    def __init__(self) -> None:
        self._next: dict[JobID, asyncio.Future[None]] = {}

    def next(self, job_id: JobID) -> asyncio.Future[None]:
        """Shared by all who follow the job, so not to be cancelled: taken before a look, it tells of all after it."""
        if job_id not in self._next:
            self._next[job_id] = asyncio.get_running_loop().create_future()
        return self._next[job_id]

    def notify(self, job_id: JobID) -> None:
        """The job may have changed."""
        if job_id in self._next:
            self._next.pop(job_id).set_result(None)

    def stop(self) -> None:
        """Wake everybody: there will be no more changes here."""
        for job_id in list(self._next):
            self.notify(job_id)
