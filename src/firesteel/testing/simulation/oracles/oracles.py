"""What must hold: DESIGN's invariants after every event, and that all comes to an end when faults stop."""

from collections.abc import Iterable, Mapping

from firesteel.core.dispatcher.dispatcher import DispatcherCore
from firesteel.core.dispatcher.jobentry import JobStage
from firesteel.core.effects import RESOURCE_MANAGER, Effect, Event, LeaderChanged, Received, Started
from firesteel.core.execution.partitions import locations_of
from firesteel.core.execution.topology import Topology
from firesteel.core.jobmaster.jobmaster import JobMasterCore
from firesteel.core.journal.journal import JobState
from firesteel.core.journal.keptfailures import CONCURRENT_FAILURES_MAX
from firesteel.core.resourcemanager.resourcemanager import ResourceManagerCore
from firesteel.core.scheduler.scheduler import DefaultScheduler
from firesteel.core.slots.table import TaskSlotState
from firesteel.core.taskexecutor.taskexecutor import TaskExecutorCore
from firesteel.core.taskexecutor.workeffects import JobReleaseDone, StartTasks
from firesteel.model.ids import Address, FencingToken, JobID, RegionAttemptID, RegionIndex
from firesteel.model.jobgraph import FunctionKind, JobGraph, JobType
from firesteel.model.messages import (
    AnyMessage,
    Envelope,
    HeartbeatRequest,
    Leader,
    RequestSlots,
    SubmitTasks,
    TaskExecutorRefused,
    TaskExecutorRegistered,
)
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult
from firesteel.testing.simulation.cores.cluster import Cluster, labels_of_worker
from firesteel.testing.simulation.cores.outputs import target_of
from firesteel.testing.simulation.cores.settings import RETRYABLE_MAX
from firesteel.testing.simulation.cores.spark import Lineage
from firesteel.testing.simulation.cores.store import HISTORY_SIZE
from firesteel.testing.simulation.cores.world import SimulatedEndpoint
from firesteel.testing.simulation.oracles.attachments import AttachedJobs
from firesteel.testing.simulation.oracles.causes import Causes
from firesteel.testing.simulation.oracles.streams import Streams
from firesteel.testing.simulation.oracles.suspects import Suspects

RECOVERY_CHECK_EVERY = 100
"""Events between two trial recoveries of a job from its journal."""


class Oracles:
    """Checks one cluster. Raises AssertionError that says what does not hold."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.causes, self.attachments = cluster, Causes(cluster), AttachedJobs(cluster)
        self.suspects, self.streams = Suspects(), Streams(cluster)
        self._heard_of: dict[tuple[Address, str], FencingToken] = {}
        self._results: dict[JobID, JobResult] = {}
        self._topologies: dict[JobID, Topology] = {}
        self._sources: dict[JobID, dict[str, frozenset[int]]] = {}

    def after_event(self, endpoint: SimulatedEndpoint, event: Event, effects: list[Effect]) -> None:
        """The core that has just moved, and what it may have changed outside."""
        core = endpoint.core
        core.validate()
        self.causes.after_event(endpoint, event, effects)
        self.streams.after_event(endpoint, event)
        self._stale_words_do_nothing(endpoint, event, effects)
        if isinstance(core, TaskExecutorCore):
            self._slots_hold_one(core)
            self._suspects_run_alone(effects)
            self._labels_are_met(core, effects)
        if isinstance(core, ResourceManagerCore):
            self.suspects.after_event(core, event, effects)
        if isinstance(core, JobMasterCore) and isinstance(event, Started):
            self._ended_jobs_stay(endpoint, core)
        if isinstance(core, DispatcherCore):
            self._results_are_final()
            self.attachments.after_event(endpoint, core, event)
        if self.cluster.world.events % RECOVERY_CHECK_EVERY == 0:
            self._journals_recover()
            self.outputs_are_whole()

    def _stale_words_do_nothing(self, endpoint: SimulatedEndpoint, event: Event, effects: list[Effect]) -> None:
        """Masters answer nothing that was meant for another session, workers no master older than one they know."""
        core = endpoint.core
        if isinstance(core, TaskExecutorCore):
            match event:
                case JobReleaseDone(job_id=job_id):
                    self._heard_of.pop((core.address, job_id), None)
                case LeaderChanged(component=component, leader=Leader(token=token)):
                    self._note_master(core, component, token)
                case Received(envelope=Envelope(sender_token=FencingToken() as token, body=body)):
                    newest = self._note_master(core, component_of(body), token)
                    assert token >= newest or not effects, f"{core.address} obeyed a former master"
                case _:
                    pass
        elif isinstance(event, Received) and event.envelope.recipient_token != core.token:
            assert not effects, f"{core.address} answered what was meant for another session"

    def _note_master(self, core: TaskExecutorCore, component: str, token: FencingToken) -> FencingToken:
        """The newest leader of a component this worker has heard of. Of a job that it has let go of it knows none."""
        key = (core.address, component)
        if component != RESOURCE_MANAGER and component not in core.jobs:
            self._heard_of.pop(key, None)
            return token
        self._heard_of[key] = max(token, self._heard_of.get(key, token))
        return self._heard_of[key]

    def _slots_hold_one(self, core: TaskExecutorCore) -> None:
        seats = [task.allocation_id for job in core.jobs.values() for task in job.tasks.running.values()]
        assert len(set(seats)) == len(seats), "two attempts run in one slot"
        assert len(seats) <= len(core.table.slots), "a worker runs more than it has slots"

    def _suspects_run_alone(self, effects: list[Effect]) -> None:
        """Who was in two backends that died, as its journal knows, starts in no backend with others."""
        for started in (deployment for e in effects if isinstance(e, StartTasks) for deployment in e.deployments):
            attempt = started.attempt
            state = self.cluster.masters.stored().state(attempt.job_id)
            if state is None or len(state.exceptions) == HISTORY_SIZE:
                continue  # The job is over, which this worker has not heard of; or some may have been forgotten.
            known = {(e.region, e.attempt): e for root in state.exceptions for e in root.together()}
            before = [e for e in known.values() if e.region == attempt.region and e.attempt < attempt.attempt]
            deaths = sum(bool(entry.failure.backend) for entry in before)
            assert deaths <= 2, f"{attempt} goes on after {deaths} backends have died under it"
            # A root keeps the first of what came with it: then deaths seen here are the least there were.
            is_cut = any(len(root.concurrent) == CONCURRENT_FAILURES_MAX for root in state.exceptions)
            is_suspect = deaths == 2 or (is_cut and started.alone)
            assert started.alone == is_suspect, f"{attempt} may kill its neighbours a third time"

    def _labels_are_met(self, core: TaskExecutorCore, effects: list[Effect]) -> None:
        """A worker runs only what asks for no label that it lacks."""
        for deployment in (each for e in effects if isinstance(e, StartTasks) for each in e.deployments):
            attempt, labels = deployment.attempt, labels_of_worker(core)
            wanted = self._topology(attempt.job_id).logical_of(attempt.region).resources.labels
            assert set(wanted).issubset(labels), f"{attempt}, which wants {wanted}, runs on a worker with {labels}"

    def _ended_jobs_stay(self, endpoint: SimulatedEndpoint, core: JobMasterCore) -> None:
        """A JobMaster that starts for a job whose result is stored has nothing to do but to clean up."""
        job_id, stored = core.job.graph.job_id, self.cluster.masters.stored()
        if endpoint.node == self.cluster.masters.node and any(each.job_id == job_id for each, _ in stored.results()):
            assert core.view().status.is_globally_terminal, f"{job_id} has ended, and goes on"

    def _results_are_final(self) -> None:
        for result, _ in self.cluster.masters.stored().results():
            first = self._results.setdefault(result.job_id, result)
            assert first is result or first == result, f"the result of {result.job_id} was {first} and is {result}"
            asked = result.job_id in self.cluster.cancelled or result.job_id in self.attachments.given_up
            assert asked or result.status is not JobStatus.CANCELED, f"{result.job_id} was cancelled, and nobody asked"

    def outputs_are_whole(self) -> None:
        """What readers see is what the jobs that have ended say that they have made."""
        for job_id, result in self._results.items():
            self._output_is_whole(job_id, result.status)
            made = sum(len(c) for key, c in self.cluster.storage.visible.items() if key.startswith(job_id))
            assert made >= len(result.sinks), f"job {job_id} says that more is visible than is"

    def _output_is_whole(self, job_id: JobID, status: JobStatus) -> None:
        """Readers see each sink's rows once, made in one consistent run of all they depend on; nothing if cancelled."""
        visible = {key: made for key, made in self.cluster.storage.visible.items() if key.startswith(job_id)}
        if self.cluster.graphs[job_id].job_type is JobType.STREAMING:
            return  # Its queries write by themselves: `Streams` looks at that.
        if job_id not in self._sources:
            self._sources[job_id] = sources_of_sinks(self.cluster.graphs[job_id])
        if status is JobStatus.FINISHED:
            self._splits_are_read_once(job_id, visible.values())
        for target, commits in visible.items():
            for lineage in commits.values():
                read, may_read = lineage.keys(), self._readable(job_id, target)
                assert self._sources[job_id][target] <= read <= may_read, f"{target} was not made from all it reads"
        if status is JobStatus.FINISHED:
            assert all(visible.get(target) for target in self._sources[job_id]), f"a sink of {job_id} is not visible"
        assert all(len(commits) <= 1 for commits in visible.values()), f"a sink of {job_id} is visible twice"
        assert status is not JobStatus.CANCELED or not any(visible.values()), "output of a cancelled job is visible"
        attempts: dict[int, int] = {}
        for commits in visible.values():
            for lineage in commits.values():
                for region, attempt in lineage.items():
                    assert attempts.setdefault(region, attempt) == attempt, f"sinks of {job_id} come from two runs"

    def _readable(self, job_id: JobID, target: str) -> frozenset[int]:
        """What a sink's subtask may have read that does the work of others, too."""
        beside = target.rpartition("/")[0] + "/"
        return frozenset().union(*(each for of, each in self._sources[job_id].items() if of.startswith(beside)))

    def _splits_are_read_once(self, job_id: JobID, visible: Iterable[Mapping[str, Lineage]]) -> None:
        """Each input split of a source is in exactly one of the attempts that what readers see was made from."""
        lineages = (lineage for commits in visible for lineage in commits.values())
        made_from = {region: attempt for lineage in lineages for region, attempt in lineage.items()}
        storage, topology = self.cluster.storage, self._topology(job_id)
        for logical in topology.logical:
            if logical.splits_from is not None:
                attempts = [RegionAttemptID(job_id, RegionIndex(r), made_from[r]) for r in logical.regions().tolist()]
                read = sorted(index for attempt in attempts for index in storage.read[attempt])
                finder = RegionIndex(topology.logical[logical.splits_from].offset)
                found = storage.found[RegionAttemptID(job_id, finder, made_from[finder])]
                assert read == list(range(found)), f"input splits of {job_id} were lost or read twice"

    def _journals_recover(self) -> None:
        """A JobMaster started now from the journal alone would stand on its feet."""
        for endpoint in self.cluster.masters.job_masters():
            assert isinstance(endpoint.core, JobMasterCore), "a JobMaster"
            state = self.cluster.masters.stored().state(endpoint.core.job.graph.job_id)
            if state is None or not state.timestamps_ms:
                continue
            self._results_are_of_one_run(state)
            settings = endpoint.core.settings.scheduler
            trial = DefaultScheduler(endpoint.core.job.graph, state, settings, lambda record: None)
            trial.start(self.cluster.world.now_ms)
            trial.validate(workers=())

    def _results_are_of_one_run(self, state: JobState) -> None:
        """Invariant 1: what is registered was made by the current attempt, of what the current attempts have made."""
        for region, outcome in state.finished.items():
            for location in locations_of(outcome):
                for source, attempt in self.cluster.storage.stored.get(location, {}).items():
                    maker = self._maker_of(state, source)
                    again = region in state.restarting or maker in state.restarting
                    current = state.attempts.get(maker, 0)
                    assert again or attempt == current, f"region {region} of {state.job_id} holds a former result"

    def _maker_of(self, state: JobState, region: int) -> RegionIndex:
        """Who reads the share of a region."""
        logical = self._topology(state.job_id).logical_of(region)
        count, share = state.subtasks.get(RegionIndex(logical.offset), logical.parallelism), region - logical.offset
        return RegionIndex(logical.offset + ((share + 1) * count - 1) // logical.parallelism)

    def _topology(self, job_id: JobID) -> Topology:
        if job_id not in self._topologies:
            self._topologies[job_id] = Topology(self.cluster.graphs[job_id])
        return self._topologies[job_id]

    # ── the end ──────────────────────────────────────────────────────────────────────────────
    def at_the_end(self) -> None:
        """Nothing is left of any job but its result."""
        self._results_are_final()
        stored = self.cluster.masters.stored().graphs()
        assert not stored, f"jobs are still stored: {[graph.job_id for graph in stored]}"
        kept = self.cluster.masters.stored().kept_graphs()
        assert len(kept) <= RETRYABLE_MAX, f"graphs of {len(kept)} ended jobs are kept"
        for endpoint in self.cluster.world.endpoints.values():
            self._nothing_left(endpoint)
        workers = {endpoint.node for endpoint in self.cluster.workers()}
        left = [name for name in self.cluster.storage.stored if self.cluster.storage.owner[name] in workers]
        assert not left, f"stored results or staged outputs are left: {left}"
        for address, spark in self.cluster.sparks.items():
            assert not spark.running, f"attempts still run at {address}"
            assert not spark.drawing, f"attempts still draw input splits at {address}"

    def _nothing_left(self, endpoint: SimulatedEndpoint) -> None:
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


def component_of(body: AnyMessage) -> str:
    """Whose leader says this to a worker."""
    if isinstance(body, SubmitTasks):
        return body.job.graph.job_id
    if isinstance(body, TaskExecutorRegistered | TaskExecutorRefused | RequestSlots | HeartbeatRequest):
        return RESOURCE_MANAGER
    return str(getattr(body, "job_id", ""))


def sources_of_sinks(graph: JobGraph) -> dict[str, frozenset[int]]:
    """Target of each sink subtask -> its region and all regions that it was made from."""
    topology = Topology(graph)
    made_from: list[frozenset[int]] = []
    for logical in topology.logical:
        for subtask in range(logical.parallelism):
            read: list[frozenset[int]] = [frozenset((logical.offset + subtask,))]
            for given in logical.inputs:
                rows = topology.logical[given.producer].regions().tolist()
                read += [made_from[row] for row in (rows if given.all_to_all else rows[subtask : subtask + 1])]
            made_from.append(frozenset().union(*read))
    return {
        target_of(graph, vertex, subtask): made_from[topology.by_vertex[vertex.id].offset + subtask]
        for vertex in graph.vertices
        if vertex.functions[-1].kind is FunctionKind.SINK
        for subtask in range(vertex.parallelism)
    }
