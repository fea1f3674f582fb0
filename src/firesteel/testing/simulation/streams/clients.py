"""Who runs a streaming pipeline: takes checkpoints and savepoints, stops it, and goes on from a savepoint with another job."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from firesteel.core.checkpoint.history import savepoint_of
from firesteel.core.checkpoint.requests import TriggerCheckpoint, TriggerSavepoint
from firesteel.core.jobmaster.jobmaster import JobMasterCore
from firesteel.core.requests import Request
from firesteel.model.checkpoints import CheckpointHistory
from firesteel.model.ids import derived_id
from firesteel.model.jobgraph import JobGraph
from firesteel.model.refusals import CheckpointFailed, SavepointFailed
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.streams import AfterSavepoint
from firesteel.model.views import JobView
from firesteel.testing.simulation.cores.clients import Client
from firesteel.testing.simulation.cores.cluster import Cluster
from firesteel.testing.simulation.cores.world import SimulatedEndpoint, World
from firesteel.testing.simulation.streams.outputs import Output
from firesteel.testing.simulation.streams.pipelines import random_stream, resumed, uids_of
from firesteel.testing.simulation.streams.storage import Source

ACT_EVERY_MS = 8_000
"""Time between two things that somebody does with a stream, at most."""

DRAIN_EVERY_MS = 5_000
DRAINS_MAX = 40
"""Times that a stream is asked to drain when all is calm; then it is cancelled: it may lack slots for good."""

JOBS_MAX = 3
"""Jobs that go on from one another."""

ROWS_MAX = 120
ARRIVAL_MS_MAX = 1_200
"""Time between two rows, at most."""

ASK_AGAIN = "ask again when they do"
"""Ends the refusal of a savepoint while not all queries of a job run."""

ENDINGS = {
    AfterSavepoint.STOP: JobStatus.FINISHED,
    AfterSavepoint.DRAIN: JobStatus.FINISHED,
    AfterSavepoint.CANCEL: JobStatus.CANCELED,
}
"""How a job ends whose savepoint there is, by what was to become of it then."""


@dataclass(slots=True)
class Operation:
    """A request that a process which leads has begun."""

    request: Request[Any]
    dispatcher: SimulatedEndpoint
    master: SimulatedEndpoint
    answer: object = None


@dataclass(slots=True)
class StreamClient(Client):
    """Runs one job of a pipeline. `ended` is told of its end, and the savepoint that it ended with, if it did."""

    ended: Callable[["StreamClient", str], None] = lambda client, savepoint: None
    is_calm: bool = False
    """The faults are over: the stream is to end."""
    savepoints: list[str] = field(default_factory=list)
    """Those that were answered, oldest first."""
    last: str = ""
    """The one that the job ends with."""
    ends_as: JobStatus | None = None
    waiting: dict[str, None] = field(default_factory=dict)
    """Requests that have no answer yet."""
    drains: int = 0
    _number: int = 0
    _operations: list[Operation] = field(default_factory=list)
    """The newest first."""
    _ending: AfterSavepoint | None = None
    _is_told: bool = False

    @property
    def is_content(self) -> bool:
        return self.reads > 0 and not self.waiting and not self.wants_cancel

    def has_heard_the_truth(self) -> None:
        """In the end: a stream finishes with a savepoint only, and who has asked for that was told of it."""
        finished = self.result is not None and self.result.status is JobStatus.FINISHED
        assert self.ends_as is JobStatus.FINISHED or not finished, (
            f"{self.job_id} was stopped, and who stopped it was told that it could not be"
        )

    def settle_down(self) -> None:
        """The faults are over."""
        self.is_calm = True
        self._drain()

    def _on_submitted(self, value: object) -> bool:
        # `super()` without arguments does not work in a dataclass with slots.
        is_heard = Client._on_submitted(self, value)
        if is_heard:
            self._act()
        return is_heard

    @property
    def _is_over(self) -> bool:
        return self.result is not None

    def _act(self) -> None:
        """Now and then somebody wants something."""
        if self._is_over or self.is_calm:
            return
        chance, job = self.world.stream(f"stream:{self.job_id}"), self.job_id[:4]
        after = chance.choice(list(ENDINGS))
        if self.world.mishaps.strikes(f"checkpoint {job}", 0.3):
            self._take_checkpoint()
        if self.world.mishaps.strikes(f"savepoint {job}", 0.4):
            self.take_savepoint(AfterSavepoint.GO_ON)
        if self._ending is None and self.world.mishaps.strikes(f"ending {job}", 0.12):
            self.take_savepoint(after)
        self.world.after(chance.randint(1, ACT_EVERY_MS), self._act)

    def _drain(self) -> None:
        """Until the job has ended."""
        if self._is_over:
            return
        if self.is_safe and self._ending is None and not self.wants_cancel:
            self.drains += 1
            if self.drains > DRAINS_MAX:
                self.cancel()
            else:
                self.take_savepoint(AfterSavepoint.DRAIN)
        self.world.after(DRAIN_EVERY_MS, self._drain)

    # ── requests ─────────────────────────────────────────────────────────────────────────────
    def take_savepoint(self, after: AfterSavepoint) -> None:
        self._number += 1
        savepoint_id = derived_id(self.job_id, "savepoint", self._number)
        request = TriggerSavepoint(savepoint_id, after=after)
        what = f"savepoint {self._number}, {after.value}"
        if after in ENDINGS:
            self._ending = after
            self.ends_as = None
        self.waiting[what] = None
        if after is AfterSavepoint.CANCEL:
            self.cluster.cancelled[self.job_id] = None
        self._ask(what, request, partial(self._on_savepoint, what, after))

    def _take_checkpoint(self) -> None:
        self._number += 1
        what = f"checkpoint {self._number}"
        self.waiting[what] = None
        self._ask(what, TriggerCheckpoint(), partial(self._on_checkpoint, what))

    def _deliver(self, request: Request[Any], answered: Callable[[object], None]) -> None:
        """As the REST endpoint does it: a request is begun once by each process that leads, which then knows its answer."""
        if not isinstance(request, TriggerSavepoint | TriggerCheckpoint):
            Client._deliver(self, request, answered)
            return
        asked = self.cluster.masters.dispatcher
        if asked is None or self.world.is_stalled(asked.node):
            return
        known = next((each for each in self._operations if each.request is request), None)
        if known is not None and known.dispatcher is asked and (known.answer is not None or known.master.alive):
            if known.answer is not None:
                answered(known.answer)
            return
        view = self.cluster.masters.view_of(self.job_id)
        if view is None:
            return  # that Dispatcher has not read the jobs yet
        if view.status.is_globally_terminal:
            if not self.cluster.masters.is_read_again(self.job_id):
                answered(self._answer_of_ended(request, view))
            return
        master = self.cluster.masters.job_master(self.job_id)
        if master is not None:
            made = Operation(request, asked, master)
            self._operations.insert(0, made)

            def told(value: object) -> None:
                if isinstance(value, SavepointFailed):
                    _is_no_pretext(str(value), master)
                made.answer = value
                answered(value)

            self.cluster.ask_master(self.job_id, request, told)

    def _answer_of_ended(self, request: TriggerSavepoint | TriggerCheckpoint, view: JobView) -> object:
        if isinstance(request, TriggerCheckpoint):
            return CheckpointFailed("the job has ended")
        history = view.checkpoints.history if view.checkpoints is not None else CheckpointHistory()
        made = savepoint_of(history, self.job_id, request.savepoint_id)
        return made or SavepointFailed("the job has ended")

    def _on_savepoint(self, what: str, after: AfterSavepoint, value: object) -> bool:
        self.waiting.pop(what, None)
        if isinstance(value, SavepointFailed):
            assert str(value), "a savepoint failed for no reason"
            if after in ENDINGS:
                self._ending = None
            return True
        assert isinstance(value, str), f"a savepoint was answered with {value}"
        saved = self.cluster.storage.streams.savepoints.get(value)
        assert saved is not None, f"savepoint {value} was told, and is not there"
        self.savepoints.append(value)
        if after in ENDINGS:
            self.ends_as, self.last = ENDINGS[after], value
            seen = self.result.status if self.result is not None else self.ends_as
            assert seen is self.ends_as, f"{self.job_id} was to end with {value}, and was {seen.value}"
        return True

    def _on_checkpoint(self, what: str, value: object) -> bool:
        self.waiting.pop(what, None)
        assert isinstance(value, int | CheckpointFailed), f"a checkpoint was answered with {value}"
        return True

    def _on_result(self, value: object) -> bool:
        is_heard = Client._on_result(self, value)
        if is_heard and not self._is_told and self.result is not None:
            self._is_told = True
            status = self.result.status
            assert self.ends_as in (None, status), f"{self.job_id} was to end with {self.last}, and was {status.value}"
            self.ended(self, self.last)
        return is_heard


def _is_no_pretext(refusal: str, master: SimulatedEndpoint) -> None:
    """Who is told to ask again when all queries run has a chance: one is to begin yet."""
    if refusal.endswith(ASK_AGAIN) and isinstance(master.core, JobMasterCore):
        view = master.core.view()
        states = [vertex.status for vertex in view.vertices]
        settled = all(state in (ExecutionState.RUNNING, ExecutionState.FINISHED) for state in states)
        is_well = view.status is JobStatus.RUNNING and settled and ExecutionState.RUNNING in states
        assert not is_well, f"{view.job_id} has no query that is to begin, and no savepoint is taken: {refusal}"


class Pipeline:
    """Jobs of one pipeline: each goes on from a savepoint of the one before, into the same outputs."""

    def __init__(self, world: World, cluster: Cluster, queries_max: int, end_ms: int) -> None:
        self.world, self.cluster, self._end_ms = world, cluster, end_ms
        self._chance = world.stream("pipeline")
        self.graph = random_stream(self._chance, queries_max)
        self.clients: list[StreamClient] = []
        self._savepoints: list[str] = []
        """Those that the outputs fit, oldest first."""

    def plan(self) -> None:
        """Have its first job submitted."""
        at_ms = self._chance.randint(1, 20_000)
        every_ms, rows = self._chance.randint(100, ARRIVAL_MS_MAX), self._chance.randint(0, ROWS_MAX)
        rows = min(rows, (self._end_ms - self.world.now_ms - at_ms) // every_ms)
        streams = self.cluster.storage.streams
        for uid in uids_of(self.graph):
            streams.sources[f"{self.graph.job_id}/{uid}"] = Source(self.world.now_ms + at_ms, every_ms, rows)
            streams.outputs[f"{self.graph.job_id}/{uid}"] = Output()
        self._submit(self.graph, at_ms)

    def _submit(self, graph: JobGraph, after_ms: int) -> None:
        self.cluster.storage.streams.pipeline_of[graph.job_id] = self.graph.job_id
        client = StreamClient(self.world, self.cluster, graph, ended=self._go_on)
        self.clients.append(client)
        self.world.after(after_ms, client.submit)

    def _go_on(self, client: StreamClient, savepoint: str) -> None:
        """The next job, from that savepoint or an older one. What the outputs have of later ones counts no more."""
        self._savepoints += client.savepoints
        retained = client.result.retained if client.result is not None else ""
        uids = self.cluster.storage.streams.uids_left(client.job_id, retained)
        if retained and sorted(uids) == sorted(uids_of(self.graph)):
            self._savepoints.append(retained)
        is_late = self.world.now_ms >= self._end_ms - 5_000
        if is_late or not self._savepoints or len(self.clients) == JOBS_MAX:
            return
        chosen = savepoint or self._savepoints[-1]
        if self._chance.random() < 0.3:
            chosen = self._chance.choice(self._savepoints)
        del self._savepoints[self._savepoints.index(chosen) + 1 :]
        self._submit(resumed(self.graph, len(self.clients), chosen), self._chance.randint(0, 3_000))

    def settle_down(self) -> None:
        for client in self.clients:
            client.settle_down()

    def is_drained(self) -> bool:
        """Whether the last job has read all there is."""
        last = self.clients[-1]
        ended = last.result is not None and last.result.status is JobStatus.FINISHED
        return ended and last.drains > 0
