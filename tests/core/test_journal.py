"""The journal: its fold, recovery from it, and its stored form."""

import typing
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from firesteel.core.execution.figures import READ, WRITTEN
from firesteel.core.execution.graph import ExecutionGraph
from firesteel.core.execution.topology import Topology
from firesteel.core.journal.endedattempts import ATTEMPTS_KEPT_MAX, Reached
from firesteel.core.journal.journal import (
    JOURNAL_VERSION,
    STATUSES_KEPT_MAX,
    JobState,
    fold,
)
from firesteel.core.journal.keptfailures import CONCURRENT_FAILURES_MAX
from firesteel.core.journal.records import (
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
from firesteel.core.scheduler.scheduler import DefaultScheduler
from firesteel.model.checkpoints import QueryPoint
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID, RegionIndex, ResourceID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.tasks import TaskOutcome
from firesteel.model.views import ExceptionEntry
from tests.core.graphs import JOB, commit_of, job, outcome
from tests.core.stories.jobmaster import SETTINGS, JobMasterPlayer

HISTORY = SETTINGS.scheduler.exception_history_size
STORIES = sorted((Path(__file__).parent / "golden").glob("jobmaster_*.txt"))
R0, R1, W1 = RegionIndex(0), RegionIndex(1), ResourceID("w1")
FAILURE = FailureInfo(
    kind=FailureKind.USER, message="it raised", vertex="words", location="wc.py:12", trace="Traceback"
)
ENTRY = ExceptionEntry(timestamp_ms=4, failure=FAILURE, region=0, attempt=0, task_manager=W1)

RECORDS: tuple[JournalRecord, ...] = (
    JobStatusRecord(at_ms=1, status=JobStatus.RUNNING),
    RegionsDeployed(at_ms=2, deployed=((R0, 0, W1), (R1, 0, W1))),
    SplitsDrawn(at_ms=2, region=R1, splits=(0, 2)),
    RegionsFinished(at_ms=3, finished=((R1, 0, outcome(job("a => v"), ("a", "v"), 0, 0)),)),
    RegionsEnded(at_ms=4, ended=((R0, 0),)),
    RestartPlanned(
        at_ms=4,
        entry=ENTRY,
        regions=(R0,),
        due_ms=1_004,
        restarts=1,
        backoff=BackoffState(attempts=1, due_ms=1_004, failures_ms=(4,)),
        retried=(R0,),
    ),
    RestartPlanned(
        at_ms=4,
        entry=ENTRY,
        regions=(R0,),
        due_ms=1_004,
        restarts=1,
        outage=Outage(
            since_ms=4,
            told="hdfs://nn does not answer",
            region=R0,
            backoff=BackoffState(attempts=1, due_ms=1_004),
            number=2,
        ),
    ),
    FailureRecorded(at_ms=5, entry=ENTRY),
    RegionsReset(at_ms=6, regions=(R0,)),
    CommitsIntended(at_ms=7, commits=(commit_of("v"),)),
    SinkCommitted(at_ms=8, commit_id="v/0"),
    StopIntended(at_ms=8, savepoint_id="sp1", location="/savepoints/sp1"),
    StopGivenUp(at_ms=8, failure=FAILURE, halted=((R1, 0),)),
    StopIntended(at_ms=8, savepoint_id="sp2", location="/savepoints/sp2", drain=True),
    SavepointCompleted(at_ms=8, savepoint_id="sp2", location="/savepoints/sp2", triggered_ms=7),
    CheckpointTriggered(at_ms=8, checkpoint_id=2),
    CheckpointCompleted(
        at_ms=8,
        checkpoint_id=2,
        points=(QueryPoint(uid="v", batch=7, query_id="q", commit_sha256="c", oldest_batch=2, size_bytes=9),),
        retained_max=2,
    ),
    CheckpointTriggered(at_ms=8, checkpoint_id=3),
    CheckpointGivenUp(at_ms=8, checkpoint_id=3, failure="it expired", failed_in_a_row=1),
    JobStatusRecord(at_ms=9, status=JobStatus.FAILED, failure=FAILURE),
    RegionsSpared(at_ms=9, first=RegionIndex(2), subtasks=1, regions=(RegionIndex(3),)),
)
"""One of each kind, and a status with its cause."""


def folded(records: tuple[JournalRecord, ...], state: JobState | None = None) -> JobState:
    """The fold of records, behind those that `state` is of."""
    state = state or JobState(job_id=JOB)
    for record in records:
        fold(state, record, HISTORY)
    return state


def journals(story: Path) -> tuple[JobGraph, tuple[JournalRecord, ...]]:
    """What the last job of a story has written."""
    player = JobMasterPlayer()
    player.play(story.read_text())
    return player.core.job.graph, tuple(player.journal)  # type: ignore[arg-type]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.stem)
def test_a_job_master_stands_on_any_prefix_of_a_journal(story: Path) -> None:
    graph, records = journals(story)
    for length in range(len(records) + 1):
        trial = DefaultScheduler(graph, folded(records[:length]), SETTINGS.scheduler, lambda record: None)
        trial.start(1_000)
        trial.validate(workers=())


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.stem)
def test_a_snapshot_and_the_rest_are_the_whole(story: Path) -> None:
    """The snapshot is stored and read again: nothing of the state is lost on the way."""
    _, records = journals(story)
    whole = folded(records)
    for length in range(len(records) + 1):
        stored = msgspec.json.encode(folded(records[:length]))
        assert folded(records[length:], msgspec.json.decode(stored, type=JobState)) == whole


def test_stored_records_are_read_as_they_were_written(golden: Callable[[str, str], None]) -> None:
    lines = [msgspec.json.encode({"version": JOURNAL_VERSION}), *map(msgspec.json.encode, RECORDS)]
    golden(f"journal_v{JOURNAL_VERSION}.jsonl", b"\n".join(lines).decode() + "\n")
    assert tuple(msgspec.json.decode(line, type=JournalRecord) for line in lines[1:]) == RECORDS


def test_an_attempt_that_has_run_is_not_forgotten() -> None:
    """However many have failed since before they had checkpoint directories."""
    state = JobState(job_id=JobID("job"))
    for attempt in range(2 * ATTEMPTS_KEPT_MAX):
        fold(state, RegionsDeployed(at_ms=1, deployed=((R0, attempt, ResourceID("w")),)), 1)
        reached = () if attempt == 3 else (Reached.NOTHING,)
        fold(state, RegionsEnded(at_ms=2, ended=((R0, attempt),), reached=reached), 1)
        fold(state, RegionsReset(at_ms=3, regions=(R0,)), 1)
        assert state.checkpointed(R0) == ((3, True) if attempt >= 3 else (-1, False))
    assert len(state.history[R0]) == ATTEMPTS_KEPT_MAX + 1
    assert state.history[R0][-1].attempt == 2 * ATTEMPTS_KEPT_MAX - 1


def test_a_restart_that_an_earlier_version_has_stored_counts_for_the_strategy() -> None:
    line = b'{"type":"RestartPlanned","entry":{"timestamp_ms":4,"failure":{"kind":"user","message":"it raised"}},'
    line += b'"regions":[0],"due_ms":1004,"restarts":2,"at_ms":4}'
    state = folded((msgspec.json.decode(line, type=JournalRecord),))
    assert (state.restarts, state.backoff, state.remembered) == (2, None, BackoffState(attempts=2))
    assert state.outage is None


def test_failures_that_come_with_another_are_kept_with_it_up_to_a_limit() -> None:
    def failed(number: int, *, is_root: bool, concurrent: tuple[ExceptionEntry, ...] = ()) -> RestartPlanned:
        entry = msgspec.structs.replace(ENTRY, timestamp_ms=number, concurrent=concurrent)
        return RestartPlanned(at_ms=number, entry=entry, regions=(R0,), due_ms=9, restarts=1, is_root=is_root)

    with_it = msgspec.structs.replace(ENTRY, timestamp_ms=99)
    state = folded((failed(0, is_root=False), failed(1, is_root=True), failed(2, is_root=False, concurrent=(with_it,))))
    assert [[each.timestamp_ms for each in root.together()] for root in state.exceptions] == [[1, 2, 99], [0]]
    more = folded(tuple(failed(number, is_root=False) for number in range(3, 40)), state)
    assert len(more.exceptions[0].concurrent) == CONCURRENT_FAILURES_MAX
    assert more.exceptions[0].concurrent[:3] == (*state.exceptions[0].concurrent[:2], more.exceptions[0].concurrent[2])


def test_an_attempt_that_ran_knows_when_it_was_followed() -> None:
    """Also when the next one never ran."""
    ran = (
        RegionsDeployed(at_ms=1, deployed=((R0, 0, ResourceID("w1")),)),
        RegionsEnded(at_ms=2, ended=((R0, 0),)),
        RegionsReset(at_ms=5, regions=(R0, R1)),
        RegionsReset(at_ms=7, regions=(R0,)),
    )
    assert [each.followed_ms for each in folded(ran).history[R0]] == [5]
    assert [each.followed_ms for each in folded(ran[:2]).history[R0]] == [-1]


def test_the_newest_changes_of_status_are_kept() -> None:
    turns = (JobStatus.RUNNING, JobStatus.RESTARTING)
    history = folded(tuple(JobStatusRecord(at_ms=n, status=turns[n % 2]) for n in range(100))).status_history
    assert len(history) == STATUSES_KEPT_MAX
    assert history[-2:] == (("RUNNING", 98), ("RESTARTING", 99))


def test_a_stored_snapshot_has_its_form(golden: Callable[[str, str], None]) -> None:
    stored = msgspec.json.format(msgspec.json.encode(folded(RECORDS[:5])))
    golden(f"snapshot_v{JOURNAL_VERSION}.json", stored.decode() + "\n")


def test_an_outage_is_over_when_what_failed_of_it_finishes_or_something_else_fails() -> None:
    """Not when another region finishes: with failover strategy `full` these do, again and again."""
    another, restarted, outage = RECORDS[3], RECORDS[5], RECORDS[6]
    assert isinstance(outage, RestartPlanned)
    assert folded((outage,)).outage == outage.outage
    assert folded((outage, another)).outage == outage.outage
    itself = RegionsFinished(at_ms=5, finished=((R0, 1, TaskOutcome()),))
    assert folded((outage, itself)).outage is None
    assert folded((outage, restarted)).outage is None


def test_there_is_a_sample_of_every_record() -> None:
    kinds = {kind.__name__ for kind in typing.get_args(JournalRecord)}
    assert {type(record).__name__ for record in RECORDS} == kinds


def test_exceptions_are_kept_newest_first_up_to_a_limit() -> None:
    entries = [msgspec.structs.replace(ENTRY, timestamp_ms=at_ms) for at_ms in range(HISTORY + 3)]
    state = folded(tuple(FailureRecorded(at_ms=0, entry=entry) for entry in entries))
    assert state.exceptions == tuple(reversed(entries))[:HISTORY]


def test_a_reset_forgets_what_the_former_attempt_left() -> None:
    state = folded(RECORDS[:6])
    assert (state.ended, state.restarting) == ({R0: None}, {R0: 1_004})
    fold(state, RegionsReset(at_ms=5, regions=(R0, R1)), HISTORY)
    assert (state.ended, state.restarting, state.finished, state.draws) == ({}, {}, {}, {})
    assert state.attempts == {R0: 1, R1: 1}


def test_a_job_starts_once() -> None:
    trial = DefaultScheduler(job("v"), JobState(job_id=JOB), SETTINGS.scheduler, lambda record: None)
    trial.start(0)
    with pytest.raises(AssertionError, match="a job starts once"):
        trial.start(0)


def test_an_attempt_is_followed_by_another_once_it_has_ended() -> None:
    graph = ExecutionGraph(Topology(job("v")))
    with pytest.raises(AssertionError, match="only an ended attempt"):
        graph.reset(np.array([0]))
    graph.restore(np.array([0]), ExecutionState.FAILED)
    graph.reset(np.array([0]))
    assert (graph.state_of(0), graph.attempt_id(0).attempt) == (ExecutionState.CREATED, 1)


def test_columns_cost_what_their_width_says() -> None:
    small, large = (ExecutionGraph(Topology(job(f"v*{width}"))).nbytes() for width in (1_000, 2_000))
    assert large - small == 1_000 * (1 + 4 + 4 + 8 * len(ExecutionState) + 8 * (len(READ) + len(WRITTEN)))
