"""The store of jobs of one master's process: the real log on a disk that all masters share, and that fails.

What `adapters.ha.filesystem` does with an event loop and a thread is done here in simulated time: calls are
carried out one after the other, each takes a while, and who leads is looked up when it is called.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from firesteel.adapters.ha.disk import Disk
from firesteel.adapters.ha.joblog import JobLog
from firesteel.core.journal.journal import JobState
from firesteel.core.journal.records import JournalRecord
from firesteel.core.journal.storedjobs import AnyEntry, RecordsAppended
from firesteel.model.ids import FencingToken, JobID
from firesteel.runtime.services import StaleLeader
from firesteel.testing.power import FakeSystem, PowerCut
from firesteel.testing.simulation.cores.world import World

HISTORY_SIZE = 64
"""Failures that a job's state keeps: more than a run has."""

SNAPSHOT_RECORDS = 40
"""Records between two snapshots: few, so that a run has some."""

Answer = Callable[[object], None]
"""Told what a call returned, or the OSError or StaleLeader that it raised."""


class Store:
    """What one process has of the store. A dead process's calls may be carried out, and nobody hears of it."""

    def __init__(self, world: World, system: FakeSystem, node: str, on_power_cut: Callable[[], None]) -> None:
        self.log = JobLog(Disk(Path("/disk"), system), history_size=HISTORY_SIZE, snapshot_records=SNAPSHOT_RECORDS)
        self.is_dead = False
        self.is_dark = False
        """Lost its power: nothing is carried out any more."""
        self.dispatcher: FencingToken | None = None
        self._claims: dict[JobID, tuple[FencingToken, FencingToken]] = {}
        self._world, self._node, self._on_power_cut = world, node, on_power_cut
        self._queue: deque[tuple[Callable[[], object], Answer]] = deque()
        self._is_busy = False

    def load(self, token: FencingToken, answer: Answer) -> None:
        """Shut out older Dispatchers; answers with (graphs, results)."""
        self.dispatcher = token if self.dispatcher is None else max(token, self.dispatcher)

        def load() -> object:
            self.log.claim(token)
            return (*self.log.jobs.graphs(), *self.log.jobs.kept_graphs()), self.log.jobs.results()

        self._call(load, answer)

    def write(self, entry: AnyEntry, token: FencingToken | None, answer: Answer) -> None:
        """Write for the Dispatcher of that token."""
        self._append(entry, answer, is_leader=token == self.dispatcher)

    def claim_journal(self, job_id: JobID, token: FencingToken, answer: Answer) -> None:
        """Shut out older JobMasters of this process; answers with the job's state."""
        known = self._claims.get(job_id)
        if self.dispatcher is not None and (known is None or known[0] <= token):
            self._claims[job_id] = (token, self.dispatcher)

        def claim() -> JobState:
            self.log.append([])
            state = self.log.jobs.state(job_id)
            if state is None:
                raise StaleLeader("the job is not stored any more")
            return state

        self._call(claim, answer)

    def append(self, job_id: JobID, token: FencingToken, records: Sequence[JournalRecord], answer: Answer) -> None:
        is_leader = self._claims.get(job_id) == (token, self.dispatcher)
        self._append(RecordsAppended(job_id, tuple(records)), answer, is_leader=is_leader)

    def _append(self, entry: AnyEntry, answer: Answer, *, is_leader: bool) -> None:
        if is_leader:
            self._call(lambda: self.log.append([entry]), answer)
        else:
            stale = StaleLeader("another leader writes here")
            self._world.after(0, lambda: answer(stale))

    # ── time ─────────────────────────────────────────────────────────────────────────────────
    def _call(self, work: Callable[[], object], answer: Answer) -> None:
        self._queue.append((work, answer))
        if not self._is_busy:
            self._is_busy = True
            self._world.after(self._takes_ms(), self._next)

    def _takes_ms(self) -> int:
        slow_ms = 10_000 if self._world.mishaps.sometimes("store-slow") else 0
        return slow_ms + self._world.stream(f"store:{self._node}").randint(0, self._world.faults.persist_ms_max)

    def hurry(self) -> None:
        """Carry out the oldest call at once."""
        if self._queue:
            self._carry_out()

    def _next(self) -> None:
        """Carry out the oldest call; a process that stands still does so when it goes on."""
        if until_ms := self._world.is_stalled(self._node):
            self._world.after(until_ms - self._world.now_ms, self._next)
            return
        if not self._queue:
            self._is_busy = False
            return
        self._carry_out()
        if self._queue and not self.is_dark:
            self._world.after(self._takes_ms(), self._next)
        else:
            self._is_busy = False

    def _carry_out(self) -> None:
        work, answer = self._queue.popleft()
        if self.is_dead and self._world.stream("landing").random() < 0.5:
            self.is_dark = True  # Nothing of a dead process is written after what was not.
        if self.is_dark:
            return
        try:
            value = work()
        except (OSError, StaleLeader) as error:
            value = error
        except PowerCut:
            self.is_dark = True
            self._on_power_cut()
            return
        if not self.is_dead:
            self._world.after(0, partial(answer, value))
