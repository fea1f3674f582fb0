"""What must hold: DESIGN's invariants after every event, and that all comes to an end when faults stop."""

from firesteel.core.dispatcher.dispatcher import DispatcherCore, JobStage
from firesteel.core.jobmaster import JobMasterCore
from firesteel.core.resourcemanager import ResourceManagerCore
from firesteel.core.scheduler import recovery
from firesteel.core.scheduler.scheduler import DefaultScheduler
from firesteel.core.slots.table import TaskSlotState
from firesteel.core.taskexecutor import TaskExecutorCore
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.testing.simulation.cluster import Cluster
from firesteel.testing.simulation.world import Endpoint

RECOVERY_CHECK_EVERY = 100
"""Events between two trial recoveries of a job from its journal."""


class Oracles:
    """Checks one cluster. Raises AssertionError that says what does not hold."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._terminal: dict[JobID, JobStatus] = {}

    def after_event(self, endpoint: Endpoint) -> None:
        """The core that has just moved, and what it may have changed outside."""
        core = endpoint.core
        core.validate()
        if isinstance(core, TaskExecutorCore):
            self._slots_hold_one(core)
        if isinstance(core, DispatcherCore):
            self._results_are_final()
        if self.cluster.world.events % RECOVERY_CHECK_EVERY == 0:
            self._journals_recover()

    def _slots_hold_one(self, core: TaskExecutorCore) -> None:
        seats = [task.allocation_id for job in core.jobs.values() for task in job.tasks.running.values()]
        assert len(set(seats)) == len(seats), "two attempts run in one slot"
        assert len(seats) <= len(core.table.slots), "a worker runs more than it has slots"

    def _results_are_final(self) -> None:
        for job_id, (result, _) in self.cluster.results.items():
            first = self._terminal.setdefault(job_id, result.status)
            assert first is result.status, f"job {job_id} was {first.value} and is now {result.status.value}"
            self._output_is_whole(job_id, result.status)
            made = sum(len(c) for key, c in self.cluster.storage.visible.items() if key.startswith(job_id))
            assert made >= len(result.sinks), f"job {job_id} says that more is visible than is"

    def _output_is_whole(self, job_id: JobID, status: JobStatus) -> None:
        """Readers see each sink's rows once, made in one consistent run; nothing of a cancelled job."""
        visible = {key: made for key, made in self.cluster.storage.visible.items() if key.startswith(job_id)}
        assert all(len(commits) <= 1 for commits in visible.values()), f"a sink of {job_id} is visible twice"
        assert status is not JobStatus.CANCELED or not any(visible.values()), "output of a cancelled job is visible"
        attempts: dict[int, int] = {}
        for commits in visible.values():
            for lineage in commits.values():
                for region, attempt in lineage.items():
                    assert attempts.setdefault(region, attempt) == attempt, f"sinks of {job_id} come from two runs"

    def _journals_recover(self) -> None:
        """A JobMaster started now from the journal alone would stand on its feet."""
        for endpoint in self.cluster.job_masters():
            assert isinstance(endpoint.core, JobMasterCore), "a JobMaster"
            store = self.cluster.jobs.get(endpoint.core.job.graph.job_id)
            if store is None or not store.records:
                continue
            settings = endpoint.core.settings.scheduler
            trial = DefaultScheduler(store.graph, store.state(), settings, lambda record: None)
            recovery.recover(trial, self.cluster.world.now_ms)
            trial.validate()

    # ── the end ──────────────────────────────────────────────────────────────────────────────
    def at_the_end(self, accepted: dict[JobID, None]) -> None:
        """Every acknowledged job has ended and its result can be read; nothing is left of any."""
        for job_id in accepted:
            assert job_id in self.cluster.results, f"job {job_id} was acknowledged and has no result"
        for endpoint in self.cluster.world.endpoints.values():
            self._nothing_left(endpoint)
        assert not self.cluster.jobs, f"jobs are still stored: {list(self.cluster.jobs)}"
        workers = {endpoint.node for endpoint in self.cluster.workers()}
        left = [name for name in self.cluster.storage.stored if self.cluster.storage.owner[name] in workers]
        assert not left, f"stored results or staged outputs are left: {left}"

    def _nothing_left(self, endpoint: Endpoint) -> None:
        core = endpoint.core
        match core:
            case TaskExecutorCore():
                assert not core.jobs, f"{core.address} still holds jobs {list(core.jobs)}"
                assert all(slot.state is TaskSlotState.FREE for slot in core.table.slots), "a slot is not free"
            case ResourceManagerCore():
                total, free = core.slots.tracker.counts()
                assert total == free, f"the ResourceManager counts {total - free} slots as taken"
                assert not core.slots.tracker.jobs, "the ResourceManager still knows jobs"
            case DispatcherCore():
                stages = {job.stage for job in core.jobs.values()}
                assert stages <= {JobStage.DONE}, f"the Dispatcher has jobs in {stages}"
            case _:
                raise AssertionError(f"{core.address} is left over")
