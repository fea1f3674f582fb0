"""Metrics of streaming jobs: their checkpoints and their queries."""

from firesteel.model.metric import Kind, Metric, Scope, Unit

COMPLETED_CHECKPOINTS = Metric(
    Scope.JOB,
    "numberOfCompletedCheckpoints",
    Unit.NUMBER,
    "Checkpoints and savepoints that were completed, under all masters that the job has had.",
    kind=Kind.COUNTER,
    is_flinks=True,
)
FAILED_CHECKPOINTS = Metric(
    Scope.JOB,
    "numberOfFailedCheckpoints",
    Unit.NUMBER,
    "Those that have failed.",
    kind=Kind.COUNTER,
    is_flinks=True,
)
CHECKPOINTS_IN_PROGRESS = Metric(
    Scope.JOB, "numberOfInProgressCheckpoints", Unit.NUMBER, "Those that are being taken.", is_flinks=True
)
ALL_CHECKPOINTS = Metric(
    Scope.JOB,
    "totalNumberOfCheckpoints",
    Unit.NUMBER,
    "Those three together.",
    kind=Kind.COUNTER,
    is_flinks=True,
)
LAST_CHECKPOINT_ID = Metric(
    Scope.JOB, "lastCompletedCheckpointId", Unit.NUMBER, "Number of the newest completed one.", is_flinks=True
)
LAST_CHECKPOINT_DURATION = Metric(
    Scope.JOB, "lastCheckpointDuration", Unit.MILLISECONDS, "Time that the newest completed one took.", is_flinks=True
)
LAST_CHECKPOINT_SIZE = Metric(
    Scope.JOB,
    "lastCheckpointSize",
    Unit.BYTES,
    "Size of the files that it is made of, which a checkpoint does not copy.",
    is_flinks=True,
)
LAST_RESTORE = Metric(
    Scope.JOB,
    "lastCheckpointRestoreTimestamp",
    Unit.MILLISECONDS,
    "When queries last went on from where they had come to; since the epoch.",
    is_flinks=True,
)

QUERY_BATCH = Metric(Scope.JOB, "queries.<query>.batch", Unit.NUMBER, "Last batch that a sink's query has committed.")
QUERY_INPUT_RATE = Metric(
    Scope.JOB, "queries.<query>.inputRowsPerSecond", Unit.NUMBER, "Rows a second that come in, in its last batch."
)
QUERY_PROCESSING_RATE = Metric(
    Scope.JOB,
    "queries.<query>.processedRowsPerSecond",
    Unit.NUMBER,
    "Rows a second that it works off; where fewer than come in, it falls behind.",
)
QUERY_BATCH_DURATION = Metric(
    Scope.JOB, "queries.<query>.batchDuration", Unit.MILLISECONDS, "Time that its last batch took."
)
QUERY_STATE_ROWS = Metric(
    Scope.JOB, "queries.<query>.stateRows", Unit.NUMBER, "Rows in the state of its operators together."
)
QUERY_STATE_MEMORY = Metric(Scope.JOB, "queries.<query>.stateMemory", Unit.BYTES, "Memory that this state takes.")
QUERY_WATERMARK = Metric(Scope.JOB, "queries.<query>.watermark", Unit.MILLISECONDS, "Its watermark, since the epoch.")

TASK_INPUT_RATE = Metric(
    Scope.TASK,
    "numRecordsInPerSecond",
    Unit.NUMBER,
    "Rows a second that come in, in the last batches of its queries.",
    is_flinks=True,
)
TASK_WATERMARK = Metric(
    Scope.TASK,
    "currentInputWatermark",
    Unit.MILLISECONDS,
    "The lowest watermark of its queries, since the epoch.",
    is_flinks=True,
)
