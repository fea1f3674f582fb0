"""A contract-only Spark: attempts that read, write, take time, fail, and finish after a cancel.

What an attempt writes carries its lineage: which attempt of which region it was made from. So an
oracle can tell whether a sink's rows come from one consistent run.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import assert_never

from firesteel.core.effects import Effect
from firesteel.core.execution.topology import Topology
from firesteel.core.taskexecutor.workeffects import (
    AnswerInquiry,
    CancelTask,
    CheckpointDone,
    CommitSink,
    Discard,
    GiveSplits,
    GiveUp,
    JobReleaseDone,
    ReleaseJob,
    SavepointDone,
    SinkCommitDone,
    SplitsWanted,
    StartTasks,
    StopTask,
    TakeCheckpoint,
    TakeSavepoint,
    TaskExecutorEffect,
    TaskProgressed,
    TasksChanged,
    UnwatchLeader,
    WatchLeader,
)
from firesteel.model import tasks
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID, RegionAttemptID, RegionIndex
from firesteel.model.jobgraph import ExchangeMode, FunctionKind, JobGraph, JobType
from firesteel.model.reports import SplitRequest, TaskStateUpdate
from firesteel.model.splits import DrawnSplits, RangeInputSplit
from firesteel.model.states import ExecutionState
from firesteel.model.tasks import JobInformation, ResultPartition, SinkCommit, TaskDeployment, TaskOutcome, TaskProgress
from firesteel.testing.enumeration import range_enumeration
from firesteel.testing.simulation.cores.outputs import commit_of, refusal_of, target_of
from firesteel.testing.simulation.cores.world import SimulatedEndpoint, World
from firesteel.testing.simulation.streams.queries import FakeQueries
from firesteel.testing.simulation.streams.saving import Saving
from firesteel.testing.simulation.streams.storage import StreamStorage

SPLITS_MAX = 60
"""Input splits of a source."""

SIZES = (0, 1, 1, 4, -1)
"""Bytes of a stored result: another attempt may make more or less. -1: nobody has counted them."""

SESSION_MS_MAX = 3_000
"""Time from the directories of a stream's attempt to the start of its queries, at most."""

HANG_MS_MAX = 180_000
"""Time an attempt may hang: a limit on its run time ends it then."""

Lineage = dict[int, int]
"""Region -> attempt, of everything a piece of data was made from."""


@dataclass(slots=True)
class Storage:
    """Directories all workers see: stored results and staged outputs by location, visible outputs by target."""

    stored: dict[str, Lineage] = field(default_factory=dict)
    owner: dict[str, str] = field(default_factory=dict)
    """The worker that wrote a location."""
    visible: dict[str, dict[str, Lineage]] = field(default_factory=dict)
    """Target -> commit id -> lineage."""
    job_of: dict[str, JobID] = field(default_factory=dict)
    read: dict[RegionAttemptID, tuple[int, ...]] = field(default_factory=dict)
    """Input splits that a finished attempt has read."""
    found: dict[RegionAttemptID, int] = field(default_factory=dict)
    """How many input splits an attempt has found."""
    begun: dict[RegionAttemptID, None] = field(default_factory=dict)
    """Attempts that have ever run."""
    failed: dict[RegionAttemptID, None] = field(default_factory=dict)
    """Those of them that have failed by themselves."""
    streams: StreamStorage = field(default_factory=StreamStorage)


@dataclass(slots=True)
class Drawing:
    """An attempt that draws input splits."""

    end: Callable[[], None]
    """What it does when there are no more."""
    read: list[int] = field(default_factory=list)
    finder: int = -1
    """The attempt that has found the splits."""


class FakeSpark:
    """Runs the attempts of one worker in a world."""

    def __init__(self, world: World, storage: Storage, worker: str) -> None:
        self.world, self.storage, self.worker = world, storage, worker
        self.running: dict[RegionAttemptID, bool] = {}
        """Attempts that run, and whether they are being cancelled."""
        self.drawing: dict[RegionAttemptID, Drawing] = {}
        """Attempts that draw input splits."""
        self.is_dead = False
        self._alone: dict[RegionAttemptID, None] = {}
        """Those of them that have a backend of their own; all others share one."""
        self._endpoint: SimulatedEndpoint | None = None
        self.queries = FakeQueries(world, storage.streams, worker, self._queries_ended)
        self.saving = Saving(world, storage.streams, worker, lambda: self.is_dead)

    def interpret(self, endpoint: SimulatedEndpoint, effect: Effect) -> None:
        """Do what a TaskExecutor's core wants of its own process."""
        assert isinstance(effect, TaskExecutorEffect), f"not an effect of a TaskExecutor: {effect}"
        match effect:
            case StartTasks():
                for deployment in effect.deployments:
                    self._start(endpoint, effect.job, deployment)
            case CancelTask():
                self._cancel(endpoint, effect.attempt)
            case GiveSplits():
                self._read_splits(endpoint, effect.attempt, effect.drawn)
            case Discard():
                for location in effect.locations:
                    self.storage.stored.pop(location, None)
            case CommitSink():
                delay_ms = self.world.stream("commit").randint(0, 50)
                if self.world.mishaps.sometimes("commit-slow"):
                    delay_ms += 30_000
                self.world.after(delay_ms, lambda: self._commit(endpoint, effect.job_id, effect.commit))
            case ReleaseJob():
                self._release(endpoint, effect)
            case StopTask(attempt, drain):
                delay_ms = self.world.stream("stop").randint(0, self.world.faults.cancel_ms_max)
                self.world.after(delay_ms, lambda: self.queries.stop(attempt, drain=drain))
            case TakeSavepoint(job_id, order):
                done = partial(SavepointDone, job_id, order.savepoint_id)
                self.saving.save(job_id, order, lambda failure: self.world.give(endpoint, done(failure)))
            case TakeCheckpoint(job_id, order):
                found = partial(CheckpointDone, job_id, order.checkpoint_id)
                self.saving.look(job_id, order, lambda points, why: self.world.give(endpoint, found(points, why)))
            case WatchLeader() | UnwatchLeader() | GiveUp() | AnswerInquiry():
                raise AssertionError(f"others do this, and nobody inquires here: {effect}")
            case _:
                assert_never(effect)

    def die(self) -> None:
        """The worker's process is gone, with its stored results when it is unlucky."""
        self.is_dead = True
        self.queries.die()
        self.running.clear()
        self.drawing.clear()
        self._alone.clear()
        if self.world.mishaps.strikes("partitions lost", self.world.faults.partition_loss):
            for location in [name for name, worker in self.storage.owner.items() if worker == self.worker]:
                if "/sink/" not in location:
                    self.storage.stored.pop(location, None)

    def _start(self, endpoint: SimulatedEndpoint, job: JobInformation, deployment: TaskDeployment) -> None:
        assert deployment.attempt not in self.running, f"{deployment.attempt} was started twice"
        self.running[deployment.attempt] = False
        self.storage.begun[deployment.attempt] = None
        if deployment.alone:
            self._alone[deployment.attempt] = None
        chance = self.world.stream("spark")
        mishaps, faults = self.world.mishaps, self.world.faults
        running_ms = chance.randint(0, 20)
        end_ms = running_ms + chance.randint(0, faults.task_ms_max)
        if mishaps.sometimes("runs-late"):
            running_ms += 3_000
        if mishaps.sometimes("ends-at-once"):
            running_ms, end_ms = 1, 0
        if mishaps.strikes("hang", faults.hang):
            end_ms += self.world.stream("hang:by").randint(1, HANG_MS_MAX)
        if job.graph.job_type is JobType.STREAMING:
            self.world.after(running_ms, lambda: self._start_queries(endpoint, job, deployment))
            return
        running = TaskStateUpdate(attempt=deployment.attempt, state=ExecutionState.RUNNING)
        self.world.after(running_ms, lambda: self._change(endpoint, running))
        if mishaps.sometimes("progress-told"):
            progress = TaskProgressed(TaskProgress(attempt=deployment.attempt, tasks_total=1))
            self.world.after(chance.randint(0, end_ms + 20), lambda: self.world.give(endpoint, progress))
        if any(vertex.draws_splits for vertex in job.graph.vertices if vertex.id in deployment.vertices):
            self.drawing[deployment.attempt] = Drawing(lambda: self._end(endpoint, job, deployment))
            self.world.after(end_ms, lambda: self._want_splits(endpoint, deployment.attempt, 0))
        else:
            self.world.after(end_ms, lambda: self._end(endpoint, job, deployment))

    def _start_queries(self, endpoint: SimulatedEndpoint, job: JobInformation, deployment: TaskDeployment) -> None:
        """A stream's, which run until they are stopped; not of an attempt that was cancelled before."""
        attempt = deployment.attempt
        if self.running.get(attempt, True):
            return
        self._endpoint = endpoint
        failure = self.queries.prepare(job.graph, deployment)
        if failure is not None:
            self._queries_ended(attempt, failure)
            return

        def begin() -> None:
            """When the task process and its session are there."""
            if self.running.get(attempt, True):
                return
            failure = self.queries.start(attempt)
            if failure is not None:
                self._queries_ended(attempt, failure)
            elif attempt in self.running:  # else its queries have read all there is already
                self._change(endpoint, TaskStateUpdate(attempt=attempt, state=ExecutionState.RUNNING))

        self.world.after(self.world.stream("session").randint(0, SESSION_MS_MAX), begin)

    def _queries_ended(self, attempt: RegionAttemptID, failure: FailureInfo | None) -> None:
        if attempt not in self.running or self._endpoint is None:
            return
        state = ExecutionState.FINISHED if failure is None else ExecutionState.FAILED
        outcome = TaskOutcome() if failure is None else None
        self._finish(self._endpoint, TaskStateUpdate(attempt=attempt, state=state, failure=failure, outcome=outcome))

    def _want_splits(self, endpoint: SimulatedEndpoint, attempt: RegionAttemptID, number: int) -> None:
        if attempt in self.running:
            self.world.give(endpoint, SplitsWanted(SplitRequest(attempt, number, self.worker)))

    def _read_splits(self, endpoint: SimulatedEndpoint, attempt: RegionAttemptID, drawn: DrawnSplits) -> None:
        """Take some time for a draw, or fail of it; then ask for the next one."""
        if attempt not in self.running:
            return
        drawing = self.drawing[attempt]
        drawing.finder = int(drawn.schema)
        if drawn.is_end:
            drawing.end()
            return
        drawing.read += [split.lower for split in drawn.splits if isinstance(split, RangeInputSplit)]
        chance = self.world.stream("spark-draw")
        delay_ms = chance.randint(0, self.world.faults.task_ms_max // 4)
        if self.world.mishaps.strikes("draw fails", self.world.faults.task_failure / 4):
            self.world.after(delay_ms, lambda: self._fail(endpoint, attempt))
        else:
            self.world.after(delay_ms, lambda: self._want_splits(endpoint, attempt, drawn.number + 1))

    def _fail(self, endpoint: SimulatedEndpoint, attempt: RegionAttemptID) -> None:
        if attempt in self.running:
            failure = FailureInfo(kind=FailureKind.USER, message="the user's code raised")
            self._finish(endpoint, TaskStateUpdate(attempt=attempt, state=ExecutionState.FAILED, failure=failure))

    def _change(self, endpoint: SimulatedEndpoint, update: TaskStateUpdate) -> None:
        if update.attempt in self.running:
            self.world.give(endpoint, TasksChanged((update,)))

    def _end(self, endpoint: SimulatedEndpoint, job: JobInformation, deployment: TaskDeployment) -> None:
        attempt = deployment.attempt
        mishaps, faults = self.world.mishaps, self.world.faults
        if attempt not in self.running:
            return
        if self.running[attempt] and not mishaps.strikes("finish after cancel", faults.finish_after_cancel):
            return
        if deployment.inputs and mishaps.strikes("unreadable", faults.unreadable):
            self.storage.stored.pop(self.world.stream("unreadable:by").choice(deployment.inputs).location, None)
        missing = tuple(part.location for part in deployment.inputs if part.location not in self.storage.stored)
        if self._is_poison(attempt) or mishaps.strikes("backend death", faults.backend_death):
            self._kill_backend(endpoint, attempt)
        elif missing:
            kind, text = FailureKind.PARTITION, "a stored result is gone"
            failure = FailureInfo(kind=kind, message=text, partitions=missing)
            self._finish(endpoint, TaskStateUpdate(attempt=attempt, state=ExecutionState.FAILED, failure=failure))
        elif (refused := refusal_of(job.graph, deployment)) is not None:
            self._finish(endpoint, TaskStateUpdate(attempt=attempt, state=ExecutionState.FAILED, failure=refused))
        elif mishaps.strikes("task failure", faults.task_failure):
            failure = FailureInfo(kind=FailureKind.USER, message="the user's code raised")
            if self.world.stream("storage away").random() < 0.5:
                failure = FailureInfo(kind=FailureKind.ENVIRONMENT, message="a storage is away", may_pass=True)
            self._finish(endpoint, TaskStateUpdate(attempt=attempt, state=ExecutionState.FAILED, failure=failure))
        else:
            outcome = self._write(job, deployment)
            self._finish(endpoint, TaskStateUpdate(attempt=attempt, state=ExecutionState.FINISHED, outcome=outcome))

    def _is_poison(self, attempt: RegionAttemptID) -> bool:
        poison = self.world.faults.poison
        return poison > 0 and random.Random(f"{self.world.seed}:{attempt.job_id}:{attempt.region}").random() < poison

    def _kill_backend(self, endpoint: SimulatedEndpoint, killer: RegionAttemptID) -> None:
        """The JVM the attempt runs in dies, and all attempts in it fail."""
        shared = [attempt for attempt in self.running if attempt not in self._alone]
        backend = f"spark-{len(self.storage.failed)}"  # another one each time: at least one attempt fails of it
        failure = FailureInfo(kind=FailureKind.ENVIRONMENT, message="the Spark backend has died", backend=backend)
        for attempt in [killer] if killer in self._alone else shared:
            if attempt in self.running:  # the master may have ended it meanwhile
                self._finish(endpoint, TaskStateUpdate(attempt=attempt, state=ExecutionState.FAILED, failure=failure))

    def _finish(self, endpoint: SimulatedEndpoint, update: TaskStateUpdate) -> None:
        del self.running[update.attempt]
        self.queries.end(update.attempt)
        self.drawing.pop(update.attempt, None)
        self._alone.pop(update.attempt, None)
        if update.state is ExecutionState.FAILED:
            self.storage.failed[update.attempt] = None
        self.world.give(endpoint, TasksChanged((update,)))

    def _write(self, job: JobInformation, deployment: TaskDeployment) -> TaskOutcome:
        attempt, graph = deployment.attempt, job.graph
        if attempt in self.drawing:
            self.storage.read[attempt] = tuple(self.drawing[attempt].read)
        heads = [vertex.functions[0] for vertex in graph.vertices if vertex.id in deployment.vertices]
        if heads[0].kind is FunctionKind.SPLITS:
            count = self.storage.found[attempt] = self.world.stream("splits").randint(0, SPLITS_MAX)
            return TaskOutcome(splits=range_enumeration(count, str(attempt.attempt)))
        shares = deployment.shares(next(v.parallelism for v in graph.vertices if v.id in deployment.vertices))
        lineage: Lineage = {attempt.region - deployment.subtask + share: attempt.attempt for share in shares}
        if attempt in self.drawing:
            lineage[finder_of(graph, attempt.region)] = self.drawing[attempt].finder
        for part in deployment.inputs:
            lineage.update(self.storage.stored[part.location])
        read_by_others = {edge.source for edge in graph.edges if edge.exchange is ExchangeMode.BLOCKING}
        partitions, sinks = list[ResultPartition](), list[SinkCommit]()
        for vertex_id in deployment.vertices:
            vertex = next(vertex for vertex in graph.vertices if vertex.id == vertex_id)
            base = f"{graph.job_id}/{attempt.region}-{attempt.attempt}"
            for dataset in graph.datasets:
                if dataset.producer == vertex_id and dataset.id in read_by_others:
                    location = self._store(f"{base}/result/{dataset.id}", graph.job_id, lineage)
                    sized = partial(ResultPartition, size_bytes=self.world.stream("sizes").choice(SIZES))
                    partitions.append(sized(dataset_id=dataset.id, subtask=deployment.subtask, location=location))
            for share in shares if vertex.functions[-1].kind is FunctionKind.SINK else ():
                staging = self._store(f"{base}/sink/{vertex_id}/{share}", graph.job_id, lineage)
                sinks.append(commit_of(attempt, vertex_id, target_of(graph, vertex, share), staging))
        return TaskOutcome(partitions=tuple(partitions), sinks=tuple(sinks))

    def _store(self, location: str, job_id: JobID, lineage: Lineage) -> str:
        self.storage.stored[location] = dict(lineage)
        self.storage.owner[location] = self.worker
        self.storage.job_of[location] = job_id
        return location

    def _cancel(self, endpoint: SimulatedEndpoint, attempt: RegionAttemptID) -> None:
        if attempt not in self.running:
            return  # It has just ended; a worker that stands still has not heard of it.
        self.running[attempt] = True
        delay_ms = self.world.stream("cancel").randint(0, self.world.faults.cancel_ms_max)

        def gone() -> None:
            if self.running.get(attempt):
                self._finish(endpoint, TaskStateUpdate(attempt=attempt, state=ExecutionState.CANCELED))

        self.world.after(delay_ms, gone)

    def _commit(self, endpoint: SimulatedEndpoint, job_id: JobID, commit: SinkCommit) -> None:
        failure: FailureInfo | None = None
        if self.is_dead and self.world.stream("commit of the dead").random() < 0.5:
            return
        done = self.storage.visible.setdefault(commit.target, {})
        if commit.commit_id not in done:
            if self.world.mishaps.strikes("commit failure", self.world.faults.commit_failure):
                passes = self.world.stream("room is made").random() < 0.5
                failure = FailureInfo(kind=FailureKind.ENVIRONMENT, message="the disk is full", may_pass=passes)
            elif commit.staging not in self.storage.stored:
                failure = FailureInfo(kind=FailureKind.ENVIRONMENT, message="the staged output is gone")
            else:
                done[commit.commit_id] = self.storage.stored.pop(commit.staging)
        if self.world.mishaps.sometimes("commit-repeated"):
            failure = FailureInfo(kind=FailureKind.ENVIRONMENT, message="nobody knows whether it was done")
        self.world.give(endpoint, SinkCommitDone(job_id, commit.commit_id, failure, tasks.Committed()))

    def _release(self, endpoint: SimulatedEndpoint, effect: ReleaseJob) -> None:
        assert not any(attempt.job_id == effect.job_id for attempt in self.running), "released while it runs"
        self.queries.release(effect.job_id, is_over=not effect.is_given_up, retained=effect.retained)
        for location in effect.locations:
            self.storage.stored.pop(location, None)
        for location, job_id in self.storage.job_of.items():
            mine = self.storage.owner[location] == self.worker
            if job_id == effect.job_id and (mine or "/result/" in location):
                self.storage.stored.pop(location, None)
        delay_ms = 30_000 if self.world.mishaps.sometimes("release-slow") else 1
        self.world.after(delay_ms, lambda: self.world.give(endpoint, JobReleaseDone(effect.job_id)))


def finder_of(graph: JobGraph, region: RegionIndex) -> RegionIndex:
    """The region that finds the input splits which `region` draws."""
    topology = Topology(graph)
    found = topology.logical_of(region).splits_from
    assert found is not None, "it draws splits"
    return RegionIndex(topology.logical[found].offset)
