"""What is remembered of a job's checkpoints after each fact about one. Pure: the fold of the journal calls these.

The store of completed checkpoints is `CheckpointHistory.retained`. One gets in when its record is durable, which is written
after all that it names; one that can't be gone on from any more is taken out before it is ever offered again.
"""

from msgspec.structs import replace

from firesteel.model.checkpoints import Checkpoint, CheckpointHistory, CheckpointStatus, QueryPoint
from firesteel.model.streams import savepoint_name

NEWEST_MAX = 10
"""Checkpoints that are remembered one by one, the last that is no savepoint among them: Flink's `web.checkpoints.history`."""


def triggered(history: CheckpointHistory, checkpoint_id: int, at_ms: int) -> CheckpointHistory:
    """A checkpoint has its number, and begins."""
    begun = Checkpoint(checkpoint_id=checkpoint_id, status=CheckpointStatus.IN_PROGRESS, triggered_ms=at_ms)
    return replace(history, last_id=checkpoint_id, newest=_remembered(begun, *history.newest))


def completed(
    history: CheckpointHistory, checkpoint_id: int, points: tuple[QueryPoint, ...], retained_max: int, at_ms: int
) -> CheckpointHistory:
    """All points are known. It is retained, and subsumes the older ones beyond `retained_max`, and those that the queries'
    own retention has overtaken."""
    begun = _begun(history, checkpoint_id)
    if begun is None:
        return history
    done = replace(begun, status=CheckpointStatus.COMPLETED, ended_ms=at_ms, points=points)
    oldest = {point.uid: point.oldest_batch for point in points}
    kept = tuple(each for each in history.retained if _is_there(each, oldest))
    return replace(
        _with_end(history, done),
        completed=history.completed + 1,
        failed_in_a_row=0,
        latest_completed=done,
        retained=(done, *kept)[:retained_max],
        durations_ms=history.durations_ms.with_value(done.duration_ms),
        sizes_bytes=history.sizes_bytes.with_value(done.size_bytes),
    )


def claim_subsumed(history: CheckpointHistory) -> CheckpointHistory:
    """From here on there is something newer than the savepoint that the job has claimed."""
    return replace(history, claim_subsumed=True)


def failed(
    history: CheckpointHistory, checkpoint_id: int, failure: str, failed_in_a_row: int, at_ms: int
) -> CheckpointHistory:
    """It is given up."""
    begun = _begun(history, checkpoint_id)
    if begun is None:
        return history
    ended = replace(begun, status=CheckpointStatus.FAILED, ended_ms=at_ms, failure=failure)
    return replace(
        _with_end(history, ended), failed=history.failed + 1, failed_in_a_row=failed_in_a_row, latest_failed=ended
    )


def saved(history: CheckpointHistory, location: str, triggered_ms: int, at_ms: int) -> CheckpointHistory:
    """A savepoint is there. It has a number like a checkpoint, and is never subsumed."""
    made = Checkpoint(
        checkpoint_id=history.last_id + 1,
        status=CheckpointStatus.COMPLETED,
        triggered_ms=triggered_ms if triggered_ms >= 0 else at_ms,
        ended_ms=at_ms,
        savepoint=location,
    )
    return replace(
        history,
        last_id=made.checkpoint_id,
        completed=history.completed + 1,
        newest=_remembered(made, *history.newest),
        latest_savepoint=made,
        durations_ms=history.durations_ms.with_value(made.duration_ms),
    )


def restarted(history: CheckpointHistory, at_ms: int) -> CheckpointHistory:
    """Queries begin again, in directories of their own that hold the last committed point: older ones are gone."""
    if history.latest_completed is None:
        return history
    return replace(
        history,
        restored=history.restored + 1,
        restored_id=history.latest_completed.checkpoint_id,
        restored_ms=at_ms,
        retained=(),
    )


def ended(history: CheckpointHistory, retained: str, at_ms: int) -> CheckpointHistory:
    """The job has ended: the queries' directories go, and with them all that was retained. Where their last points stay at
    `retained`, they are one more checkpoint."""
    if not retained:
        return replace(history, retained=())
    last = Checkpoint(
        checkpoint_id=history.last_id + 1,
        status=CheckpointStatus.COMPLETED,
        triggered_ms=at_ms,
        ended_ms=at_ms,
        retained=retained,
    )
    return replace(
        history,
        last_id=last.checkpoint_id,
        completed=history.completed + 1,
        newest=_remembered(last, *history.newest),
        latest_completed=last,
        retained=(last,),
    )


def savepoint_of(history: CheckpointHistory, job_id: str, savepoint_id: str) -> str:
    """Location of the savepoint of that id, as far as it is remembered; else empty. Who has asked for it may ask again when
    its job has ended, perhaps with it."""
    known = (*history.newest, history.latest_savepoint)
    locations = [each.savepoint for each in known if each is not None]
    name = savepoint_name(job_id, savepoint_id)
    return next((each for each in locations if each.rpartition("/")[2] == name), "")


def _remembered(*newest: Checkpoint) -> tuple[Checkpoint, ...]:
    """The newest of them, and the last checkpoint, which may be under way while many savepoints are taken."""
    kept = newest[:NEWEST_MAX]
    last = next((each for each in newest if not each.savepoint), None)
    return kept if last is None or last in kept else (*kept[:-1], last)


def _begun(history: CheckpointHistory, checkpoint_id: int) -> Checkpoint | None:
    """None for one that has ended: an end counts once."""
    found = history.in_progress
    return found if found is not None and found.checkpoint_id == checkpoint_id else None


def _with_end(history: CheckpointHistory, ended: Checkpoint) -> CheckpointHistory:
    newest = tuple(ended if each.checkpoint_id == ended.checkpoint_id else each for each in history.newest)
    return replace(history, newest=newest)


def _is_there(checkpoint: Checkpoint, oldest: dict[str, int]) -> bool:
    """Whether the queries' own retention has left all of its batches."""
    return all(point.batch >= oldest.get(point.uid, -1) for point in checkpoint.points)
