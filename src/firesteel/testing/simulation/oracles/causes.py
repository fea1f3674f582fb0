"""Why attempts end: what is cancelled or run again before its time has a cause in the world, and a new leader is none."""

from collections import Counter

from firesteel.core.effects import Effect, Event, Persisted
from firesteel.core.jobmaster.jobmaster import JobMasterCore
from firesteel.core.journal.journal import JobState
from firesteel.core.taskexecutor.taskexecutor import TaskExecutorCore
from firesteel.core.taskexecutor.workeffects import CancelTask
from firesteel.model.ids import JobID, RegionAttemptID, RegionIndex
from firesteel.model.views import ExceptionEntry
from firesteel.testing.simulation.cores.clients import ENDING
from firesteel.testing.simulation.cores.cluster import Cluster
from firesteel.testing.simulation.cores.world import SimulatedEndpoint


class Causes:
    """Causes are: the attempt itself has failed, its worker is one that something has happened to, or its job ends.

    What happens to masters is none: they die, stand still, are deposed, lose their disk's power or their session, and
    whatever Spark has begun goes on.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._seen: dict[JobID, ExceptionEntry] = {}
        """The newest failure of each job that was looked at."""
        self._heard: dict[str, dict[JobID, int]] = {}
        """By worker, when it has heard last of the masters of its jobs."""

    def after_event(self, endpoint: SimulatedEndpoint, event: Event, effects: list[Effect]) -> None:
        """What a worker ends, and what a JobMaster has just made durable."""
        core = endpoint.core
        if isinstance(core, TaskExecutorCore):
            self._note_silence(endpoint.node, core)
            for effect in effects:
                if isinstance(effect, CancelTask):
                    self._is_to_end(endpoint.node, core, effect.attempt)
        elif isinstance(core, JobMasterCore) and isinstance(event, Persisted):
            state = self.cluster.masters.stored().state(core.job.graph.job_id)
            if state is not None and state.exceptions:
                self._failures_have_causes(state)
                _attempts_are_limited(core, state)

    def _note_silence(self, node: str, core: TaskExecutorCore) -> None:
        """A worker lets go of a job whose master it has not heard of for its grace."""
        heard_ms = {job_id: job.heard_ms for job_id, job in core.jobs.items()}
        for last_ms in {**self._heard.get(node, {}), **heard_ms}.values():
            if core.now_ms - last_ms >= core.settings.master_grace_ms:
                self.cluster.world.disturbed[node] = None
        self._heard[node] = heard_ms

    def _is_to_end(self, node: str, core: TaskExecutorCore, attempt: RegionAttemptID) -> None:
        """Spark is told to abandon an attempt."""
        world, stored = self.cluster.world, self.cluster.masters.stored()
        state = stored.state(attempt.job_id)
        if state is None or state.status in ENDING or state.status.is_globally_terminal or node in world.disturbed:
            return
        current = state.attempts.get(RegionIndex(attempt.region), 0) == attempt.attempt
        has_result = any(result.job_id == attempt.job_id for result, _ in stored.results())
        assert has_result or (current and attempt.region in state.restarting), (
            f"{attempt} was cancelled for nothing: it had not failed, its worker was there, and its job goes on"
        )

    def _is_of_checkpoint(self, entry: ExceptionEntry, state: JobState) -> bool:
        """Whether too many checkpoints have failed, which some worker could not take, or not tell in time."""
        workers = [*state.deployed.values(), *(run.task_manager for runs in state.history.values() for run in runs)]
        has_cause = state.job_id in self.cluster.storage.streams.unseen or any(
            worker in self.cluster.world.disturbed for worker in workers
        )
        return has_cause and entry.failure.message.startswith("checkpoint ")

    def _failures_have_causes(self, state: JobState) -> None:
        """Every failure that is new in the job's history is one of Spark's, or of a worker that something happened to."""
        for entry in (each for root in state.exceptions for each in root.together()):
            if entry == self._seen.get(state.job_id):
                break
            attempt = RegionAttemptID(state.job_id, RegionIndex(entry.region), entry.attempt)
            has_run, has_failed = attempt in self.cluster.storage.begun, attempt in self.cluster.storage.failed
            is_disturbed = entry.task_manager in self.cluster.world.disturbed
            assert not has_run or has_failed or is_disturbed or self._is_of_checkpoint(entry, state), (
                f"{attempt} was given up for nothing: {entry.failure.message}"
            )
        self._seen[state.job_id] = state.exceptions[0]


def _attempts_are_limited(core: JobMasterCore, state: JobState) -> None:
    """No region has failed more often than its vertices say, whatever the job's restart strategy, but of storages that are
    away."""
    told = (each for root in state.exceptions for each in root.together() if not each.failure.may_pass)
    failed = dict.fromkeys((each.region, each.attempt) for each in told)
    for region, times in Counter(region for region, _ in failed if region >= 0).items():
        stated = (v.max_attempts for v in core.topology.logical_of(RegionIndex(region)).vertices)
        limit = min((attempts for attempts in stated if attempts is not None), default=times)
        assert times <= limit, f"region {region} of {state.job_id} was begun again after {limit} failures of its own"
