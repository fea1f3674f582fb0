"""Clients that ask again when they hear nothing, and the model of what each of them may observe."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from firesteel.core.dispatcher import requests as r
from firesteel.core.dispatcher.dispatcher import DispatcherCore
from firesteel.core.requests import Request
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.refusals import CancelRefused, DuplicateJob, StorageUnavailable, UnknownJob
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult
from firesteel.testing.simulation.cores.cluster import Cluster
from firesteel.testing.simulation.cores.world import World

ENDING = (JobStatus.CANCELLING, JobStatus.FAILING)
"""What runs of such a job is to end."""

PATIENCE_MS = 5_000
"""Time after which a client asks again."""

LONG_PATIENCE_MS = 60_000
"""The same, for a result."""

LOOK_EVERY_MS = 3_000
"""Time between two looks at a job, at most."""

BEATS_PER_TIMEOUT = 3
"""Signs of life of a client whose job ends with it, in the time after which it is taken for gone."""

READS = 3
"""Times a client asks for the result of a job that has ended."""


MISSED_MS = 120_000
"""Time without faults in which a client that is gone must have been missed, beside two of its timeouts: until masters
that stood still have caught up, and one of them leads."""


@dataclass(slots=True)
class Client:
    """Submits one job until it is told that it is safe, looks at it now and then, and reads its result."""

    world: World
    cluster: Cluster
    graph: JobGraph
    wants_cancel: bool = False
    is_gone: bool = False
    """A power cut for the client: it asks nothing and hears nothing any more."""
    is_safe: bool = False
    """The submission was acknowledged: from here on nobody may deny the job."""
    seen: JobStatus | None = None
    """The last state it was shown."""
    cancelled: bool = False
    """A wish to cancel was acknowledged before the job had ended."""
    result: JobResult | None = None
    reads: int = 0
    _answered: dict[str, int] = field(default_factory=dict)

    @property
    def job_id(self) -> JobID:
        return self.graph.job_id

    @property
    def is_content(self) -> bool:
        """Whether it has nothing to ask any more; of one that is gone, whether its job has ended."""
        if self.is_gone:
            return self._has_ended() or all(it.job_id != self.job_id for it in self.cluster.masters.stored().graphs())
        return self.reads >= READS and not self.wants_cancel

    def submit(self) -> None:
        self.cluster.graphs[self.job_id] = self.graph
        self._ask("submit", r.SubmitJob(self.graph), self._on_submitted)

    def submit_again(self, graph: JobGraph) -> None:
        """The same job, or another one under its id."""
        self._ask(f"submit again {graph.name}", r.SubmitJob(graph), partial(self._on_submitted_again, graph))

    def vanish(self) -> None:
        self.world.note(f"client of {self.job_id[:6]}", "is gone")
        self.is_gone = True

    def cancel(self) -> None:
        self.wants_cancel = True
        self._ask("cancel", r.CancelJobRequest(self.job_id), self._on_cancelled)

    # ── asking ───────────────────────────────────────────────────────────────────────────────
    def _ask(
        self, what: str, request: Request[Any], on_answer: Callable[[object], bool], patience_ms: int = PATIENCE_MS
    ) -> None:
        """Ask until there is an answer that `on_answer` is content with; an answer may be lost when all was done."""
        number = self._answered.get(what, 0)

        def answered(value: object) -> None:
            if self.world.mishaps.strikes(f"answer {self.job_id[:4]}", self.world.faults.answer_loss):
                return
            self.world.after(self._trip_ms(), partial(heard, value))

        def heard(value: object) -> None:
            if self._answered.get(what, 0) == number and not self.is_gone:
                self.world.note(f"client of {self.job_id[:6]}", f"{what}: {value}"[:200])
                if on_answer(value):
                    self._answered[what] = number + 1

        def ask() -> None:
            if not self.is_gone and not self._is_request_lost():
                self._deliver(request, answered)

        def again() -> None:
            if self._answered.get(what, 0) == number and not self.is_gone:
                self.world.after(self._trip_ms(), ask)
                self.world.after(patience_ms, again)

        again()

    def _deliver(self, request: Request[Any], answered: Callable[[object], None]) -> None:
        self.cluster.ask(request, answered)

    def _is_request_lost(self) -> bool:
        return self.world.mishaps.strikes(f"request {self.job_id[:4]}", self.world.faults.request_loss)

    def _beat(self) -> None:
        """Show that it is there, to the job's end as it knows it. Nobody looks at the answer."""
        if self.is_gone or (self.seen is not None and self.seen.is_globally_terminal):
            return
        if not self._is_request_lost():
            self.cluster.ask(r.ReportClientHeartbeat(self.job_id), lambda value: None)
        self.world.after(self.graph.client_heartbeat_timeout_ms // BEATS_PER_TIMEOUT, self._beat)

    def _trip_ms(self) -> int:
        return self.world.stream(f"client:{self.job_id}").randint(0, self.world.faults.delay_ms_max)

    # ── what it may hear ─────────────────────────────────────────────────────────────────────
    def _on_submitted(self, value: object) -> bool:
        match value:
            case StorageUnavailable():
                return False
            case DuplicateJob():
                assert self._has_ended(), f"job {self.job_id} is refused as its own duplicate"
            case _:
                assert value == self.job_id, f"a submission was answered with {value}"
        self.is_safe = True
        self._look()
        self._read()
        if self.graph.client_heartbeat_timeout_ms:
            self._beat()
        return True

    def _on_submitted_again(self, graph: JobGraph, value: object) -> bool:
        match value:
            case StorageUnavailable():
                return False
            case DuplicateJob():
                assert graph != self.graph or self._has_ended(), f"job {self.job_id} is refused as its own duplicate"
            case _:
                assert value == self.job_id, f"a submission was answered with {value}"
                assert graph == self.graph, f"two jobs have the id {self.job_id}"
        return True

    def _has_ended(self) -> bool:
        """Whether that is durable: as a result, or in the journal."""
        stored = self.cluster.masters.stored()
        state = stored.state(self.job_id)
        return (state is not None and state.status.is_globally_terminal) or self._has_result()

    def _has_result(self) -> bool:
        """Whether that is stored where a new leader looks first."""
        return any(result.job_id == self.job_id for result, _ in self.cluster.masters.stored().results())

    def should_be_missed(self) -> None:
        """After a while without faults: it is gone, and its job has ended, or will."""
        stored = self.cluster.masters.stored()
        state = stored.state(self.job_id)
        assert not self.is_gone or state is None or state.status in ENDING or state.intended or self._has_ended(), (
            f"the client of {self.job_id} is gone, and the job goes on"
        )

    def _on_cancelled(self, value: object) -> bool:
        if isinstance(value, UnknownJob):
            assert not self.is_safe, f"job {self.job_id} was acknowledged and is unknown to who cancels it"
            return False
        if isinstance(value, StorageUnavailable):
            return False
        if isinstance(value, CancelRefused):
            state = self.cluster.masters.stored().state(self.job_id)
            assert self._has_ended() or state is None or state.intended, f"job {self.job_id} could have been cancelled"
            self.wants_cancel = False
            return True
        assert value is None, f"a cancellation was answered with {value}"
        ended = self.seen is not None and self.seen.is_globally_terminal
        self.cancelled = not ended and not self._has_ended()
        self.wants_cancel = False
        return True

    def _on_result(self, value: object) -> bool:
        assert not isinstance(value, UnknownJob), f"job {self.job_id} was acknowledged and is unknown"
        if isinstance(value, StorageUnavailable):
            return False
        assert isinstance(value, JobResult), f"a result is {value}"
        assert self.result in (None, value), f"the result of {self.job_id} was {self.result} and is {value}"
        seen = self.seen if self.seen is not None and self.seen.is_globally_terminal else value.status
        assert value.status is seen, f"job {self.job_id} was {seen.value} and has ended as {value.status.value}"
        assert not (self.cancelled and value.status is JobStatus.FINISHED), f"{self.job_id} was cancelled, and finished"
        self.result, self.seen = value, value.status
        self.reads += 1
        if self.reads < READS:
            self.world.after(self.world.stream(f"client:{self.job_id}").randint(1, 20_000), self._read)
        return True

    def _read(self) -> None:
        self._ask("result", r.AwaitJobResult(self.job_id), self._on_result, LONG_PATIENCE_MS)

    def _look(self) -> None:
        """See the job's state, as it is shown."""
        if self.is_content or self.is_gone:
            return
        self.world.after(self.world.stream(f"client:{self.job_id}").randint(1, LOOK_EVERY_MS), self._look)
        endpoint = self.cluster.masters.dispatcher
        if endpoint is None or self.world.is_stalled(endpoint.node):
            return
        assert isinstance(endpoint.core, DispatcherCore), "a Dispatcher leads"
        if not endpoint.core._loaded:
            return
        shown = self.cluster.masters.status_of(self.job_id)
        assert shown is not None, f"job {self.job_id} was acknowledged and is unknown to who looks at it"
        if shown.is_globally_terminal:
            assert self._has_result(), f"job {self.job_id} is shown as {shown.value}, and that is not stored"
        if self.seen is not None and self.seen.is_globally_terminal:
            assert shown is self.seen, f"job {self.job_id} was shown as {self.seen.value}, and is {shown.value} now"
        self.seen = shown


def another_of(graph: JobGraph) -> JobGraph:
    """Another job of the same id."""
    return msgspec.structs.replace(graph, name=f"{graph.name}, another")
