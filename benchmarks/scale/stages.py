"""A job of two vertices, stage by stage, from its submission through failures to the release of what it has left."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from benchmarks.scale.cluster import RESTART_DELAY_MS, Cluster
from benchmarks.scale.jobs import outcome
from firesteel.core.dispatcher.graphcheck import check_job_graph
from firesteel.core.effects import LeaderChanged
from firesteel.core.jobmaster.jobmaster import JobMasterCore
from firesteel.core.scheduler.commit import undeleted
from firesteel.core.scheduler.executions import Executions
from firesteel.core.scheduler.failover import regions_to_restart
from firesteel.core.scheduler.strategy import schedulable
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import RegionAttemptID
from firesteel.model.jobgraph import JobGraph, decode_job_graph, encode_job_graph
from firesteel.model.messages import Leader
from firesteel.model.reports import TaskStateUpdate
from firesteel.model.states import ExecutionState, JobStatus


@dataclass(frozen=True, slots=True)
class Stage:
    """What one stage has cost, and the masters' share of it by account."""

    master_s: float
    workers_s: float
    accounts: dict[str, float]
    messages: dict[str, int]
    frame_bytes: int
    records: dict[str, int]


@dataclass(slots=True)
class Run:
    """One job on one cluster. `stages` has what was measured so far, by name."""

    cluster: Cluster
    graph: JobGraph
    stages: dict[str, Stage] = field(default_factory=dict)
    at_peak: Callable[["Run"], None] | None = None
    """Called once while all of the last vertex runs."""
    core: JobMasterCore = field(init=False)

    @property
    def executions(self) -> Executions:
        return self.core._scheduler._executions

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure what happens within."""
        cluster = self.cluster
        spent, sent, records = dict(cluster.spent), Counter(cluster.sent), Counter(cluster.records)
        frame_bytes = cluster.sent_bytes.total()
        master_s = cluster.master_s()
        yield
        self.stages[name] = Stage(
            cluster.master_s() - master_s,
            cluster.spent["workers"] - spent.get("workers", 0.0),
            {name: value - spent.get(name, 0.0) for name, value in cluster.spent.items()},
            dict(cluster.sent - sent),
            cluster.sent_bytes.total() - frame_bytes,
            dict(cluster.records - records),
        )

    # ── stages ───────────────────────────────────────────────────────────────────────────────
    def initialise(self) -> None:
        """From the graph's JSON to a JobMaster that knows which regions may run, and has asked for their slots."""
        data, cluster = encode_job_graph(self.graph), self.cluster
        cluster.timed("journal", lambda: cluster.keep(self.graph))
        with self.stage("job initialisation"):
            graph = cluster.timed("job_master", lambda: decode_job_graph(data))
            cluster.timed("job_master", lambda: check_job_graph(graph))
            self.core = cluster.start_job_master(graph)
        with self.stage("init scheduling"):
            cluster.timed("job_master", lambda: schedulable(self.executions.graph, self.executions.partitions))

    def deploy(self, name: str) -> None:
        """Slots are found and offered, and everything that can run is deployed."""
        with self.stage(name):
            self.cluster.carry()

    def run_all(self, name: str) -> None:
        """Whatever was deployed says that it runs."""
        attempts = self._attempts()
        updates = [TaskStateUpdate(attempt=attempt, state=ExecutionState.RUNNING) for attempt in attempts]
        with self.stage(name):
            self.cluster.change(updates)

    def finish_all(self, name: str, last: str) -> None:
        """Whatever runs finishes, one attempt after the other; the end of the last one is a stage of its own."""
        *updates, final = [self._finished(attempt) for attempt in self._attempts()]
        with self.stage(name):
            self.cluster.change(updates)
        with self.stage(last):
            self.cluster.change([final])

    def fail_one(self, name: str, lost: tuple[str, ...] = ()) -> None:
        """One attempt fails, for want of the results `lost` if there are any; what has to run again is deployed."""
        attempt = self._attempts()[-1]
        kind = FailureKind.PARTITION if lost else FailureKind.USER
        failure = FailureInfo(kind=kind, message="it failed", partitions=lost)
        update = TaskStateUpdate(attempt=attempt, state=ExecutionState.FAILED, failure=failure)
        with self.stage(name):
            self.cluster.change([update])
            self.cluster.end_canceled()
            self.cluster.pass_time(RESTART_DELAY_MS)

    def compute_restart(self, name: str, region: int) -> None:
        """What has to run again when one region fails."""
        failed = np.array([region])
        with self.stage(name):
            self.cluster.timed(
                "job_master", lambda: regions_to_restart(self.executions.graph, self.executions.partitions, failed)
            )

    def beat(self, name: str) -> None:
        """One heartbeat of all with all."""
        with self.stage(name):
            self.cluster.now_ms += 10_000
            for account in ("resource_manager", "job_master", "workers"):
                self.cluster.beat(account)

    def take_over(self, name: str) -> None:
        """The master is gone; the next one reads what is stored and adopts what workers report."""
        cluster = self.cluster
        cluster.drop(self.core.address)
        with self.stage(name):
            state = cluster.timed("journal", lambda: cluster.store.state(self.graph.job_id))
            self.core = cluster.start_job_master(self.graph, state)
            assert self.core.token is not None, "a leader has a token"
            leader = Leader(self.core.address, self.core.token)
            for worker in cluster.workers:
                cluster.give(worker, LeaderChanged(self.graph.job_id, leader))
            cluster.carry()

    def all_locations(self) -> tuple[str, ...]:
        return undeleted(self.executions.state, self.graph)

    def count(self, state: ExecutionState) -> int:
        return self.executions.graph.count(state)

    @property
    def status(self) -> JobStatus:
        return self.executions.state.status

    def _attempts(self) -> list[RegionAttemptID]:
        return list(self.cluster.running)

    def _finished(self, attempt: RegionAttemptID) -> TaskStateUpdate:
        left = outcome(self.graph, self.executions.topology, attempt)
        return TaskStateUpdate(attempt=attempt, state=ExecutionState.FINISHED, outcome=left)


def run_batch(run: Run, parallelism: int) -> None:
    """All stages of a batch job; the cluster has a slot for each subtask of one vertex."""
    cluster = run.cluster
    run.initialise()
    run.deploy("sources deployed")
    assert len(cluster.running) == parallelism, "all sources run"
    run.run_all("sources say that they run")
    run.finish_all("all sources but one finish", "the last finishes, sinks deployed")
    assert len(cluster.running) == parallelism, "all sinks run"
    run.run_all("sinks say that they run")
    run.beat("heartbeat")
    run.compute_restart("what one sink's failure restarts, computed", 2 * parallelism - 1)
    run.compute_restart("what a source's failure restarts, computed", 0)
    run.fail_one("first failure")
    run.fail_one("one sink fails and runs again")
    assert len(cluster.running) == parallelism, "all sinks run"
    if run.at_peak is not None:
        run.at_peak(run)
    run.take_over("takeover by another master")
    assert (
        len(cluster.running)
        == parallelism
        == run.count(ExecutionState.RUNNING) + run.count(ExecutionState.INITIALIZING)
    ), "all sinks run"
    run.fail_one("global failure, all cancelled and sources deployed", run.all_locations())
    assert len(cluster.running) == parallelism, "all sources run again"
    assert not run.count(ExecutionState.FINISHED), "all results are withdrawn"
    run.finish_all("all sources but one finish again", "the last finishes again, sinks deployed")
    run.finish_all("all sinks but one finish", "the last finishes, all committed and released")
    assert run.status is JobStatus.FINISHED, "the job finishes"


def run_streaming(run: Run, parallelism: int) -> None:
    """All stages of a job of fused regions; the cluster has a slot for each."""
    cluster = run.cluster
    run.initialise()
    run.deploy("all deployed")
    assert len(cluster.running) == parallelism, "all run"
    run.run_all("all say that they run")
    run.beat("heartbeat")
    run.compute_restart("what one failure restarts, computed", parallelism - 1)
    run.fail_one("first failure")
    run.fail_one("one region fails and runs again")
    if run.at_peak is not None:
        run.at_peak(run)
    run.take_over("takeover by another master")
    assert len(cluster.running) == parallelism, "all run"
