"""The doors of the runtime: what adapters implement and endpoints call.

The runtime never imports an adapter; the command line and the mini cluster build them and
hand them in. Fakes for all of these are in `firesteel.testing`.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from firesteel.model.checkpoints import CheckpointOrder, QueryPoint
from firesteel.model.failures import FailureInfo
from firesteel.model.ids import JobID, RegionAttemptID
from firesteel.model.inquiries import AnyAnswer, AnyInquiry
from firesteel.model.metric import MetricValue
from firesteel.model.resources import SparkApplication
from firesteel.model.splits import DrawnSplits
from firesteel.model.stacks import SampledStack, StackOrder
from firesteel.model.streams import QueriesOrder, QuerySight, QueryState, SavepointOrder, StateOrder
from firesteel.model.tasks import Committed, JobInformation, SinkCommit, TaskDeployment, TaskOutcome, TaskProgress


class TaskFailedError(Exception):
    """An attempt failed. Not this process's fault; `failure` says whose."""

    def __init__(self, failure: FailureInfo) -> None:
        super().__init__(failure.headline())
        self.failure = failure


class TaskBackend(Protocol):
    """Runs attempts: a Spark backend with its task processes, or a fake.

    All coroutines run on the worker's event loop and never block it.
    """

    async def start(self) -> None:
        """Begin to warm up; returns at once. Attempts submitted meanwhile wait."""

    async def close(self) -> None:
        """End everything this backend started, also what is still running. Idempotent."""

    async def run(
        self,
        job: JobInformation,
        deployment: TaskDeployment,
        *,
        on_running: Callable[[], None],
        on_progress: Callable[[TaskProgress], None],
        draw_splits: Callable[[int], Awaitable[DrawnSplits]],
    ) -> TaskOutcome:
        """Run one attempt to its end.

        Calls `on_running` once, when the user's code begins, and `on_progress` at a bounded
        rate; `draw_splits` with 0, 1, 2, ... until it says that there is no more, when the attempt draws. Raises TaskFailedError when it fails. When the awaiting task is cancelled, the
        attempt's Spark operations are interrupted, its process is gone and its session closed
        before CancelledError leaves this coroutine.
        """

    def stop_streams(self, attempt: RegionAttemptID, *, drain: bool) -> None:
        """Have the queries of an attempt stop, with `drain` when they have read what is there; `run` then returns.
        Nothing for one that has ended. Repeatable."""

    async def take_savepoint(self, job_id: JobID, order: SavepointOrder) -> None:
        """Write a savepoint of the last committed points of these attempts, which may run. It is there whole, or not at
        all. Idempotent. Raises TaskFailedError."""

    async def read_state(self, order: StateOrder) -> QueryState:
        """What a query keeps, as of its last committed batch. The query does not notice. Raises TaskFailedError."""

    async def look_at_queries(self, order: QueriesOrder) -> tuple[QuerySight, ...]:
        """Where queries write, and what they have read by the end of their newest batches. Raises TaskFailedError."""

    async def sample_stacks(self, order: StackOrder) -> tuple[SampledStack, ...]:
        """Where an attempt that runs here is, in Python and in its JVM, as far as that can be had. Raises TaskFailedError."""

    async def take_checkpoint(self, job_id: JobID, order: CheckpointOrder) -> tuple[QueryPoint, ...]:
        """Look up the last committed points of these attempts, which may run; each is whole. Raises TaskFailedError."""

    async def commit(self, commit: SinkCommit) -> Committed:
        """Make a staged output visible. Idempotent, and resumes what another worker began.

        Raises TaskFailedError when it can't be done (the disk is full, the target is gone).
        """

    async def discard(self, locations: Sequence[str]) -> None:
        """Delete stored results and staged outputs; what is not there is fine."""

    async def retain_checkpoint(self, job_id: JobID, location: str | None) -> None:
        """Have the last committed points of a job that is over stay at `location`, as a savepoint, and delete what else there is of
        its checkpoints; None: below where they are, unless the job was not to leave any. Idempotent, also where other workers
        do it at the same time. Raises OSError when that is to be tried again."""

    async def release_job(self, job_id: JobID, *, is_over: bool = True) -> None:
        """Drop what is cached for a job on this worker: artifacts, sessions, working directories; and when it is over, what
        it shares with other workers, which may otherwise run it."""

    def figures(self) -> Sequence[MetricValue]:
        """What it measures of itself and of what it runs, now. What was not measured is left out."""

    async def call(self, entry_point: str, payload: bytes) -> bytes:
        """Run `module:function(bytes) -> bytes` in a process of its own that has PySpark loaded.

        Raises TaskFailedError. The process ends when the awaiting task is cancelled.
        """

    def applications(self) -> Sequence[SparkApplication]:
        """What it is on clusters; nothing where all of it is on this host."""


class Inheritance(Protocol):
    """What workers that were killed have left, and this worker is to clear once the jobs are over."""

    async def look(self) -> Sequence[JobID]:
        """Jobs of which something is left, also those that were named before."""

    async def release(self, job_id: JobID, *, retains: bool = False) -> None:
        """The job is over: delete what is left of it. `retains`: its last checkpoint is to stay, unless it was not to leave any."""


class InquiryDesk(Protocol):
    """What a worker tells of itself. Nothing that it is asked changes what runs here."""

    async def answer(self, inquiry: AnyInquiry) -> AnyAnswer:
        """Takes its time, never raises for what is asked: InquiryRefused says why there is no better answer."""
