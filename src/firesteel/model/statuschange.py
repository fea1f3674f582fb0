"""A change of a job's state, as those are told who want to know."""

import msgspec

from firesteel.model.failures import FailureInfo
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult


class JobStatusChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change. After a change of leader the state of a job may be told again: an end by the same `id`, which has the time of
    the end; any other state by a new one, which has the time at which the new leader heard of it."""

    job_id: JobID
    name: str
    owner: str
    status: JobStatus
    time_ms: int
    """When the job ended; of other states, when the Dispatcher heard of it."""
    failure: FailureInfo | None = None
    """What it fails or restarts from, or has failed from."""
    graph: JobGraph | None = None
    """None of a job that ended under a former leader."""
    result: JobResult | None = None
    """How it ended, once that is stored."""

    @property
    def id(self) -> str:
        return f"{self.job_id}-{self.status.value}-{self.time_ms}"
