"""CheckpointCoordinator: when a checkpoint is taken, of what, and whether it counts.

A query commits its batches by itself, so nothing is stopped or copied: the workers look where the queries have come to, and
when all have said so that is the checkpoint, a record in the journal. It counts when that is durable.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from msgspec.structs import replace

from firesteel.core.checkpoint.claims import subsumed_claim, subsumes_claim
from firesteel.core.checkpoint.orders import Looking, looking_of
from firesteel.core.journal.records import CheckpointCompleted, CheckpointGivenUp, CheckpointTriggered
from firesteel.core.scheduler.executions import Executions
from firesteel.model.checkpoints import CheckpointOrder, CheckpointSettings, QueryPoint
from firesteel.model.failures import OVERTAKEN, FailureInfo, FailureKind
from firesteel.model.ids import ResourceID
from firesteel.model.refusals import CheckpointFailed
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.streams import SavepointQueries

PATIENCE_MAX_MS = 30_000
"""A worker looks no longer at a query that goes on faster than it can look, whatever the checkpoint's timeout."""


@dataclass(slots=True)
class PendingCheckpoint:
    """A checkpoint that was triggered, and is not complete."""

    checkpoint_id: int
    due_ms: int
    looking: Looking
    """What each worker is to look at."""
    waiting: list[int]
    """Requests to answer."""
    unsent: dict[ResourceID, None] = field(default_factory=dict)
    """Workers that are to be asked, or asked again."""
    points: dict[ResourceID, tuple[QueryPoint, ...]] = field(default_factory=dict)
    """What workers have acknowledged."""
    declined: FailureInfo | None = None
    is_excused: bool = False
    """Who has declined it could not look, and the queries are well: one goes on too fast, or was on another worker, which may
    not share its checkpoints."""
    is_asked: bool = False
    """Workers may have heard of it: their time runs."""

    @property
    def queries(self) -> dict[ResourceID, tuple[SavepointQueries, ...]]:
        return self.looking.queries


class CheckpointCoordinator:
    """Owned by one DefaultScheduler, whose executions it looks at. One checkpoint is under way at a time."""

    def __init__(self, executions: Executions, settings: CheckpointSettings) -> None:
        self._executions, self.settings = executions, settings
        self._pending: PendingCheckpoint | None = None
        self._asked: list[int] = []
        """Requests for a checkpoint that has not begun."""
        self._said_subsumed = False
        """Workers were told, in this leadership, that the savepoint which the job has claimed is not needed any more."""
        self._runs_since_ms: int | None = None
        """Since when all queries run."""

    def trigger(self, request_id: int) -> None:
        """Somebody wants one, as soon as the one under way has ended. `advance` answers."""
        self._asked.append(request_id)

    def acknowledged(
        self, worker: ResourceID, checkpoint_id: int, points: tuple[QueryPoint, ...], failure: FailureInfo | None
    ) -> None:
        """A worker has looked, or could not. A late or repeated answer changes nothing; `advance` draws the conclusion."""
        pending = self._pending
        if pending is None or pending.checkpoint_id != checkpoint_id or worker not in pending.queries:
            return
        wanted = sorted(uid for of in pending.queries[worker] for uid in of.uids)
        if failure is not None:
            excuses = worker == pending.looking.deputy or failure.exception == OVERTAKEN
            pending.is_excused = pending.is_excused or excuses
            pending.declined = pending.declined or failure
        elif sorted(point.uid for point in points) == wanted:
            pending.points.setdefault(worker, points)

    def all_said(self, now_ms: int) -> None:
        """All that was decided is durable, and has left. Before, a slow journal takes the time, and no worker is at fault."""
        pending = self._pending
        if pending is not None and not pending.is_asked:
            pending.is_asked, pending.due_ms = True, now_ms + self.settings.timeout_ms

    def worker_reported(self, worker: ResourceID) -> None:
        """What was said to it may have been lost: it is said again."""
        pending = self._pending
        if pending is not None and worker in pending.queries and worker not in pending.points:
            pending.unsent[worker] = None

    def advance(self, workers: Collection[ResourceID], now_ms: int) -> FailureInfo | None:
        """Do what is due. Returns why the job's queries are to be restarted, if they are: too many have failed."""
        if not (self._executions.is_stream or self._asked):
            return None
        refusal = self._refusal(workers)
        self._runs_since_ms = None if refusal else self._runs_since_ms if self._runs_since_ms is not None else now_ms
        verdict = self._follow(refusal, workers, now_ms)
        if verdict is None and self._pending is None:
            self._begin_if_due(refusal, workers, now_ms)
        return verdict

    def _refusal(self, workers: Collection[ResourceID]) -> str:
        """Why no checkpoint can be taken now; in a sentence."""
        executions = self._executions
        graph, state, columns = executions.topology.graph, executions.state, executions.graph
        if not executions.is_stream:
            return f"job {graph.job_id} ({graph.name}) is a batch job: it has no checkpoints"
        if state.status is not JobStatus.RUNNING:
            return f"job {graph.job_id} ({graph.name}) is {state.status.value}"
        if state.stop is not None:
            return f"job {graph.job_id} ({graph.name}) is being stopped with a savepoint"
        running = [
            each for each in columns.in_state(ExecutionState.RUNNING).tolist() if columns.worker_of(each) in workers
        ]
        ended = columns.count(ExecutionState.FINISHED)
        if not running or len(running) + ended < executions.topology.region_count:
            return f"not all queries of job {graph.job_id} ({graph.name}) run: ask again when they do"
        return ""

    # ── the one under way ────────────────────────────────────────────────────────────────────
    def _follow(self, refusal: str, workers: Collection[ResourceID], now_ms: int) -> FailureInfo | None:
        """See what has become of it."""
        history, pending = self._executions.state.checkpoints, self._pending
        if pending is None:
            if (
                history.in_progress is not None and not self._executions.state.status.is_globally_terminal
            ):  # a former leader has begun it
                self._give_up(history.in_progress.checkpoint_id, [], "the master has changed", now_ms)
            return None
        if refusal or pending.looking != looking_of(self._executions, workers):
            self._give_up(pending.checkpoint_id, pending.waiting, refusal or "a query was restarted", now_ms)
        elif pending.declined is not None and pending.is_excused:
            self._give_up(pending.checkpoint_id, pending.waiting, pending.declined.message, now_ms)
        elif pending.declined is not None:
            return self._fail(pending, pending.declined.message, now_ms)
        elif len(pending.points) == len(pending.queries):
            self._complete(pending, now_ms)
        elif now_ms >= pending.due_ms and pending.is_asked:
            seconds = f"{self.settings.timeout_ms / 1000:g} s"
            return self._fail(pending, f"it expired: execution.checkpointing.timeout is {seconds}", now_ms)
        else:
            self._send(pending, now_ms)
        return None

    def _complete(self, pending: PendingCheckpoint, now_ms: int) -> None:
        self._pending = None
        vertex_of = {
            function.uid: vertex.id
            for vertex in self._executions.topology.graph.vertices
            for function in vertex.functions
        }
        found = (
            replace(point, vertex_id=vertex_of[point.uid]) for points in pending.points.values() for point in points
        )
        points = tuple(sorted(found, key=lambda each: each.uid))
        self._executions.record(
            CheckpointCompleted(
                at_ms=now_ms,
                checkpoint_id=pending.checkpoint_id,
                points=points,
                retained_max=self.settings.retained_max,
                subsumes_claim=subsumes_claim(self._executions, self.settings),
            )
        )
        self._executions.output.replies += [(request_id, pending.checkpoint_id) for request_id in pending.waiting]
        if not self._said_subsumed:  # what is lost on the way is said again by the next leader, and with the job's end
            subsumed = subsumed_claim(self._executions.topology.graph, self._executions.state)
            self._said_subsumed = bool(subsumed)
            self._executions.output.discard += subsumed

    def _fail(self, pending: PendingCheckpoint, message: str, now_ms: int) -> FailureInfo | None:
        """A failure that counts. With too many in a row the queries are restarted, and counting begins anew."""
        in_a_row = self._executions.state.checkpoints.failed_in_a_row + 1
        is_too_many = in_a_row > self.settings.tolerable_failures
        self._give_up(pending.checkpoint_id, pending.waiting, message, now_ms, 0 if is_too_many else in_a_row)
        if not is_too_many:
            return None
        told = f"checkpoint {pending.checkpoint_id} failed, and execution.checkpointing.tolerable-failed-checkpoints is"
        text = f"{told} {self.settings.tolerable_failures}: {message}"
        return FailureInfo(kind=FailureKind.ENVIRONMENT, message=text)

    def _give_up(
        self, checkpoint_id: int, waiting: list[int], message: str, now_ms: int, in_a_row: int | None = None
    ) -> None:
        """It has failed; how many have in a row is left as it is where that is nobody's fault."""
        self._pending = None
        known = self._executions.state.checkpoints.failed_in_a_row
        self._executions.record(
            CheckpointGivenUp(
                at_ms=now_ms,
                checkpoint_id=checkpoint_id,
                failure=message,
                failed_in_a_row=known if in_a_row is None else in_a_row,
            )
        )
        error = CheckpointFailed(f"checkpoint {checkpoint_id} failed: {message}")
        self._executions.output.replies += [(request_id, error) for request_id in waiting]

    def _send(self, pending: PendingCheckpoint, now_ms: int) -> None:
        output = self._executions.output
        for worker in pending.unsent:
            order = CheckpointOrder(
                checkpoint_id=pending.checkpoint_id,
                queries=pending.queries[worker],
                checkpoints_dir=self.settings.checkpoints_dir,
                patience_ms=min(self.settings.timeout_ms // 2, PATIENCE_MAX_MS),
            )
            output.checkpoint.setdefault(worker, []).append(order)
        pending.unsent.clear()
        output.wake(pending.due_ms if pending.is_asked else now_ms + self.settings.timeout_ms)

    # ── the next one ─────────────────────────────────────────────────────────────────────────
    def _begin_if_due(self, refusal: str, workers: Collection[ResourceID], now_ms: int) -> None:
        if refusal:
            self._executions.output.replies += [(each, CheckpointFailed(refusal)) for each in self._asked]
            self._asked = []
        elif self._asked:
            self._begin(workers, now_ms)
        elif self.settings.interval_ms:
            due_ms = self._next_ms(now_ms)
            if now_ms >= due_ms:
                self._begin(workers, now_ms)
            else:
                self._executions.output.wake(due_ms)

    def _next_ms(self, now_ms: int) -> int:
        """When the next one is due that nobody has asked for."""
        since_ms = now_ms if self._runs_since_ms is None else self._runs_since_ms
        last = next((each for each in self._executions.state.checkpoints.newest if not each.savepoint), None)
        if last is None or last.triggered_ms < since_ms:
            return since_ms + self.settings.interval_ms
        return max(last.triggered_ms + self.settings.interval_ms, last.ended_ms + self.settings.min_pause_ms)

    def _begin(self, workers: Collection[ResourceID], now_ms: int) -> None:
        checkpoint_id = self._executions.state.checkpoints.last_id + 1
        looking = looking_of(self._executions, workers)
        waiting, self._asked = self._asked, []
        due_ms = now_ms + self.settings.timeout_ms
        self._executions.record(CheckpointTriggered(at_ms=now_ms, checkpoint_id=checkpoint_id))
        self._pending = PendingCheckpoint(checkpoint_id, due_ms, looking, waiting, dict.fromkeys(looking.queries))
        self._send(self._pending, now_ms)
