"""Savepoints of one job: who writes them, and what becomes of the job then."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np

from firesteel.core.checkpoint.orders import queries_of
from firesteel.core.checkpoint.requests import TriggerSavepoint
from firesteel.core.execution.states import TERMINAL
from firesteel.core.journal.records import SavepointCompleted, StopGivenUp, StopIntended
from firesteel.core.scheduler.executions import Executions
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import RegionAttemptID, RegionIndex, ResourceID
from firesteel.model.jobgraph import JobType
from firesteel.model.refusals import SavepointFailed
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.streams import AfterSavepoint, SavepointOrder, savepoint_name


@dataclass(frozen=True, slots=True)
class SavepointSettings:
    directory: str = ""
    """Where savepoints are made when nobody says where."""
    timeout_ms: int = 600_000
    checkpoints_dir: str = ""
    """The job's own, where its workers find the checkpoints."""


@dataclass(slots=True)
class PendingSavepoint:
    """A savepoint that was asked for and is not there yet."""

    savepoint_id: str
    location: str
    after: AfterSavepoint
    due_ms: int
    waiting: list[int] = field(default_factory=list)
    """Requests to answer."""
    worker: ResourceID | None = None
    """Who writes it, once somebody was asked to."""


class Savepoints:
    """Owned by one DefaultScheduler, whose executions it looks at. Replies go out with the scheduler's output."""

    def __init__(self, executions: Executions, settings: SavepointSettings) -> None:
        self._executions, self._settings = executions, settings
        self._pending: dict[str, PendingSavepoint] = {}
        self._told: dict[RegionAttemptID, None] = {}
        """Attempts that were told to stop."""

    def trigger(self, request_id: int, request: TriggerSavepoint, now_ms: int) -> None:
        """Begin a savepoint, unless there is a reason against it, which is the answer. Who asks again, also after a change of
        leader, waits for the one that was begun."""
        self._go_on_stopping(now_ms)
        state, reply = self._executions.state, self._executions.output.replies
        known = self._pending.get(request.savepoint_id)
        done = [each for each in state.savepoints if each.savepoint_id == request.savepoint_id]
        if known is not None:
            known.waiting.append(request_id)
        elif done:
            reply.append((request_id, done[0].location))
        elif refusal := self._refusal(request):
            reply.append((request_id, SavepointFailed(refusal)))
        else:
            self._begin(request_id, request, now_ms)

    def _begin(self, request_id: int, request: TriggerSavepoint, now_ms: int) -> None:
        directory = (request.directory or self._settings.directory).rstrip("/")
        job_id = self._executions.topology.graph.job_id
        location = f"{directory}/{savepoint_name(job_id, request.savepoint_id)}"
        if request.after.stops_first:
            drain = request.after is AfterSavepoint.DRAIN
            ended = tuple(self._finished())
            self._executions.record(
                StopIntended(
                    at_ms=now_ms, savepoint_id=request.savepoint_id, location=location, drain=drain, ended=ended
                )
            )
        due_ms = now_ms + self._settings.timeout_ms
        made = PendingSavepoint(request.savepoint_id, location, request.after, due_ms, [request_id])
        self._pending[request.savepoint_id] = made

    def _refusal(self, request: TriggerSavepoint) -> str:
        """Why no savepoint can be taken now; in a sentence."""
        executions = self._executions
        graph, state = executions.topology.graph, executions.state
        if graph.job_type is not JobType.STREAMING:
            return f"job {graph.job_id} ({graph.name}) is a batch job: it has nothing to take a savepoint of"
        if state.status in _ENDING:
            return f"job {graph.job_id} ({graph.name}) is {state.status.value}: it can't be saved any more"
        if state.stop is not None:
            return f"job {graph.job_id} ({graph.name}) is being stopped with a savepoint already"
        if not (request.directory or self._settings.directory):
            return "no directory for savepoints is named, and none is configured: execution.checkpointing.savepoint-dir"
        running, ended = executions.graph.count(ExecutionState.RUNNING) + self._unheard, len(self._finished())
        is_running = running > 0 and running + ended == executions.topology.region_count
        if state.status is not JobStatus.RUNNING or not is_running:
            return f"not all queries of job {graph.job_id} ({graph.name}) run: ask again when they do"
        return ""

    @property
    def _unheard(self) -> int:
        """Attempts that may run: a new master has not heard of them yet."""
        return self._executions.graph.count(ExecutionState.RECONCILING)

    def answered(self, savepoint_id: str, failure: FailureInfo | None, now_ms: int) -> bool:
        """A worker has written a savepoint, or could not. True when the job is to be cancelled now. A late answer changes
        nothing."""
        pending = self._pending.get(savepoint_id)
        if pending is None:
            return False
        if failure is not None:
            self._give_up(pending, failure, now_ms)
            return False
        del self._pending[savepoint_id]
        self._executions.record(
            SavepointCompleted(
                at_ms=now_ms,
                savepoint_id=savepoint_id,
                location=pending.location,
                triggered_ms=pending.due_ms - self._settings.timeout_ms,
            )
        )
        self._executions.output.replies += [(request_id, pending.location) for request_id in pending.waiting]
        return pending.after is AfterSavepoint.CANCEL

    def worker_reported(self, worker: ResourceID) -> None:
        """What was said to it may have been lost: it is said again."""
        for pending in self._pending.values():
            if pending.worker == worker:
                pending.worker = None
        self._told.clear()

    def advance(self, workers: Collection[ResourceID], now_ms: int) -> None:
        """Do what is due: have queries stop, have workers write, give up what takes too long."""
        state = self._executions.state
        self._revive(now_ms)
        self._go_on_stopping(now_ms)
        for pending in tuple(self._pending.values()):
            ended = state.status is not JobStatus.RUNNING and not pending.after.stops_first
            if ended or state.status in _ENDING:
                self._give_up(pending, _failure(f"the job is {state.status.value}"), now_ms)
            elif now_ms >= pending.due_ms:
                seconds = f"{self._settings.timeout_ms / 1000:g} s"
                text = f"the savepoint was not complete within execution.checkpointing.timeout of {seconds}"
                self._give_up(pending, _failure(text), now_ms)
            elif pending.worker is not None and pending.worker not in workers:
                self._give_up(pending, _failure(f"worker {pending.worker}, which wrote the savepoint, is lost"), now_ms)
            else:
                self._executions.output.wake(pending.due_ms)
                self._get_on(pending, workers, now_ms)

    def _go_on_stopping(self, now_ms: int) -> None:
        """A former leader may have begun it."""
        state = self._executions.state
        stop = state.stop
        if stop is not None and state.lacks_savepoint and stop.savepoint_id not in self._pending:
            after = AfterSavepoint.DRAIN if stop.drain else AfterSavepoint.STOP
            due_ms = now_ms + self._settings.timeout_ms
            self._pending[stop.savepoint_id] = PendingSavepoint(stop.savepoint_id, stop.location, after, due_ms)

    def _get_on(self, pending: PendingSavepoint, workers: Collection[ResourceID], now_ms: int) -> None:
        if pending.after.stops_first and not self._executions.graph.all_finished:
            self._stop(drain=pending.after is AfterSavepoint.DRAIN)
        elif pending.worker is None and not self._unheard:
            self._send_order(pending, workers, now_ms)

    def _stop(self, *, drain: bool) -> None:
        """Have attempts that run stop. Those that are still to run are told when they do."""
        graph, output = self._executions.graph, self._executions.output
        output.drains = drain
        for region in graph.in_state(ExecutionState.RUNNING).tolist():
            attempt, worker = graph.attempt_id(region), graph.worker_of(region)
            assert worker is not None, "an attempt that runs has a worker"
            if attempt not in self._told:
                self._told[attempt] = None
                output.stop.setdefault(worker, []).append(attempt)

    def _send_order(self, pending: PendingSavepoint, workers: Collection[ResourceID], now_ms: int) -> None:
        """To the worker that the first of the queries is, or was, on; any other finds their checkpoints where all share
        them, and says so where they don't."""
        first = self._executions.graph.worker_of(0)
        chosen = first if first in workers else next(iter(workers), None)
        if chosen is not None:
            pending.worker = chosen
            self._executions.output.save.setdefault(chosen, []).append(self._order(pending, now_ms))

    def _order(self, pending: PendingSavepoint, now_ms: int) -> SavepointOrder:
        topology = self._executions.topology
        graph = topology.graph
        return SavepointOrder(
            savepoint_id=pending.savepoint_id,
            location=pending.location,
            queries=tuple(queries_of(self._executions, logical) for logical in topology.logical),
            job_name=graph.name,
            vertices=tuple((each.uid, each.name) for vertex in graph.vertices for each in vertex.functions),
            checkpoints_dir=self._settings.checkpoints_dir,
            timeout_ms=pending.due_ms - now_ms,
        )

    def _give_up(self, pending: PendingSavepoint, failure: FailureInfo, now_ms: int) -> None:
        """The queries go on, where they have been stopped for it."""
        del self._pending[pending.savepoint_id]
        error = SavepointFailed(failure.message)
        self._executions.output.replies += [(request_id, error) for request_id in pending.waiting]
        if pending.after.stops_first and self._executions.state.status not in _ENDING:
            self._told.clear()
            graph = self._executions.graph
            live = np.flatnonzero(~TERMINAL[graph.state]).tolist()
            stop = self._executions.state.stop
            before = stop.ended if stop is not None else ()
            halted = tuple((RegionIndex(region), int(graph.attempt[region])) for region in live)
            self._executions.record(StopGivenUp(at_ms=now_ms, failure=failure, halted=halted))
            self._run_again([region for region, attempt in self._finished() if (region, attempt) not in before], now_ms)

    def _finished(self) -> list[tuple[RegionIndex, int]]:
        """Regions whose queries have ended, by themselves or stopped, with their attempts."""
        graph = self._executions.graph
        found = graph.in_state(ExecutionState.FINISHED).tolist()
        return [(RegionIndex(region), int(graph.attempt[region])) for region in found]

    def _revive(self, now_ms: int) -> None:
        """Attempts that have stopped for a savepoint that was given up meanwhile run again. Also when the job is being
        drained by now: they may have stopped before all was read."""
        graph, state = self._executions.graph, self._executions.state
        goes_on = state.stop is None or (state.stop.drain and state.lacks_savepoint)
        if goes_on and state.status is JobStatus.RUNNING:
            self._run_again([each for each in state.halted if graph.state_of(each) is ExecutionState.FINISHED], now_ms)

    def _run_again(self, stopped: Iterable[int], now_ms: int) -> None:
        """But for those that a failure has run again."""
        again = sorted(region for region in stopped if region not in self._executions.state.restarting)
        self._executions.run_again(np.array(again, dtype=np.int64), now_ms)


_ENDING = (JobStatus.CANCELLING, JobStatus.FAILING, JobStatus.CANCELED, JobStatus.FAILED, JobStatus.FINISHED)


def _failure(message: str) -> FailureInfo:
    return FailureInfo(kind=FailureKind.ENVIRONMENT, message=message)
