"""Who follows a job, or watches the cluster, learns what has changed."""

import asyncio
from collections.abc import Sequence

from firesteel.core.jobmaster.jobmaster import JobMasterCore
from firesteel.core.journal.records import JournalRecord
from firesteel.model.ids import JobID
from firesteel.runtime.jobfacts import JobFact, facts_of

FACTS_MAX = 10_000
"""Facts that wait for one watch; of more, it learns only that there were some."""


class ChangeWatch:
    """What has changed since somebody has looked last: which jobs, and what has become a fact of them."""

    def __init__(self) -> None:
        self.is_over = False
        """Whether whoever leads has gone: there will be no more."""
        self._jobs: dict[JobID, None] = {}
        self._facts: list[JobFact] = []
        self._has_lost_facts = False

    def take(self) -> tuple[list[JobID], list[JobFact], bool]:
        """Jobs that may have changed, facts in their order, and whether some facts are missing; then begin anew."""
        taken = list(self._jobs), self._facts, self._has_lost_facts
        self._jobs, self._facts, self._has_lost_facts = {}, [], False
        return taken

    def add_job(self, job_id: JobID) -> None:
        self._jobs[job_id] = None

    def add_facts(self, facts: Sequence[JobFact]) -> None:
        room = FACTS_MAX - len(self._facts)
        self._facts += facts[:room]
        self._has_lost_facts |= len(facts) > room


class JobChanges:
    """One future for each job that anybody follows, done at the job's next change; and all who watch the cluster."""

    def __init__(self) -> None:
        self._next: dict[JobID, asyncio.Future[None]] = {}
        self._watches: list[ChangeWatch] = []
        self._is_over = False

    def next(self, job_id: JobID) -> asyncio.Future[None]:
        """Shared by all who follow the job, so not to be cancelled: taken before a look, it tells of all after it."""
        if job_id not in self._next:
            self._next[job_id] = asyncio.get_running_loop().create_future()
        return self._next[job_id]

    def watch(self) -> ChangeWatch:
        """What changes from now on, until `unwatch`."""
        watch = ChangeWatch()
        watch.is_over = self._is_over
        self._watches.append(watch)
        return watch

    def unwatch(self, watch: ChangeWatch) -> None:
        if watch in self._watches:
            self._watches.remove(watch)

    def notify(self, job_id: JobID) -> None:
        """The job may have changed."""
        if job_id in self._next:
            self._next.pop(job_id).set_result(None)
        for watch in self._watches:
            watch.add_job(job_id)

    def record(self, core: JobMasterCore, records: Sequence[JournalRecord]) -> None:
        """These have become facts of a job."""
        if self._watches:
            facts = facts_of(core.job.graph.job_id, records, core.topology, core.views.intended)
            for watch in self._watches:
                watch.add_facts(facts)

    def stop(self) -> None:
        """Wake everybody: there will be no more changes here."""
        self._is_over = True
        for watch in self._watches:
            watch.is_over = True
        for job_id in list(self._next):
            self.notify(job_id)
