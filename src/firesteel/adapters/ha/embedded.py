"""Embedded high availability: several contenders in one process, everything kept in memory.

Election and store survive the endpoints, not the process. The same rules hold as with a real store:
tokens grow, and a write with an old token is refused.
"""

import asyncio
from collections.abc import Callable, Sequence

from firesteel.core.journal.journal import JobState, fold
from firesteel.core.journal.records import JournalRecord
from firesteel.model import options
from firesteel.model.ids import FencingToken, JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.messages import Leader
from firesteel.model.views import JobResult
from firesteel.runtime.services import Contender, StaleLeader


class EmbeddedLeaderElection:
    """Grants leadership to the contender that came first; `revoke` and `grant` let tests change it.

    Tokens begin above `epoch`: a process that others know, and that may be started anew, gives the time.
    One that is not open grants nothing until `open`.
    """

    trouble = ""

    def __init__(self, name: str, epoch: int = 0, *, is_open: bool = True) -> None:
        self._name, self._epoch, self._is_open = name, epoch, is_open
        self._contenders: dict[str, list[Contender]] = {}
        self._holder: dict[str, Contender] = {}
        self._token: dict[str, FencingToken] = {}
        self._leaders: dict[str, Leader] = {}
        self._listeners: dict[str, list[Callable[[Leader | None], None]]] = {}

    def contend(self, component: str, contender: Contender) -> Callable[[], None]:
        self._contenders.setdefault(component, []).append(contender)
        if self._is_open and component not in self._holder:
            self.grant(component)

        def leave() -> None:
            contenders = self._contenders.get(component, [])
            if contender not in contenders:
                return
            contenders.remove(contender)
            if not contenders:
                del self._contenders[component]
            if self._holder.get(component) is contender:
                del self._holder[component]
                del self._token[component]  # or each job would leave one
                self._publish(component, None)
                if contenders and self._is_open:
                    self.grant(component)

        return leave

    def confirm(self, component: str, leader: Leader) -> None:
        if component in self._holder and self._token[component] == leader.token:
            self._publish(component, leader)

    def watch(self, component: str, listener: Callable[[Leader | None], None]) -> Callable[[], None]:
        listeners = self._listeners.setdefault(component, [])
        listeners.append(listener)
        if component in self._leaders:
            listener(self._leaders[component])

        def end() -> None:
            listeners.remove(listener)
            if not listeners and self._listeners.get(component) is listeners:
                del self._listeners[component]

        return end

    def open(self, epoch: int) -> None:
        """This process leads: grant everything that somebody contends for, under tokens above `epoch`."""
        self._is_open, self._epoch = True, epoch
        for component in self._contenders:
            if component not in self._holder:
                self.grant(component)

    def close(self) -> None:
        """This process leads no more: take everything away."""
        self._is_open = False
        for component in list(self._holder):
            self.revoke(component)

    # ── what tests may do ────────────────────────────────────────────────────────────────────
    def grant(self, component: str) -> FencingToken:
        """Grant leadership to the first contender, under a new token. Raises LookupError when nobody contends."""
        if component not in self._contenders:
            raise LookupError(f"nobody contends for {component}")
        self._epoch += 1
        token = self._token[component] = FencingToken(self._epoch, self._name)
        contender = self._holder[component] = self._contenders[component][0]

        def announce() -> None:
            if self._holder.get(component) is contender and self._token[component] == token:
                contender.on_granted(token)

        asyncio.get_running_loop().call_soon(announce)
        return token

    def revoke(self, component: str) -> None:
        """Take leadership away; nobody leads until `grant`. Raises LookupError when nobody leads."""
        if component not in self._holder:
            raise LookupError(f"nobody leads {component}")
        contender = self._holder.pop(component)
        self._publish(component, None)
        asyncio.get_running_loop().call_soon(contender.on_revoked)

    def components(self) -> tuple[str, ...]:
        """Components that are led now."""
        return tuple(self._leaders)

    def _publish(self, component: str, leader: Leader | None) -> None:
        if leader is None:
            self._leaders.pop(component, None)
        else:
            self._leaders[component] = leader
        for listener in list(self._listeners.get(component, ())):
            listener(leader)


class InMemoryJobStore:
    """Job graphs, journals and results of one process. See runtime.services.JobStore."""

    def __init__(self, history_size: int = options.EXCEPTION_HISTORY_SIZE.default) -> None:
        self._history_size = history_size
        self._graphs: dict[JobID, JobGraph] = {}
        self._journals: dict[JobID, list[JournalRecord]] = {}
        self._claims: dict[JobID, FencingToken] = {}
        self._results: dict[JobID, tuple[JobResult, bool]] = {}
        self._kept: dict[JobID, JobGraph] = {}
        self._dispatcher: FencingToken | None = None

    async def load(self, token: FencingToken) -> tuple[tuple[JobGraph, ...], tuple[tuple[JobResult, bool], ...]]:
        if self._dispatcher is not None and token < self._dispatcher:
            raise StaleLeader(f"the Dispatcher leads under {self._dispatcher}")
        self._dispatcher = token
        return (*self._graphs.values(), *self._kept.values()), tuple(self._results.values())

    async def put_graph(self, graph: JobGraph, token: FencingToken) -> None:
        self._check_dispatcher(token)
        if graph.job_id in self._results and not self._results[graph.job_id][1]:
            del self._results[graph.job_id]
        self._kept.pop(graph.job_id, None)
        self._graphs[graph.job_id] = graph
        self._journals.setdefault(graph.job_id, [])

    async def claim_journal(self, job_id: JobID, token: FencingToken) -> JobState:
        known = self._claims.get(job_id)
        if job_id not in self._journals or (known is not None and token < known):
            raise StaleLeader(f"job {job_id} is led under {known}" if known else f"job {job_id} is not stored any more")
        self._claims[job_id] = token
        state = JobState(job_id=job_id)
        for record in self._journals[job_id]:
            fold(state, record, self._history_size)
        return state

    async def append(self, job_id: JobID, token: FencingToken, records: Sequence[JournalRecord]) -> None:
        if self._claims.get(job_id) != token:
            raise StaleLeader(f"job {job_id} is led under {self._claims.get(job_id)}")
        self._journals[job_id] += records

    async def put_result(self, result: JobResult, token: FencingToken) -> None:
        self._check_dispatcher(token)
        self._results[result.job_id] = (result, True)

    async def clean_up(self, job_id: JobID, token: FencingToken, *, keeps_graph: bool = False) -> None:
        self._check_dispatcher(token)
        graph = self._graphs.pop(job_id, None)
        if graph is not None and keeps_graph:
            self._kept[job_id] = graph
        self._journals.pop(job_id, None)
        self._claims.pop(job_id, None)
        self._results[job_id] = (self._results[job_id][0], False)

    async def forget_graph(self, job_id: JobID, token: FencingToken) -> None:
        self._check_dispatcher(token)
        self._kept.pop(job_id, None)

    async def forget_result(self, job_id: JobID, token: FencingToken) -> None:
        self._check_dispatcher(token)
        self._results.pop(job_id, None)
        self._kept.pop(job_id, None)

    def journal(self, job_id: JobID) -> tuple[JournalRecord, ...]:
        """All records of a job, for tests."""
        return tuple(self._journals.get(job_id, ()))

    def _check_dispatcher(self, token: FencingToken) -> None:
        if token != self._dispatcher:
            raise StaleLeader(f"the Dispatcher leads under {self._dispatcher}")
