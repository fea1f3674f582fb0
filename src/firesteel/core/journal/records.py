"""The records of a job's journal: facts, in the order in which they became durable."""

from typing import Union

import msgspec

from firesteel.core.journal.endedattempts import Reached
from firesteel.core.scheduler.backoff import BackoffState
from firesteel.core.scheduler.outages import Outage
from firesteel.model.checkpoints import QueryPoint
from firesteel.model.failures import FailureInfo
from firesteel.model.ids import RegionIndex, ResourceID
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.tasks import SinkCommit, TaskOutcome
from firesteel.model.views import ExceptionEntry

NOT_GATHERED = RegionIndex(-1)


class Record(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """One fact. `at_ms` is when it became one."""

    at_ms: int


class JobStatusRecord(Record, frozen=True):
    """The job's status changed; `failure` is the cause when it is FAILING or FAILED, or is cancelled unasked."""

    status: JobStatus
    failure: FailureInfo | None = None
    retained: str = ""
    """Where the last checkpoint of a job that has ended stays."""


class RegionsDeployed(Record, frozen=True):
    """Attempts are about to be sent to workers. (region, attempt, worker) each."""

    deployed: tuple[tuple[RegionIndex, int, ResourceID], ...]


class SplitsDrawn(Record, frozen=True):
    """A running attempt has these input splits of its source, by their places in the enumeration. None: it is told
    that there is no more, and gets none even if some come back."""

    region: RegionIndex
    splits: tuple[int, ...]


class RegionsFinished(Record, frozen=True):
    """Attempts have finished and their results are registered."""

    finished: tuple[tuple[RegionIndex, int, TaskOutcome], ...]


class RegionsSpared(Record, frozen=True):
    """So many subtasks do the work of a logical region, which begins with region `first`; these others of it finish with
    nothing."""

    first: RegionIndex
    subtasks: int
    regions: tuple[RegionIndex, ...]


class RegionsEnded(Record, frozen=True):
    """Attempts that were deployed are gone without a result."""

    ended: tuple[tuple[RegionIndex, int], ...]
    state: ExecutionState = ExecutionState.FAILED
    """FAILED or CANCELED."""
    ran: bool = True
    """False: they never came to their workers. True: they did, or may have."""
    reached: tuple[Reached, ...] = ()
    """How far each of a stream has come; empty: all have run."""

    def reached_by(self, index: int) -> Reached | None:
        """That of one of them; None where they never came to their workers."""
        if not self.ran:
            return None
        return self.reached[index] if self.reached else Reached.RAN


class RestartPlanned(Record, frozen=True):
    """A failure and what runs again because of it, not before `due_ms`."""

    entry: ExceptionEntry
    regions: tuple[RegionIndex, ...]
    due_ms: int
    restarts: int
    """Restarts of the job so far, this one included."""
    backoff: BackoffState | None = None
    """What the restart strategy remembers from now on. None: a version wrote this that had only counted restarts."""
    retried: tuple[RegionIndex, ...] = ()
    """Regions that have used up one of their own retries."""
    is_root: bool = True
    """False: it is answered by the restart that the newest failure is waiting for, and shown with that."""
    outage: Outage | None = None
    """The storage that does not answer, where the failure is of that."""
    had_settled: bool = False
    """The region that failed had run for so long that backends which have died under it before do not count any more."""
    gathered: RegionIndex = NOT_GATHERED
    """First region of a logical region whose work one subtask does from now on."""


class FailureRecorded(Record, frozen=True):
    """A failure that restarts nothing: the job is to end of it."""

    entry: ExceptionEntry


class RegionsReset(Record, frozen=True):
    """The next attempt of these regions begins; their former results are withdrawn."""

    regions: tuple[RegionIndex, ...]
    ran: bool = True
    """Whether the attempts before these may have run."""


class CommitsIntended(Record, frozen=True):
    """The point of no return: these staged outputs are to become visible."""

    commits: tuple[SinkCommit, ...]


class SinkCommitted(Record, frozen=True):
    commit_id: str
    note: str = msgspec.field(default="", name="told")
    """What the job's owner is to be told of it."""
    ignored: bool = False
    """None of its rows are there: its mode left what it has found."""


class StopIntended(Record, frozen=True):
    """The job's queries are to stop, then it is to end with a savepoint of where they have come to."""

    savepoint_id: str
    location: str
    drain: bool = False
    ended: tuple[tuple[RegionIndex, int], ...] = ()
    """Regions and attempts whose queries had ended by themselves before."""


class StopGivenUp(Record, frozen=True):
    """That savepoint could not be taken: the queries go on."""

    failure: FailureInfo
    halted: tuple[tuple[RegionIndex, int], ...] = ()
    """Regions and attempts that may have been told to stop, and have not ended: when they do, they run again."""


class SavepointCompleted(Record, frozen=True):
    savepoint_id: str
    location: str
    triggered_ms: int = -1
    """-1: a version wrote this that did not say."""


class CheckpointTriggered(Record, frozen=True):
    """The number is given: no other checkpoint ever has it."""

    checkpoint_id: int


class CheckpointCompleted(Record, frozen=True):
    """It counts from here on."""

    checkpoint_id: int
    points: tuple[QueryPoint, ...]
    retained_max: int
    """So many are retained, this one included."""
    subsumes_claim: bool = False
    """The job does not need the savepoint any more that it has claimed."""


class CheckpointGivenUp(Record, frozen=True):
    """It is not complete, and will not be."""

    checkpoint_id: int
    failure: str
    failed_in_a_row: int
    """So many have, this one included, for reasons that count."""


JournalRecord = Union[
    JobStatusRecord,
    RegionsDeployed,
    SplitsDrawn,
    RegionsFinished,
    RegionsSpared,
    RegionsEnded,
    RestartPlanned,
    FailureRecorded,
    RegionsReset,
    CommitsIntended,
    SinkCommitted,
    StopIntended,
    StopGivenUp,
    SavepointCompleted,
    CheckpointTriggered,
    CheckpointCompleted,
    CheckpointGivenUp,
]
