"""Jobs of which only the result is left: which of them are kept, and what goes with one that is not."""

from collections import deque

from firesteel.core.dispatcher.jobentry import JobEntry, JobStage
from firesteel.core.dispatcher.requests import ForgetGraph, ForgetResult
from firesteel.model.ids import JobID
from firesteel.model.refusals import StorageUnavailable
from firesteel.model.states import JobStatus


class Retention:
    """Keeps `results_max` ended jobs, for `retention_ms` if that is not 0; oldest go first.

    Of `retryable_max` that failed or were cancelled, the graph is kept with the result.
    """

    def __init__(self, results_max: int, retention_ms: int, retryable_max: int) -> None:
        self._results_max, self._retention_ms, self._retryable_max = results_max, retention_ms, retryable_max
        self._done: deque[JobID] = deque()
        """In the order they came to that: a long one is not forgotten as it ends."""
        self._retryable: dict[JobID, None] = {}
        """Those of them whose graph is kept, in the same order."""
        self._forgetting: dict[JobID, int] = {}
        """Jobs of which something is still to go, and in how many steps: what goes must not be a new job's of that id."""

    def refusal(self, job_id: JobID) -> StorageUnavailable | None:
        """Why a job that is not known is not taken under this id yet; None when it is."""
        if job_id not in self._forgetting:
            return None
        return StorageUnavailable(f"an ended job {job_id} is being forgotten: submit it again in a moment")

    def forgotten(self, job_id: JobID) -> None:
        """One of the effects that `expire` gave for a job is done."""
        self._forgetting[job_id] -= 1
        if not self._forgetting[job_id]:
            del self._forgetting[job_id]

    def keeps_graph(self, job: JobEntry) -> bool:
        """Whether the graph of a job that is cleaned up now is to stay."""
        return job.graph is not None and job.status is not JobStatus.FINISHED and self._retryable_max > 0

    def keep(self, job: JobEntry) -> None:
        """Nothing is left of a job but the result, and its graph where that stays."""
        self._done.append(job.job_id)
        if job.keeps_graph:
            self._retryable[job.job_id] = None

    def expire(self, jobs: dict[JobID, JobEntry], now_ms: int) -> list[ForgetResult | ForgetGraph]:
        """Take out of `jobs` what has had its time or its place, and have it forgotten: until that is done, its id is not free."""
        effects: list[ForgetResult | ForgetGraph] = []
        while self._done and (len(self._done) > self._results_max or self._is_over(jobs, now_ms)):
            job = jobs.pop(self._done.popleft())
            self._retryable.pop(job.job_id, None)
            assert job.result is not None, "a job that is done has a result"
            returned = tuple(rows.sha256 for rows in job.result.returned)
            effects.append(ForgetResult(job.job_id, (*returned, *job.artifacts)))
        while len(self._retryable) > self._retryable_max:
            job = jobs[next(iter(self._retryable))]
            del self._retryable[job.job_id]
            effects.append(ForgetGraph(job.job_id, job.artifacts))
            job.graph, job.keeps_graph = None, False
        for effect in effects:
            self._forgetting[effect.job_id] = self._forgetting.get(effect.job_id, 0) + 1
        return effects

    def due_ms(self, jobs: dict[JobID, JobEntry]) -> int | None:
        """When the oldest has had its time; None when that is not limited, or there is none."""
        if not self._done or not self._retention_ms:
            return None
        result = jobs[self._done[0]].result
        assert result is not None, "a job that is done has a result"
        return result.end_time_ms + self._retention_ms

    def _is_over(self, jobs: dict[JobID, JobEntry], now_ms: int) -> bool:
        due_ms = self.due_ms(jobs)
        return due_ms is not None and due_ms <= now_ms

    def validate(self, jobs: dict[JobID, JobEntry]) -> None:
        done = [job.job_id for job in jobs.values() if job.stage is JobStage.DONE]
        assert sorted(done) == sorted(self._done), "jobs that are done are miscounted"
        kept = [job_id for job_id in self._done if jobs[job_id].graph is not None]
        assert kept == list(self._retryable), "graphs of jobs that are done are miscounted"
        assert all(jobs[job_id].keeps_graph for job_id in kept), "a graph is kept that its cleanup deletes"
