"""Figures made of views: a view in, values out. What a view does not know is left out."""

from collections.abc import Collection, Mapping, Sequence

from firesteel.model import metrics
from firesteel.model.checkpoints import CheckpointHistory
from firesteel.model.ids import JobID
from firesteel.model.metric import MetricValue, measured
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.streams import QueryProgress
from firesteel.model.tasks import IOMetrics, TaskProgress
from firesteel.model.views import ClusterView, JobSummary, JobView, QueuePlace, SubtaskView, TaskManagerView, VertexView

_IO_FIELDS = {
    "numRecordsIn": "rows_read",
    "numBytesIn": "bytes_read",
    "numRecordsOut": "rows_written",
    "numBytesOut": "bytes_written",
    "sparkTasks": "tasks",
}
"""Fields of IOMetrics by the metric that tells them."""

QUEUES_MAX = 100
"""Queues that are told of, at most: without `jobmanager.queues` users may name any."""

_DOWN = (JobStatus.FAILING, JobStatus.RESTARTING, JobStatus.CANCELLING)


def cluster_values(cluster: ClusterView, *, queues: Collection[str], now_ms: int) -> list[MetricValue]:
    """Figures of a cluster; `queues` are those that are told of also while nobody waits there."""
    counts = {status: cluster.ended.get(status.value, 0) for status in JobStatus}
    for job in cluster.jobs:
        counts[job.status] += 1
    return [
        metrics.REGISTERED_TASK_MANAGERS.of(len(cluster.task_managers)),
        metrics.LOST_TASK_MANAGERS.of(cluster.task_managers_lost),
        metrics.TASK_SLOTS_TOTAL.of(sum(worker.slots for worker in cluster.task_managers)),
        metrics.TASK_SLOTS_AVAILABLE.of(sum(worker.free_slots for worker in cluster.task_managers)),
        metrics.RUNNING_JOBS.of(len(cluster.jobs)),
        *(metrics.JOBS_BY_STATUS.of(count, status.value) for status, count in counts.items()),
        *_queue_values(cluster.jobs, cluster.queue, queues, now_ms),
    ]


def _queue_values(
    jobs: Sequence[JobSummary], queue: Mapping[JobID, QueuePlace], queues: Collection[str], now_ms: int
) -> list[MetricValue]:
    lengths, waits_ms = dict.fromkeys(queues, 0), dict.fromkeys(queues, 0)
    for job in jobs:
        place = queue.get(job.job_id)
        if place is not None:
            wait_ms = now_ms - job.modified_ms if job.status is JobStatus.CREATED else 0
            lengths[place.queue] = lengths.get(place.queue, 0) + 1
            waits_ms[place.queue] = max(waits_ms.get(place.queue, 0), wait_ms)
    told = tuple(lengths)[:QUEUES_MAX]
    return [
        *(metrics.QUEUE_LENGTH.of(lengths[name], name) for name in told),
        *(metrics.QUEUE_OLDEST_WAIT.of(waits_ms[name], name) for name in told),
    ]


def worker_values(worker: TaskManagerView, now_ms: int) -> list[MetricValue]:
    """Figures of a worker: what its master knows, and what it has told of itself."""
    return [
        metrics.SLOTS_TOTAL.of(worker.slots),
        metrics.SLOTS_FREE.of(worker.free_slots),
        metrics.LAST_HEARTBEAT_AGE.of(max(0, now_ms - worker.last_heartbeat_ms)),
        *worker.metrics,
    ]


def job_values(job: JobView, now_ms: int) -> list[MetricValue]:
    """Figures of a job, also of one that has ended."""
    values = [metrics.RESTARTS.of(job.restarts), metrics.FULL_RESTARTS.of(job.restarts)]
    if not job.status.is_globally_terminal:
        values += _times(job, now_ms)
    tasks: dict[str, int] = {}
    for vertex in job.vertices:
        for state, count in vertex.tasks.items():
            tasks[state] = tasks.get(state, 0) + count
    values += [metrics.TASKS_BY_STATE.of(count, state) for state, count in tasks.items()]
    for name, field in _IO_FIELDS.items():
        known = [int(getattr(vertex.io, field)) for vertex in job.vertices if _is_told(vertex, field)]
        if known:
            values.append(metrics.JOB_IO[name].of(sum(known)))
    if job.checkpoints is not None:
        values += _checkpoint_values(job.checkpoints.history)
        queries = {query.uid: query for vertex in job.vertices for each in vertex.progress for query in each.queries}
        values += [value for query in queries.values() for value in _query_values(query)]
    return values


def _checkpoint_values(history: CheckpointHistory) -> list[MetricValue]:
    in_progress = int(history.in_progress is not None)
    values = [
        metrics.COMPLETED_CHECKPOINTS.of(history.completed),
        metrics.FAILED_CHECKPOINTS.of(history.failed),
        metrics.CHECKPOINTS_IN_PROGRESS.of(in_progress),
        metrics.ALL_CHECKPOINTS.of(history.completed + history.failed + in_progress),
    ]
    if history.restored_ms >= 0:
        values.append(metrics.LAST_RESTORE.of(history.restored_ms))
    if (last := history.latest_completed) is not None:
        values += [
            metrics.LAST_CHECKPOINT_ID.of(last.checkpoint_id),
            metrics.LAST_CHECKPOINT_DURATION.of(last.duration_ms),
            metrics.LAST_CHECKPOINT_SIZE.of(last.size_bytes),
        ]
    return values


def _query_values(query: QueryProgress) -> list[MetricValue]:
    figures = {
        metrics.QUERY_BATCH: query.batch_id,
        metrics.QUERY_BATCH_DURATION: query.batch_duration_ms,
        metrics.QUERY_STATE_ROWS: query.state_rows,
        metrics.QUERY_STATE_MEMORY: query.state_bytes,
        metrics.QUERY_WATERMARK: query.watermark_ms,
    }
    values = [metric.of(figure, query.uid) for metric, figure in figures.items() if figure >= 0]
    if query.batch_duration_ms >= 0:  # Spark has told of a batch
        values.append(metrics.QUERY_INPUT_RATE.of(query.input_rows_per_second, query.uid))
        values.append(metrics.QUERY_PROCESSING_RATE.of(query.processed_rows_per_second, query.uid))
    return values


def _is_told(vertex: VertexView, field: str) -> bool:
    """Whether some subtask of the vertex has finished, and all that have know the figure."""
    finished = vertex.tasks.get(ExecutionState.FINISHED.name, 0)
    is_known = field not in vertex.io_uncounted
    return finished > 0 and is_known and (field not in vertex.io_lacking or finished < vertex.parallelism)


def _times(job: JobView, now_ms: int) -> list[MetricValue]:
    entered_ms = job.timestamps_ms.get(job.status.value, now_ms)
    current_ms = max(0, now_ms - entered_ms)
    values = [
        metric.of(current_ms if state == job.status.value else 0) for state, metric in metrics.STATE_TIMES.items()
    ]
    if job.status is JobStatus.RUNNING:
        values += [metrics.UPTIME.of(current_ms), metrics.DOWNTIME.of(0)]
    elif job.status in _DOWN:
        values += [metrics.UPTIME.of(0), metrics.DOWNTIME.of(max(current_ms, now_ms - _down_since_ms(job, now_ms)))]
    return values


def _down_since_ms(job: JobView, now_ms: int) -> int:
    """When it left RUNNING: a state that it came to after that may have led to the one that it is in."""
    running_ms = job.timestamps_ms.get(JobStatus.RUNNING.value, -1)
    entered_ms = [job.timestamps_ms.get(status.value, -1) for status in _DOWN]
    return min((at_ms for at_ms in entered_ms if at_ms >= max(0, running_ms)), default=now_ms)


def task_values(vertex: VertexView, subtask: SubtaskView, *, is_reader: bool) -> list[MetricValue]:
    """Figures of a subtask's current attempt: of one that has finished as they were in the end; of one that runs, as
    they were told last. What its region reads is that of a reader."""
    if subtask.state is ExecutionState.RUNNING:
        running = [each for each in vertex.progress if _is_of(each, vertex, subtask)]
        return _progress_values(running[0], is_reader=is_reader) if running else []
    return _io_values(subtask.io)


def _is_of(progress: TaskProgress, vertex: VertexView, subtask: SubtaskView) -> bool:
    place = (vertex.first_region + subtask.subtask, subtask.attempt)
    return (progress.attempt.region, progress.attempt.attempt) == place


def _io_values(io: IOMetrics) -> list[MetricValue]:
    known = {name: int(getattr(io, field)) for name, field in _IO_FIELDS.items()}
    of_attempt = {metrics.SPARK_TIME: io.spark_ms, metrics.MEMORY_PEAK: io.memory_peak_bytes}
    figures = {metrics.TASK_IO[name]: value for name, value in known.items()} | of_attempt
    return measured({metric: value for metric, value in figures.items() if value >= 0})


def _progress_values(progress: TaskProgress, *, is_reader: bool) -> list[MetricValue]:
    """Rows of a batch job are counted at the end; of a stream nothing else is."""
    if progress.waits_for:
        return []
    if progress.queries:
        rate = sum(query.input_rows_per_second for query in progress.queries)
        values = [metrics.TASK_IO["numRecordsIn"].of(progress.rows_read), metrics.TASK_INPUT_RATE.of(rate)]
        return [*(values if is_reader else ()), *watermark_values(progress)]
    return [
        *([metrics.TASK_IO["numBytesIn"].of(progress.bytes_read)] if is_reader else ()),
        metrics.TASK_IO["sparkTasks"].of(progress.tasks_done),
        metrics.SPARK_TASKS_PLANNED.of(progress.tasks_total),
    ]


def watermark_values(progress: TaskProgress) -> list[MetricValue]:
    """None where no query has one."""
    known = [query.watermark_ms for query in progress.queries if query.watermark_ms >= 0]
    return [metrics.TASK_WATERMARK.of(min(known))] if known else []
