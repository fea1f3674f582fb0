"""Options of streaming pipelines and their checkpoints."""

from firesteel.model.configuration import ConfigOption

STREAM_TRIGGER = ConfigOption(
    "execution.streaming.trigger",
    "trigger",
    0,
    "When a streaming query begins a batch, unless its sink has called `trigger(...)`: so long after it has begun the one before, 0 for at once; or `available-now`: it reads what is there when it starts, then it ends.",
)
STREAM_REATTACHMENTS = ConfigOption(
    "execution.streaming.reattachments",
    "int",
    3,
    "So often within ten minutes a task process that was killed while the queries of its attempt run on is replaced by one that follows them; after that, and with 0 at once, the attempt has failed.",
)
CHECKPOINTS_DIR = ConfigOption(
    "execution.checkpointing.dir",
    "str",
    "",
    "Directory below which streaming queries keep their checkpoints, which all workers share: an absolute path or a `file:` URI. Empty: below `cluster.results-dir` where that is a directory, else below a worker's own, with which they are lost.",
    deprecated_key="state.checkpoints.dir",
)
SAVEPOINT_DIR = ConfigOption(
    "execution.checkpointing.savepoint-dir",
    "str",
    "",
    "Directory in which savepoints are made when none is named: an absolute path or a `file:` URI that all workers share, `s3://BUCKET/PATH` or `hdfs://HOST:PORT/PATH`.",
    deprecated_key="state.savepoints.dir",
)
CHECKPOINT_TIMEOUT = ConfigOption(
    "execution.checkpointing.timeout",
    "duration",
    600_000,
    "A checkpoint or savepoint that is not complete after this time has failed.",
)
CHECKPOINT_INTERVAL = ConfigOption(
    "execution.checkpointing.interval",
    "duration",
    0,
    "Time from one checkpoint of a stream to the next; 0: none is taken unless somebody asks for it.",
)
CHECKPOINT_MIN_PAUSE = ConfigOption(
    "execution.checkpointing.min-pause",
    "duration",
    0,
    "Time that passes at least between the end of a checkpoint and the next, unless somebody asks for it.",
)
TOLERABLE_FAILED_CHECKPOINTS = ConfigOption(
    "execution.checkpointing.tolerable-failed-checkpoints",
    "int",
    0,
    "Number of checkpoints that may fail one after another; with one more the job's queries are restarted.",
)
CHECKPOINTS_RETAINED = ConfigOption(
    "execution.checkpointing.num-retained",
    "int",
    1,
    "Number of completed checkpoints that are retained, as far as the queries' own retention (`spark.sql.streaming.minBatchesToRetain`) leaves their batches.",
    deprecated_key="state.checkpoints.num-retained",
)
CHECKPOINT_RETENTION = ConfigOption(
    "execution.checkpointing.externalized-checkpoint-retention",
    "str",
    "DELETE_ON_CANCELLATION",
    "Which streaming jobs leave their last checkpoint when they have ended, where all workers share checkpoints: those that have FAILED; with `RETAIN_ON_CANCELLATION` those that were cancelled, too; with `NO_EXTERNALIZED_CHECKPOINTS` none.",
    ("DELETE_ON_CANCELLATION", "RETAIN_ON_CANCELLATION", "NO_EXTERNALIZED_CHECKPOINTS"),
)
RESTORE_PATH = ConfigOption(
    "execution.state-recovery.path",
    "str",
    "",
    "Savepoint or retained checkpoint that the queries of a streaming pipeline start from (`--from-savepoint`), each from that of its sink's uid.",
    deprecated_key="execution.savepoint.path",
)
CLAIM_MODE = ConfigOption(
    "execution.state-recovery.claim-mode",
    "str",
    "NO_CLAIM",
    "Whose the savepoint is that a job starts from (`--claim-mode`): with `NO_CLAIM` nobody's, the job leaves it as it is; with `CLAIM` the job's own, which disposes of it when it no longer needs it to go back to. Flink's `LEGACY` is refused.",
    ("NO_CLAIM", "CLAIM", "LEGACY"),
    deprecated_key="execution.savepoint-restore-mode",
)
IGNORE_UNCLAIMED = ConfigOption(
    "execution.state-recovery.ignore-unclaimed-state",
    "bool",
    False,
    "Start also when the savepoint has queries that the pipeline has not (`--allow-non-restored-state`).",
    deprecated_key="execution.savepoint.ignore-unclaimed-state",
)
IGNORE_CHANGED_PLAN = ConfigOption(
    "execution.state-recovery.ignore-changed-plan",
    "bool",
    False,
    "Start a query from the savepoint also when its keys, windows, aggregate functions or joins are not those that the state was made with.",
)
BRANCH = ConfigOption(
    "execution.state-recovery.branch",
    "str",
    "",
    "Note of `firesteel branch` and `firesteel promote` about the job that this one branches from, as JSON.",
)
