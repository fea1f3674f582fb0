"""The journal of a job: its records, and the fold that makes a JobMaster's durable state of them.

Progress, slots and connections are not in it: they are learned again. Stored form: msgspec JSON,
within the entries of `storedjobs`, `JOURNAL_VERSION` in the header of each file.
"""

import copy
from typing import assert_never

import msgspec

from firesteel.core.checkpoint import history
from firesteel.core.journal.endedattempts import EndedAttempt, Reached, checkpointed, followed, with_newest
from firesteel.core.journal.keptfailures import with_failure
from firesteel.core.journal.records import (
    NOT_GATHERED,
    CheckpointCompleted,
    CheckpointGivenUp,
    CheckpointTriggered,
    CommitsIntended,
    FailureRecorded,
    JobStatusRecord,
    JournalRecord,
    RegionsDeployed,
    RegionsEnded,
    RegionsFinished,
    RegionsReset,
    RegionsSpared,
    RestartPlanned,
    SavepointCompleted,
    SinkCommitted,
    SplitsDrawn,
    StopGivenUp,
    StopIntended,
)
from firesteel.core.scheduler.backoff import BackoffState
from firesteel.core.scheduler.outages import Outage
from firesteel.model.checkpoints import CheckpointHistory
from firesteel.model.failures import FailureInfo
from firesteel.model.ids import JobID, RegionIndex, ResourceID
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.tasks import NOTHING_TO_DO, SinkCommit, TaskOutcome
from firesteel.model.views import ExceptionEntry

JOURNAL_VERSION = 1

STATUSES_KEPT_MAX = 64
"""Changes of a job's status that are remembered: the newest."""

SAVEPOINTS_KEPT_MAX = 16
"""Savepoints of a job that are remembered: the newest."""


class JobState(msgspec.Struct, kw_only=True):
    """The durable state of a job: the fold of its records, and what a snapshot of the journal holds."""

    job_id: JobID
    status: JobStatus = JobStatus.CREATED
    failure: FailureInfo | None = None
    timestamps_ms: dict[str, int] = {}
    status_history: tuple[tuple[str, int], ...] = ()
    """The statuses that it has come to, each with the time; the newest of them, the oldest first."""
    attempts: dict[RegionIndex, int] = {}
    """Number of the current attempt of each region that was ever reset."""
    instant_ms: int = 0
    """When its first attempt was deployed: the present for all of them; 0 before."""
    deployed: dict[RegionIndex, ResourceID] = {}
    """Where the current attempt may run, as far as it has not ended."""
    deployed_ms: dict[RegionIndex, int] = {}
    """When these were deployed."""
    history: dict[RegionIndex, tuple[EndedAttempt, ...]] = {}
    """Attempts that have ended, the current one among them when it has; the oldest first."""
    draws: dict[RegionIndex, tuple[tuple[int, ...], ...]] = {}
    """Input splits that the current attempt was given, draw by draw. They go back when it ends without a result."""
    finished: dict[RegionIndex, TaskOutcome] = {}
    subtasks: dict[RegionIndex, int] = {}
    """How many subtasks do the work of logical regions that have fewer than their graph says, by their first region."""
    ended: dict[RegionIndex, None] = {}
    """Regions whose current attempt was deployed and has ended without a result."""
    restarting: dict[RegionIndex, int] = {}
    """Regions to run again, with the time before which they do not."""
    restarts: int = 0
    backoff: BackoffState | None = None
    outage: Outage | None = None
    """The storage that did not answer when something failed last, if that has not finished since."""
    retried: dict[RegionIndex, int] = {}
    """How many of their own retries regions have used up, over all of their attempts."""
    backend_deaths: dict[RegionIndex, int] = {}
    """How many Spark backends have died with an attempt of a region in them, since it had settled last."""
    exceptions: tuple[ExceptionEntry, ...] = ()
    """Roots, newest first."""
    intended: tuple[SinkCommit, ...] = ()
    committed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    """Those of them that have left what was there, so none of their rows."""
    notes: dict[str, str] = msgspec.field(default_factory=dict, name="told")
    """What the job's owner is to be told, by commit."""
    stop: StopIntended | None = None
    """It is being stopped with a savepoint."""
    halted: dict[RegionIndex, int] = {}
    """Attempts that may stop though nobody wants that any more, or where a later drain does not want it, by region."""
    savepoints: tuple[SavepointCompleted, ...] = ()
    """The newest of those that were taken, newest first."""
    checkpoints: CheckpointHistory = CheckpointHistory()
    """What is known of these; savepoints are among them."""
    retained: str = ""
    """Where the last one stays though the job has ended."""

    @property
    def created_ms(self) -> int:
        """When the job began to exist, for the JobMaster that was first; -1 before."""
        return self.timestamps_ms.get(JobStatus.CREATED.value, -1)

    @property
    def lacks_savepoint(self) -> bool:
        """Whether it ends with a savepoint that is not there yet."""
        return self.stop is not None and all(each.savepoint_id != self.stop.savepoint_id for each in self.savepoints)

    def last_run(self, region: RegionIndex) -> EndedAttempt | None:
        """The newest attempt before the current one that ran, or may have."""
        known = reversed(self.history.get(region, ()))
        return next((each for each in known if each.attempt < self.attempts.get(region, 0)), None)

    def checkpointed(self, region: RegionIndex) -> tuple[int, bool]:
        """The newest attempt before the current one that has, or may have, made checkpoint directories, -1 for none; and
        whether one has for certain, that one or another."""
        return checkpointed(self.history.get(region, ()), self.attempts.get(region, 0))

    @property
    def remembered(self) -> BackoffState:
        """What the restart strategy is to know of the failures so far."""
        return self.backoff or BackoffState(attempts=self.restarts)


def copy_of(state: JobState) -> JobState:
    """Another one, which `fold` may change; what is frozen is shared."""
    copied = copy.copy(state)
    for name in state.__struct_fields__:
        if isinstance(value := getattr(state, name), dict):
            setattr(copied, name, value.copy())
    return copied


def fold(state: JobState, record: JournalRecord, history_size: int) -> None:
    """Apply one record to `state`, in place."""
    match record:
        case JobStatusRecord():
            _enter(state, record)
        case RegionsDeployed():
            state.instant_ms = state.instant_ms or record.at_ms
            state.deployed.update((region, worker) for region, _, worker in record.deployed)
            state.deployed_ms.update((region, record.at_ms) for region, _, _ in record.deployed)
        case SplitsDrawn():
            state.draws[record.region] = (*state.draws.get(record.region, ()), record.splits)
        case RegionsFinished():
            for region, attempt, outcome in record.finished:
                _ended(state, region, attempt, ExecutionState.FINISHED, record.at_ms)
                state.finished[region] = outcome
            if state.outage is not None and state.outage.region in state.finished:
                state.outage = None
        case RegionsSpared():
            state.subtasks[record.first] = record.subtasks
            state.finished.update(dict.fromkeys(record.regions, NOTHING_TO_DO))
        case RegionsEnded():
            for index, (region, attempt) in enumerate(record.ended):
                _ended(state, region, attempt, record.state, record.at_ms, record.reached_by(index))
                state.draws.pop(region, None)
                state.ended[region] = None
        case RestartPlanned():
            _restart(state, record)
            state.exceptions = with_failure(state.exceptions, record.entry, history_size, is_root=record.is_root)
        case FailureRecorded():
            state.exceptions = with_failure(state.exceptions, record.entry, history_size)
        case RegionsReset():
            for region in record.regions:
                if region in state.history:
                    state.history[region] = followed(state.history[region], state.attempts.get(region, 0), record.at_ms)
                state.attempts[region] = state.attempts.get(region, 0) + 1
                for known in (state.finished, state.ended, state.restarting, state.draws, state.halted):
                    known.pop(region, None)
            if record.ran:
                state.checkpoints = history.restarted(state.checkpoints, record.at_ms)
        case CommitsIntended():
            state.intended = record.commits
        case SinkCommitted():
            state.committed = (*state.committed, record.commit_id)
            if record.note:
                state.notes[record.commit_id] = record.note
            if record.ignored:
                state.ignored = (*state.ignored, record.commit_id)
        case StopIntended():
            state.stop = record
        case StopGivenUp():
            state.stop = None
            state.halted.update(record.halted)
        case SavepointCompleted():
            state.savepoints = (record, *state.savepoints)[:SAVEPOINTS_KEPT_MAX]
            state.checkpoints = history.saved(state.checkpoints, record.location, record.triggered_ms, record.at_ms)
        case CheckpointTriggered() | CheckpointCompleted() | CheckpointGivenUp():
            state.checkpoints = _with_checkpoint(state.checkpoints, record)
        case _:
            assert_never(record)


def _enter(state: JobState, record: JobStatusRecord) -> None:
    state.status = record.status
    state.failure = record.failure or state.failure
    state.timestamps_ms[record.status.value] = record.at_ms
    state.status_history = (*state.status_history, (record.status.value, record.at_ms))[-STATUSES_KEPT_MAX:]
    if record.status.is_globally_terminal:
        state.retained = record.retained
        state.checkpoints = history.ended(state.checkpoints, record.retained, record.at_ms)


def _with_checkpoint(
    known: CheckpointHistory, record: CheckpointTriggered | CheckpointCompleted | CheckpointGivenUp
) -> CheckpointHistory:
    match record:
        case CheckpointTriggered(at_ms=at_ms, checkpoint_id=number):
            return history.triggered(known, number, at_ms)
        case CheckpointCompleted(at_ms=at_ms, checkpoint_id=number, points=points):
            done = history.completed(known, number, points, record.retained_max, at_ms)
            return history.claim_subsumed(done) if record.subsumes_claim else done
        case CheckpointGivenUp(at_ms=at_ms, checkpoint_id=number, failure=failure):
            return history.failed(known, number, failure, record.failed_in_a_row, at_ms)
        case _:
            assert_never(record)


def _restart(state: JobState, record: RestartPlanned) -> None:
    state.restarting.update((region, record.due_ms) for region in record.regions)
    state.restarts, state.backoff, state.outage = record.restarts, record.backoff, record.outage
    if record.gathered != NOT_GATHERED:
        state.subtasks[record.gathered] = 1
    for region in record.retried:
        state.retried[region] = state.retried.get(region, 0) + 1
    if record.entry.failure.is_suspect:
        region = RegionIndex(record.entry.region)
        state.backend_deaths[region] = 1 + state.backend_deaths.get(region, 0) * (not record.had_settled)


def _ended(
    state: JobState,
    region: RegionIndex,
    attempt: int,
    how: ExecutionState,
    at_ms: int,
    reached: Reached | None = Reached.RAN,
) -> None:
    """An attempt is not deployed any more; what is known of it stays. `reached` is None of one that never came to its worker."""
    worker, deployed_ms = state.deployed.pop(region, None), state.deployed_ms.pop(region, -1)
    if worker is not None and reached is not None:
        ended = EndedAttempt(attempt, how, worker, deployed_ms, at_ms, reached)
        state.history[region] = with_newest(state.history.get(region, ()), ended)
