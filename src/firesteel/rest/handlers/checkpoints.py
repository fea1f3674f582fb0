"""Checkpoints of a stream: figures, settings, details. A batch job has none, which is a 404."""

import math
from collections.abc import Sequence
from typing import Any

from firesteel.model.checkpoints import (
    Checkpoint,
    CheckpointHistory,
    CheckpointRetention,
    CheckpointSettings,
    CheckpointStatus,
    CheckpointsView,
    Tally,
)
from firesteel.model.jobgraph import JobType
from firesteel.model.views import JobView
from firesteel.rest.call import Call
from firesteel.rest.errors import RestError, not_found
from firesteel.rest.schema import checkpoints as ck
from firesteel.rest.schema.cluster import Empty

NEVER_MS = (1 << 63) - 1
"""Flink's interval of a job whose checkpoints are not taken unasked."""
NOT_EXTERNAL = "<checkpoint-not-externally-addressable>"
"""Flink's path of a checkpoint that nobody else can begin with."""
STATE_BACKENDS = {"RocksDBStateStoreProvider": "RocksDB"}
SPARKS_STATE_STORE = "HDFSBackedStateStoreProvider"
STATE_STORE = "spark.sql.streaming.stateStore.providerClass"


async def statistics(call: Call) -> ck.CheckpointingStatistics:
    history = (await _checkpoints(call))[1].history
    latest = (history.latest_completed, history.latest_savepoint)
    known = {each.checkpoint_id: each for each in (*history.newest, *latest) if each is not None}
    done = [each for each in known.values() if each.status is CheckpointStatus.COMPLETED]
    in_progress = int(history.in_progress is not None)
    sizes = _summary(history.sizes_bytes, [each.size_bytes for each in done if not each.savepoint])
    return ck.CheckpointingStatistics(
        counts=ck.Counts(
            restored=history.restored,
            total=history.completed + history.failed + in_progress,
            in_progress=in_progress,
            completed=history.completed,
            failed=history.failed,
        ),
        summary=ck.Summary(
            checkpointed_size=sizes,
            state_size=sizes,
            end_to_end_duration=_summary(history.durations_ms, [each.duration_ms for each in done]),
        ),
        latest=ck.LatestCheckpoints(
            completed=_completed(history.latest_completed, history) if history.latest_completed else None,
            savepoint=_completed(history.latest_savepoint, history) if history.latest_savepoint else None,
            failed=_failed(history.latest_failed) if history.latest_failed else None,
            restored=_restored(history),
        ),
        history=[_any(each, history) for each in history.newest],
    )


async def config(call: Call) -> ck.CheckpointConfigInfo:
    view, checkpoints = await _checkpoints(call)
    settings = checkpoints.settings
    of_cluster = (
        {} if call.services.read_only else call.services.config.spark()
    )  # a history server's is that of no cluster
    provider = {**of_cluster, **view.configuration}.get(STATE_STORE, SPARKS_STATE_STORE).rpartition(".")[2]
    return ck.CheckpointConfigInfo(
        interval=settings.interval_ms or NEVER_MS,
        timeout=settings.timeout_ms,
        min_pause=settings.min_pause_ms,
        externalization=_externalization(settings),
        tolerable_failed_checkpoints=settings.tolerable_failures,
        state_backend=STATE_BACKENDS.get(provider, provider),
        checkpoint_storage="FileSystemCheckpointStorage",
    )


async def details(call: Call) -> ck.CheckpointDetails:
    history = (await _checkpoints(call))[1].history
    known = (*history.newest, history.latest_completed, history.latest_savepoint, history.latest_failed)
    wanted = call.number("checkpointid")
    found = next((each for each in known if each is not None and each.checkpoint_id == wanted), None)
    if found is None:
        raise not_found(f"Could not find checkpointing statistics for checkpoint {wanted}.")
    return _any(found, history)


async def vertex_details(call: Call) -> Empty:
    """A query is one thing: there is nothing more to say of its subtask."""
    await _checkpoints(call)
    raise not_found("There are no figures of subtasks: those of a vertex are in the details of the checkpoint.")


async def _checkpoints(call: Call) -> tuple[JobView, CheckpointsView]:
    view = await call.gateway.request_job(call.job_id)
    if view.checkpoints is None:
        if view.job_type is JobType.BATCH:
            raise not_found(f"Checkpointing is not enabled for this job ({call.job_id}): it is a batch job.")
        if view.status.is_globally_terminal:
            raise not_found(f"Nothing is known any more of the checkpoints of job {call.job_id}.")
        raise RestError(503, f"Job {call.job_id} has no master at the moment, who would tell of its checkpoints.")
    return view, view.checkpoints.redacted()


def _any(checkpoint: Checkpoint, history: CheckpointHistory) -> ck.CheckpointDetails:
    match checkpoint.status:
        case CheckpointStatus.COMPLETED:
            return _completed(checkpoint, history)
        case CheckpointStatus.FAILED:
            return _failed(checkpoint)
        case CheckpointStatus.IN_PROGRESS:
            return ck.CheckpointStatistics(**_common(checkpoint))


def _completed(checkpoint: Checkpoint, history: CheckpointHistory) -> ck.CompletedCheckpointStatistics:
    retained = any(each.checkpoint_id == checkpoint.checkpoint_id for each in history.retained)
    return ck.CompletedCheckpointStatistics(
        **_common(checkpoint),
        external_path=checkpoint.savepoint or checkpoint.retained or NOT_EXTERNAL,
        discarded=not (retained or checkpoint.savepoint),
    )


def _failed(checkpoint: Checkpoint) -> ck.FailedCheckpointStatistics:
    return ck.FailedCheckpointStatistics(
        **_common(checkpoint), failure_timestamp=checkpoint.ended_ms, failure_message=checkpoint.failure
    )


def _restored(history: CheckpointHistory) -> ck.RestoredCheckpointStatistics | None:
    if history.restored_id < 0:
        return None
    return ck.RestoredCheckpointStatistics(
        id=history.restored_id,
        restore_timestamp=history.restored_ms,
        is_savepoint=False,
        external_path=NOT_EXTERNAL,
    )


def _common(checkpoint: Checkpoint) -> dict[str, Any]:
    """Fields that all have; Flink's names."""
    is_complete = checkpoint.status is CheckpointStatus.COMPLETED
    queries = len(checkpoint.points)
    tasks: dict[str, ck.TaskCheckpointStatistics] = {}
    for vertex in dict.fromkeys(point.vertex_id for point in checkpoint.points):
        sizes = [point.size_bytes for point in checkpoint.points if point.vertex_id == vertex]
        tasks[vertex] = ck.TaskCheckpointStatistics(
            id=checkpoint.checkpoint_id,
            status=checkpoint.status.value,
            latest_ack_timestamp=checkpoint.ended_ms,
            checkpointed_size=sum(sizes),
            state_size=sum(sizes),
            end_to_end_duration=checkpoint.duration_ms,
            num_subtasks=len(sizes),
            num_acknowledged_subtasks=len(sizes),
        )
    return {
        "id": checkpoint.checkpoint_id,
        "status": checkpoint.status.value,
        "is_savepoint": bool(checkpoint.savepoint),
        "savepoint_format": "NATIVE" if checkpoint.savepoint else None,
        "trigger_timestamp": checkpoint.triggered_ms,
        "latest_ack_timestamp": checkpoint.ended_ms if is_complete else -1,
        "checkpointed_size": checkpoint.size_bytes,
        "state_size": checkpoint.size_bytes,
        "end_to_end_duration": checkpoint.duration_ms,
        "num_subtasks": queries,
        "num_acknowledged_subtasks": queries,
        "checkpoint_type": "SAVEPOINT" if checkpoint.savepoint else "CHECKPOINT",
        "tasks": tasks,
    }


def _externalization(settings: CheckpointSettings) -> ck.Externalization:
    """Where workers share no checkpoints nothing stays, whatever the option says."""
    kind = settings.retention
    return ck.Externalization(
        enabled=bool(settings.shared_dir) and kind is not CheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS,
        delete_on_cancellation=kind is not CheckpointRetention.RETAIN_ON_CANCELLATION,
    )


def _summary(tally: Tally, remembered: Sequence[int]) -> ck.StatsSummary:
    found = sorted(remembered)
    if not tally.count or not found:
        return ck.StatsSummary()

    def percentile(part: float) -> float:
        return float(found[max(0, math.ceil(part * len(found)) - 1)])

    return ck.StatsSummary(
        tally.min,
        tally.max,
        tally.sum // tally.count,
        *(percentile(part) for part in (0.5, 0.9, 0.95, 0.99, 0.999)),
    )
