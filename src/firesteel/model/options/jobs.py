"""Options of jobs, their queues, and what is kept of them when they have ended."""

from firesteel.model.configuration import ConfigOption
from firesteel.model.labels import Labels
from firesteel.model.options.taskexecutor import NO_LABELS

JOB_PRIORITY = ConfigOption(
    "job.priority",
    "int",
    0,
    "Jobs of higher priority get slots first; of one priority, those that came first.",
    minimum=None,
)
JOB_COMMIT_TIMEOUT = ConfigOption(
    "job.commit-timeout",
    "duration",
    600_000,
    "How long a job that has only its outputs left to commit tries that again while a disk is full, a storage does not answer, or others hold the target. What can't pass by itself fails the job after three tries. As long are regions run again that fail because a storage does not answer that has answered before; after that, retries and restart strategy have their say.",
)
JOB_QUEUE = ConfigOption("job.queue", "str", "default", "The queue a job waits in: see `jobmanager.queues`.")
JOB_TIMEOUT = ConfigOption(
    "job.timeout",
    "duration",
    0,
    "A job that has not ended this long after its submission, waiting included, fails; 0 means no limit. A job that is committing its sinks goes on.",
)
NO_QUEUES: dict[str, int] = {}
QUEUES = ConfigOption(
    "jobmanager.queues",
    "slots",
    NO_QUEUES,
    "Queues and the most slots that the jobs of each may hold at once, like `etl=8, adhoc=2`; a job that names another queue than these and `default` is refused. Empty: one line without limits, under any name.",
)
NO_QUEUE_LABELS: dict[str, Labels] = {}
QUEUE_LABELS = ConfigOption(
    "jobmanager.queue-labels",
    "queue labels",
    NO_QUEUE_LABELS,
    "Labels that a worker must have to run jobs of a queue, like `etl=big, ml=big, ml=gpu`: besides what the job asks for itself. What counts is what the leading master has when a job is submitted.",
)
EXECUTION_ON = ConfigOption(
    "execution.on",
    "labels",
    NO_LABELS,
    "Labels that a worker must have to run the functions of a job that say no `on=` themselves: see `taskmanager.labels`.",
)
AUTO_PARALLELISM = ConfigOption(
    "execution.batch.adaptive.auto-parallelism.enabled",
    "bool",
    True,
    "Where a function says no parallelism, that of the job is the most: fewer subtasks do the work of a batch job's vertex whose inputs are small when they are there, each with several shares of them.",
)
SUBTASK_DATA_VOLUME = ConfigOption(
    "execution.batch.adaptive.auto-parallelism.avg-data-volume-per-task",
    "memory",
    64,
    "What a subtask is to read of stored results, as they are stored, where its parallelism is not said. Flink's default is 16 MiB: a subtask here is a query that Spark spreads over the cores of a worker. A number alone is bytes, as in Flink.",
    bare_unit="b",
)
MAX_UNFINISHED_JOBS = ConfigOption(
    "jobmanager.max-unfinished-jobs", "int", 10_000, "Further jobs are refused while so many have not ended."
)
JOBSTORE_MAX_CAPACITY = ConfigOption(
    "jobstore.max-capacity", "int", 1_000, "Ended jobs the master remembers; the oldest go first."
)
JOBSTORE_EXPIRATION_TIME = ConfigOption(
    "jobstore.expiration-time",
    "duration",
    7 * 24 * 3_600_000,
    "How long after its end the master remembers a job, with its result and the rows it returned; 0 means as long as there is room. A number alone is seconds, as in Flink.",
    bare_unit="s",
)
JOBSTORE_RETRYABLE_MAX = ConfigOption(
    "jobstore.retryable.max-capacity",
    "int",
    100,
    "Jobs that failed or were cancelled whose graph and artifacts are kept while the master remembers them, so that `firesteel retry` can submit them again; the oldest go first, 0 keeps none.",
)
JOBSTORE_TYPE = ConfigOption(
    "jobstore.type",
    "str",
    "File",
    "Where the master keeps what it shows of ended jobs: File is a directory, which other masters read that lead after it; Memory is its own. A mini cluster keeps all of it in memory.",
    ("File", "Memory"),
)
JOBSTORE_CACHE_SIZE = ConfigOption(
    "jobstore.cache-size",
    "memory",
    50,
    "Memory for ended jobs that were looked at last, with `jobstore.type: File`. A number alone is bytes, as in Flink.",
    bare_unit="b",
)
RESOURCE_START_UP_TIME = ConfigOption(
    "resourcemanager.standalone.start-up-time",
    "duration",
    10_000,
    "How long after its start the ResourceManager refuses no job for want of a worker that could hold it.",
)
