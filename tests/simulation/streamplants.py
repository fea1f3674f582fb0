"""Planted bugs of streams: what counts of a query's batches, what a checkpoint or a savepoint holds, and how a job stops."""

from collections.abc import Collection, Iterator
from typing import Any

import msgspec
import pytest

from firesteel.core.checkpoint import coordinator, history
from firesteel.core.checkpoint.beginning import Beginning, beginning_of
from firesteel.core.checkpoint.coordinator import CheckpointCoordinator
from firesteel.core.checkpoint.orders import Looking, looking_of
from firesteel.core.checkpoint.requests import TriggerSavepoint
from firesteel.core.checkpoint.savepoints import Savepoints
from firesteel.core.journal.journal import JobState
from firesteel.core.scheduler.executions import Executions
from firesteel.core.scheduler.view import JobViews
from firesteel.model.checkpoints import CheckpointHistory, CheckpointRetention, QueryPoint
from firesteel.model.failures import FailureInfo
from firesteel.model.ids import JobID, ResourceID
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.streams import SavepointOrder
from firesteel.testing.simulation.streams import outputs, queries, saving
from firesteel.testing.simulation.streams.outputs import Output, Rows
from firesteel.testing.simulation.streams.queries import FakeQueries
from firesteel.testing.simulation.streams.saving import Saving
from firesteel.testing.simulation.streams.storage import SavedJob, StreamStorage


def one_worker_speaks_for_all(patch: pytest.MonkeyPatch) -> None:
    """A checkpoint is complete when the first worker has said where its queries are."""
    acknowledged = CheckpointCoordinator.acknowledged

    def first_is_all(
        owner: CheckpointCoordinator,
        worker: ResourceID,
        checkpoint_id: int,
        points: tuple[QueryPoint, ...],
        failure: FailureInfo | None,
    ) -> None:
        acknowledged(owner, worker, checkpoint_id, points, failure)
        pending = owner._pending
        if pending is not None and pending.points:
            pending.points.update({each: () for each in pending.queries if each not in pending.points})

    patch.setattr(CheckpointCoordinator, "acknowledged", first_is_all)


def overtaken_checkpoints_stay(patch: pytest.MonkeyPatch) -> None:
    """A checkpoint is offered though its query's retention has overtaken it."""
    patch.setattr(history, "_is_there", lambda checkpoint, oldest: True)


def savepoints_have_no_number(patch: pytest.MonkeyPatch) -> None:
    """A savepoint is remembered under the number that the next checkpoint gets."""
    saved = history.saved

    def saved_without(known: CheckpointHistory, location: str, triggered_ms: int, at_ms: int) -> CheckpointHistory:
        made = saved(known, location, triggered_ms, at_ms)
        return msgspec.structs.replace(made, last_id=known.last_id)

    patch.setattr(history, "saved", saved_without)


def batches_count_twice_after_a_restore(patch: pytest.MonkeyPatch) -> None:
    """The batch that a query goes on with is not taken back."""
    patch.setattr(outputs, "is_ended", lambda held, batch: held > batch)


def taken_back_oldest_first(patch: pytest.MonkeyPatch) -> None:
    """Who dies while older batches are taken back leaves a gap (a bug we had)."""
    patch.setattr(outputs, "in_order_of_ending", sorted)


def taken_back_before_what_is_staged(patch: pytest.MonkeyPatch) -> None:
    """What is staged goes last: until then a zombie gives it a name that nobody takes back (a bug we had)."""
    begin = Output.begin

    def staged_last(output: Output, number: int, batch: int, query_id: str, planned: Rows) -> Iterator[None]:
        if not output.generations[number].query_id:
            output._check(number)
            for index in reversed(range(number)):
                output.withdraw(index, batch)
                yield
        yield from begin(output, number, batch, query_id, planned)

    patch.setattr(Output, "begin", staged_last)


def what_was_shown_is_replaced(patch: pytest.MonkeyPatch) -> None:
    """The next attempt writes the batch anew that the one before has shown (a bug we had)."""
    patch.setattr(outputs, "may_stay", lambda batch, known: False)


def zombies_publish(patch: pytest.MonkeyPatch) -> None:
    """A query does not look whether a newer start of it writes to its output."""
    patch.setattr(Output, "_check", lambda output, number: None)


def manifest_before_its_files(patch: pytest.MonkeyPatch) -> None:
    """A savepoint has its name and its manifest, and then its files."""

    def named_first(saving: Saving, job_id: JobID, order: SavepointOrder) -> Iterator[int]:
        uids = [(of, uid) for of in order.queries for uid in of.uids]
        made = SavedJob(job_id, manifest=tuple(uid for _, uid in uids))
        yield from saving._publish(made, order.location)
        for of, uid in uids:
            yield from saving._copy(made, job_id, of, uid)

    patch.setattr(Saving, "_writing", named_first)


def stopped_is_done(patch: pytest.MonkeyPatch) -> None:
    """A job whose queries have stopped for a savepoint is over without one."""
    patch.setattr(JobState, "lacks_savepoint", property(lambda state: False))


def whatever_is_there_is_the_savepoint(patch: pytest.MonkeyPatch) -> None:
    """A savepoint that was given up is taken for the one of a later order: of where its queries were then (a bug we had)."""
    patch.setattr(saving, "is_of_order", lambda held, wanted: True)


def vanished_is_begun_anew(patch: pytest.MonkeyPatch) -> None:
    """Where all workers look, nothing there is taken to mean that nothing was begun (a bug we had)."""

    def trusting(attempt: int, known: Collection[int], **facts: Any) -> Beginning:
        return beginning_of(attempt, known, **{**facts, "has_run": False})

    patch.setattr(queries, "beginning_of", trusting)


def ended_queries_are_left_out(patch: pytest.MonkeyPatch) -> None:
    """A checkpoint is complete without a query that has ended and whose worker is gone (a bug we had)."""

    def without(executions: Executions, workers: Collection[ResourceID]) -> Looking:
        found = looking_of(executions, workers)
        graph = executions.graph
        there = {
            worker: tuple(each for each in of if graph.worker_of(each.region) == worker)
            for worker, of in found.queries.items()
        }
        return Looking(there)

    patch.setattr(coordinator, "looking_of", without)


def ended_queries_are_in_the_way(patch: pytest.MonkeyPatch) -> None:
    """No savepoint is taken, and no job stopped with one, when one of its queries has ended by itself (a bug we had)."""
    refusal = Savepoints._refusal

    def all_have_to_run(savepoints: Savepoints, request: TriggerSavepoint) -> str:
        ended = savepoints._executions.graph.count(ExecutionState.FINISHED)
        return refusal(savepoints, request) or ("not all queries run: ask again when they do" if ended else "")

    patch.setattr(Savepoints, "_refusal", all_have_to_run)


def what_is_to_stay_is_deleted(patch: pytest.MonkeyPatch) -> None:
    """Workers delete the checkpoints of a job that is over, as they did before any was to stay."""
    patch.setattr(StreamStorage, "retain", lambda storage, job_id, location: None)


def whoever_deletes_is_first(patch: pytest.MonkeyPatch) -> None:
    """A worker saves what is to stay when it has deleted the rest."""
    release = queries.FakeQueries.release

    def release_first(owner: FakeQueries, job_id: JobID, *, is_over: bool, retained: str | None = "") -> None:
        release(owner, job_id, is_over=is_over)
        release(owner, job_id, is_over=is_over, retained=retained)

    patch.setattr(queries.FakeQueries, "release", release_first)


def stays_after_all_ends(patch: pytest.MonkeyPatch) -> None:
    """The option is not asked: also a job that was cancelled leaves its last checkpoint."""
    patch.setattr(CheckpointRetention, "retains", lambda retention, status: status is not JobStatus.FINISHED)


def told_to_stay_and_to_go(patch: pytest.MonkeyPatch) -> None:
    """The JobMaster says where the last checkpoint stays, and does not tell workers."""
    patch.setattr(JobViews, "retained", "")
