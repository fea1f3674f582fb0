"""What every endpoint stands on: time, the transport, who leads, where jobs are stored."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

from firesteel.core.effects import Event
from firesteel.core.journal.journal import JobState
from firesteel.core.journal.records import JournalRecord
from firesteel.model.ids import Address, FencingToken, JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.messages import Envelope, Leader
from firesteel.model.statuschange import JobStatusChange
from firesteel.model.views import JobResult, JobView


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the epoch; never goes back."""


class Mailbox(Protocol):
    """Where an endpoint takes events. May be called from its event loop only."""

    def tell(self, event: Event) -> None: ...


class Rpc(Protocol):
    """The transport. Messages may be lost with a connection; both ends are then told PeerLost."""

    def address(self, name: str) -> Address:
        """The address under which others reach an endpoint of that name here."""

    def register(self, address: Address, mailbox: Mailbox) -> None: ...

    def unregister(self, address: Address) -> None: ...

    def send(self, envelope: Envelope) -> None:
        """Hand a message over; returns at once, never raises for a recipient that is not there."""


class LeaderRetrieval(Protocol):
    def watch(self, component: str, listener: Callable[[Leader | None], None]) -> Callable[[], None]:
        """Call `listener` with the leader now and at each change; returns what ends it."""


class Contender(Protocol):
    """Called back by an election, on the event loop."""

    def on_granted(self, token: FencingToken) -> None: ...

    def on_revoked(self) -> None: ...


class LeaderElection(LeaderRetrieval, Protocol):
    def contend(self, component: str, contender: Contender) -> Callable[[], None]:
        """Take part; tokens granted for one component grow. Returns what ends it.

        The contender is called back later, never from within this call, and not after it has left.
        """

    def confirm(self, component: str, leader: Leader) -> None:
        """Publish the leader's address. A token that is not the newest, or was revoked, is ignored."""

    @property
    def trouble(self) -> str:
        """What keeps this process from taking part, in words; empty when nothing does."""


class StaleLeader(Exception):
    """Another leader has written since: this one may not."""


class JobArchive(Protocol):
    """What is shown of jobs that have ended. It may lose any of them: how they ended is in the JobStore.

    Coroutines raise OSError.
    """

    async def put(self, view: JobView) -> None:
        """May be repeated."""

    async def get(self, job_id: JobID) -> JobView | None: ...

    async def delete(self, job_id: JobID) -> None: ...

    async def keep(self, jobs: Collection[JobID]) -> None:
        """Delete all others."""


ArchiveJob = Callable[[JobView, JobResult], Awaitable[None]]
"""Keeps what is shown of a job beyond its cluster, once; may be repeated. Raises OSError."""


AnnounceStatus = Callable[[JobStatusChange], None]
"""Told of changes of jobs' states once they are facts; returns at once and raises nothing."""


class JobStore(Protocol):
    """Durable job graphs, journals and results. Every write carries the token of who writes: for a
    journal its JobMaster's, for all else the Dispatcher's.

    Coroutines return when it is durable. They raise StaleLeader, or OSError when the store fails.
    """

    async def load(self, token: FencingToken) -> tuple[tuple[JobGraph, ...], tuple[tuple[JobResult, bool], ...]]:
        """Shut out all older Dispatchers, then read all graphs, also those kept of ended jobs, and all results with
        whether their cleanup is due."""

    async def put_graph(self, graph: JobGraph, token: FencingToken) -> None:
        """May be repeated. After an OSError the graph may be durable or not. A clean result and a kept graph of the same id
        go with it: they are of a former job."""

    async def claim_journal(self, job_id: JobID, token: FencingToken) -> JobState:
        """Shut out all older leaders of the job, then give what they have written: the caller's to change."""

    async def append(self, job_id: JobID, token: FencingToken, records: Sequence[JournalRecord]) -> None:
        """All records or none. After an OSError they may be durable or not: the journal must be claimed anew."""

    async def put_result(self, result: JobResult, token: FencingToken) -> None:
        """Record a result as dirty."""

    async def clean_up(self, job_id: JobID, token: FencingToken, *, keeps_graph: bool = False) -> None:
        """Delete graph and journal, and mark the result clean. All else of the job has to be gone by now; with
        `keeps_graph`, all but the graph and what that names."""

    async def forget_graph(self, job_id: JobID, token: FencingToken) -> None:
        """Delete the graph that was kept of a job."""

    async def forget_result(self, job_id: JobID, token: FencingToken) -> None:
        """Also the graph that was kept of the job."""
