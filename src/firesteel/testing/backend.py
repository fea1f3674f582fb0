"""A TaskBackend without Spark: attempts do what a test's script says, and say what they did.

One `TaskScript` stands for what all workers of a cluster see: the stored results, the staged and
the visible outputs. Each worker has a FakeTaskBackend of it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from firesteel.adapters.blob.local import BlobSource
from firesteel.adapters.spark.children.forkclient import ForkServer
from firesteel.model.checkpoints import CheckpointOrder, QueryPoint
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID, RegionAttemptID
from firesteel.model.metric import MetricValue
from firesteel.model.options import Configuration
from firesteel.model.resources import SparkApplication
from firesteel.model.splits import DrawnSplits, RangeInputSplit
from firesteel.model.stacks import SampledStack, StackOrder
from firesteel.model.streams import QueriesOrder, QueryProgress, QuerySight, QueryState, SavepointOrder, StateOrder
from firesteel.model.tasks import (
    Committed,
    IOMetrics,
    JobInformation,
    SinkCommit,
    TaskDeployment,
    TaskOutcome,
    TaskProgress,
)
from firesteel.runtime.ports import TaskFailedError
from firesteel.testing.outcomes import counted, outcome_of


@dataclass(slots=True)
class AttemptRecord:
    """What was seen of one attempt. `end` is RUNNING, FINISHED, FAILED or CANCELED."""

    attempt: RegionAttemptID
    functions: tuple[str, ...]
    subtask: int
    worker: str
    end: str = "RUNNING"
    splits: list[int] = field(default_factory=list)
    """Lower ends of the input splits it was given."""


@dataclass(slots=True)
class TaskScript:
    """What attempts are to do, by function name, and what they did. Without a word they finish at once."""

    attempts: list[AttemptRecord] = field(default_factory=list)
    """In the order in which they began."""
    stored: dict[str, RegionAttemptID] = field(default_factory=dict)
    """Stored results and staged outputs by location."""
    visible: dict[str, list[str]] = field(default_factory=dict)
    """Ids of the commits that readers of a target see, once for each time they were carried out."""
    retained: dict[JobID, str | None] = field(default_factory=dict)
    """Where the last checkpoints of jobs were to stay."""
    released: list[tuple[str, JobID]] = field(default_factory=list)
    """(worker, job)."""
    pause_s: Callable[[], float] = lambda: 0.0
    """How long an attempt, or a commit, takes."""
    is_stubborn: bool = False
    """Attempts that are cancelled end only when their backend is closed."""
    close_error: Exception | None = None
    """What closing a backend raises, after it was done."""
    sink_note: str = ""
    """What is told of each commit."""
    disk_errors: int = 0
    """Deletions that are still to fail."""
    discard_s: float = 0.0
    """How long a deletion takes."""
    io: IOMetrics | None = None
    """What each attempt has read; what it stores and stages has as many rows and bytes as this says."""
    stopped: list[tuple[RegionAttemptID, bool]] = field(default_factory=list)
    """Streaming attempts that were told to finish, and whether to drain; they are released by that."""
    savepoints: list[SavepointOrder] = field(default_factory=list)
    """Those that were written."""
    savepoint_error: str = ""
    """Why none can be written."""
    queries: tuple[QueryProgress, ...] = ()
    """What each attempt tells of its queries."""
    sights: dict[str, QuerySight] = field(default_factory=dict)
    stacks: tuple[SampledStack, ...] = ()
    """What is seen of every attempt."""
    stack_orders: list[StackOrder] = field(default_factory=list)
    """What is found of queries, by uid."""
    state: QueryState | None = None
    """What is read of the state of any query."""
    state_orders: list[StateOrder] = field(default_factory=list)
    checkpoints: list[CheckpointOrder] = field(default_factory=list)
    """Those that points were looked up for."""
    checkpoint_error: str = ""
    """Why none can be."""
    committed_batch: int = 7
    """Batch that every query has committed last."""
    start_error: Exception | None = None
    """What the start of a backend raises."""
    figures: list[MetricValue] = field(default_factory=list)
    """What each backend measures."""
    backends: list["FakeTaskBackend"] = field(default_factory=list)
    _held: dict[str, asyncio.Event] = field(default_factory=dict)
    _failures: dict[str, list[FailureInfo]] = field(default_factory=dict)
    _commit_failures: dict[str, int] = field(default_factory=dict)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def backend(self, config: Configuration, work_dir: Path, blobs: BlobSource) -> "FakeTaskBackend":
        """Makes a worker's backend: what MiniCluster takes as `backend`."""
        made = FakeTaskBackend(self, work_dir)
        self.backends.append(made)
        return made

    # ── what attempts are to do ──────────────────────────────────────────────────────────────
    def hold(self, *functions: str) -> None:
        """Attempts that hold one of these run until `release`."""
        for name in functions:
            self._held[name] = asyncio.Event()

    def release(self, *functions: str) -> None:
        for name in functions:
            if name in self._held:
                self._held.pop(name).set()

    def fail(
        self,
        function: str,
        *,
        times: int = 1,
        kind: FailureKind = FailureKind.USER,
        message: str = "as the script says",
    ) -> None:
        """The next attempts of it fail, after they were released."""
        failure = FailureInfo(kind=kind, message=message, vertex=function)
        self._failures.setdefault(function, []).extend([failure] * times)

    def fail_commits(self, function: str, times: int) -> None:
        self._commit_failures[function] = times

    # ── what they did ────────────────────────────────────────────────────────────────────────
    async def until(self, seen: Callable[[], bool]) -> None:
        """Wait until something an attempt did makes `seen` true."""
        async with self._changed:
            await self._changed.wait_for(seen)

    async def until_running(self, function: str, count: int = 1) -> list[AttemptRecord]:
        """Wait until that many attempts of it run at once; returns them."""
        await self.until(lambda: len(self.of(function, "RUNNING")) >= count)
        return self.of(function, "RUNNING")

    def of(self, function: str, end: str | None = None) -> list[AttemptRecord]:
        """Attempts of a function, oldest first."""
        return [seen for seen in self.attempts if function in seen.functions and end in (None, seen.end)]

    def ends(self, function: str) -> list[str]:
        return [seen.end for seen in self.of(function)]

    async def note(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    # ── for backends ─────────────────────────────────────────────────────────────────────────
    def gates(self, functions: tuple[str, ...]) -> list[asyncio.Event]:
        """What an attempt that begins now will wait for."""
        return [self._held[name] for name in functions if name in self._held]

    async def work(self, functions: tuple[str, ...], gates: list[asyncio.Event]) -> None:
        """Take as long as the script says. Raises TaskFailedError when it says so."""
        await asyncio.sleep(self.pause_s())
        for gate in gates:
            await gate.wait()
        for name in functions:
            if self._failures.get(name):
                raise TaskFailedError(self._failures[name].pop(0))

    def refuses(self, commit: SinkCommit) -> bool:
        left = self._commit_failures.get(commit.function, 0)
        self._commit_failures[commit.function] = left - 1
        return left > 0


class FakeTaskBackend:
    """Runs the attempts of one worker by its script. Implements runtime.ports.TaskBackend."""

    def __init__(self, script: TaskScript, work_dir: Path) -> None:
        self.script, self.worker, self.work_dir = script, work_dir.name, work_dir
        self._forks: ForkServer | None = None
        self.started = False
        self._closed = asyncio.Event()

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    async def start(self) -> None:
        if self.script.start_error is not None:
            raise self.script.start_error
        self.started = True

    async def close(self) -> None:
        self._closed.set()
        if self._forks is not None:
            await self._forks.close()
        if self.script.close_error is not None:
            raise self.script.close_error

    async def run(
        self,
        job: JobInformation,
        deployment: TaskDeployment,
        *,
        on_running: Callable[[], None],
        on_progress: Callable[[TaskProgress], None],
        draw_splits: Callable[[int], Awaitable[DrawnSplits]],
    ) -> TaskOutcome:
        assert self.started, "not started yet"
        assert not self.closed, "closed already"
        names = {vertex.id: [function.name for function in vertex.functions] for vertex in job.graph.vertices}
        functions = tuple(name for vertex in deployment.vertices for name in names[vertex])
        record = AttemptRecord(deployment.attempt, functions, deployment.subtask, self.worker)
        assert all(seen.attempt != record.attempt for seen in self.script.attempts), f"{record.attempt} ran before"
        self.script.attempts.append(record)
        gates = self.script.gates(functions)
        on_running()
        on_progress(_progress(deployment, functions, self.script))
        try:
            await self.script.note()
            if any(vertex.draws_splits for vertex in job.graph.vertices if vertex.id in deployment.vertices):
                await self._draw_all(record, draw_splits)
            await self.script.work(functions, gates)
            outcome = self._write(job, deployment)
        except TaskFailedError:
            record.end = "FAILED"
            raise
        except asyncio.CancelledError:
            if self.script.is_stubborn:
                await self._closed.wait()
            record.end = "CANCELED"
            raise
        else:
            record.end = "FINISHED"
            return outcome
        finally:
            await self.script.note()

    async def _draw_all(self, record: AttemptRecord, draw_splits: Callable[[int], Awaitable[DrawnSplits]]) -> None:
        number = 0
        while not (drawn := await draw_splits(number)).is_end:
            record.splits += [split.lower for split in drawn.splits if isinstance(split, RangeInputSplit)]
            await self.script.note()
            await asyncio.sleep(self.script.pause_s())
            number += 1

    def stop_streams(self, attempt: RegionAttemptID, *, drain: bool) -> None:
        self.script.stopped.append((attempt, drain))
        self.script.release(
            *(name for each in self.script.attempts if each.attempt == attempt for name in each.functions)
        )

    async def take_savepoint(self, job_id: JobID, order: SavepointOrder) -> None:
        if self.script.savepoint_error:
            raise TaskFailedError(FailureInfo(kind=FailureKind.ENVIRONMENT, message=self.script.savepoint_error))
        self.script.savepoints.append(order)

    async def read_state(self, order: StateOrder) -> QueryState:
        self.script.state_orders.append(order)
        if self.script.state is None:
            raise TaskFailedError(FailureInfo(kind=FailureKind.NON_RECOVERABLE, message="no state is kept here"))
        return self.script.state

    async def sample_stacks(self, order: StackOrder) -> tuple[SampledStack, ...]:
        self.script.stack_orders.append(order)
        return self.script.stacks

    async def look_at_queries(self, order: QueriesOrder) -> tuple[QuerySight, ...]:
        return tuple(self.script.sights.get(uid, QuerySight(uid=uid)) for uid in order.uids)

    async def take_checkpoint(self, job_id: JobID, order: CheckpointOrder) -> tuple[QueryPoint, ...]:
        if self.script.checkpoint_error:
            raise TaskFailedError(FailureInfo(kind=FailureKind.ENVIRONMENT, message=self.script.checkpoint_error))
        self.script.checkpoints.append(order)
        batch = self.script.committed_batch
        return tuple(
            QueryPoint(uid=uid, batch=batch, query_id="q", oldest_batch=0, size_bytes=1_000)
            for of in order.queries
            for uid in of.uids
        )

    async def commit(self, commit: SinkCommit) -> Committed:
        await asyncio.sleep(self.script.pause_s())
        if self.script.refuses(commit):
            raise TaskFailedError(FailureInfo(kind=FailureKind.ENVIRONMENT, message="the disk is full"))
        done = self.script.visible.setdefault(commit.target, [])
        assert commit.staging in self.script.stored or commit.commit_id in done, f"{commit.staging} is gone"
        self.script.stored.pop(commit.staging, None)
        if commit.commit_id not in done:
            done.append(commit.commit_id)
        return Committed(self.script.sink_note)

    async def discard(self, locations: Sequence[str]) -> None:
        await asyncio.sleep(self.script.discard_s)
        if self.script.disk_errors:
            self.script.disk_errors -= 1
            raise OSError("the disk does not answer")
        for location in locations:
            self.script.stored.pop(location, None)

    async def retain_checkpoint(self, job_id: JobID, location: str | None) -> None:
        self.script.retained[job_id] = location

    async def release_job(self, job_id: JobID, *, is_over: bool = True) -> None:
        self.script.released.append((self.worker, job_id))
        await self.script.note()

    def applications(self) -> Sequence[SparkApplication]:
        return ()

    def figures(self) -> list[MetricValue]:
        return self.script.figures

    async def call(self, entry_point: str, payload: bytes) -> bytes:
        """In a real process, without a JVM."""
        if self._forks is None:
            self._forks = ForkServer(self.work_dir / "logs" / "forkserver.log", spares=0)
        return await self._forks.call(entry_point, payload)

    def _write(self, job: JobInformation, deployment: TaskDeployment) -> TaskOutcome:
        missing = tuple(part.location for part in deployment.inputs if part.location not in self.script.stored)
        if missing:
            text = "a stored result is gone"
            raise TaskFailedError(FailureInfo(kind=FailureKind.PARTITION, message=text, partitions=missing))
        outcome = counted(outcome_of(job, deployment), self.script.io)
        for location in (*(part.location for part in outcome.partitions), *(sink.staging for sink in outcome.sinks)):
            self.script.stored[location] = deployment.attempt
        return outcome


def _progress(deployment: TaskDeployment, functions: tuple[str, ...], script: TaskScript) -> TaskProgress:
    return TaskProgress(
        attempt=deployment.attempt,
        function=functions[-1],
        tasks_total=1,
        rows_read=sum(query.input_rows for query in script.queries),
        queries=script.queries,
    )
