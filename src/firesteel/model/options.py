"""Configuration options: each declared once, with key, type, default and description.

The reference page and the validation come from these declarations. Key names are Flink's
where the thing is the same. `spark.*` keys are handed to Spark as they are.
"""

from firesteel.model.configuration import (
    OPTIONS,
    ConfigOption,
    Configuration,
    ConfigurationError,
    is_known,
    option_of,
    parse_duration_ms,
    parse_memory_mib,
    parse_queue_slots,
)
from firesteel.model.haoptions import (
    HA_LEASE_DURATION,
    HA_TYPE,
    ZOOKEEPER_CONNECTION_TIMEOUT,
    ZOOKEEPER_QUORUM,
    ZOOKEEPER_ROOT,
    ZOOKEEPER_SESSION_TIMEOUT,
)
from firesteel.model.registrationoptions import (
    REGISTRATION_ERROR_DELAY,
    REGISTRATION_INITIAL_TIMEOUT,
    REGISTRATION_MAX_TIMEOUT,
    SLOT_REQUEST_TIMEOUT,
    TASKMANAGER_REGISTRATION_TIMEOUT,
)
from firesteel.model.restartoptions import (
    EXCEPTION_HISTORY_SIZE,
    FAILOVER_STRATEGY,
    RESTART_FIXED_DELAY,
    RESTART_STRATEGY,
)
from firesteel.model.restoptions import (
    CLIENT_HEARTBEAT_INTERVAL,
    CLIENT_HEARTBEAT_TIMEOUT,
    CLIENT_TIMEOUT,
    EXECUTION_ATTACHED,
    REST_ADDRESS,
    REST_BIND_ADDRESS,
    REST_CA,
    REST_CERTIFICATE,
    REST_MAX_CONTENT_LENGTH,
    REST_PORT,
    REST_PRIVATE_KEY,
    REST_USERS_FILE,
    SHUTDOWN_ON_ATTACHED_EXIT,
    WEB_ALLOW_ORIGIN,
    WEB_REFRESH_INTERVAL,
)
from firesteel.model.storageoptions import (
    ARTIFACT_CACHE_MAX,
    BLOB_FREE_MIN,
    BLOB_ORPHANS_GRACE,
    BLOB_STORAGE_MAX,
    HA_RETRY_PERIOD,
    HA_STORAGE_DIR,
    S3_ACCESS_KEY,
    S3_ENDPOINT,
    S3_REGION,
    S3_SECRET_KEY,
)

__all__ = [
    "ARTIFACT_CACHE_MAX",
    "BLOB_FREE_MIN",
    "BLOB_ORPHANS_GRACE",
    "BLOB_STORAGE_MAX",
    "CLIENT_HEARTBEAT_INTERVAL",
    "CLIENT_HEARTBEAT_TIMEOUT",
    "CLIENT_TIMEOUT",
    "EXCEPTION_HISTORY_SIZE",
    "EXECUTION_ATTACHED",
    "FAILOVER_STRATEGY",
    "HA_LEASE_DURATION",
    "HA_RETRY_PERIOD",
    "HA_STORAGE_DIR",
    "HA_TYPE",
    "OPTIONS",
    "REGISTRATION_ERROR_DELAY",
    "REGISTRATION_INITIAL_TIMEOUT",
    "REGISTRATION_MAX_TIMEOUT",
    "RESTART_FIXED_DELAY",
    "RESTART_STRATEGY",
    "REST_ADDRESS",
    "REST_BIND_ADDRESS",
    "REST_CA",
    "REST_CERTIFICATE",
    "REST_MAX_CONTENT_LENGTH",
    "REST_PORT",
    "REST_PRIVATE_KEY",
    "REST_USERS_FILE",
    "S3_ACCESS_KEY",
    "S3_ENDPOINT",
    "S3_REGION",
    "S3_SECRET_KEY",
    "SHUTDOWN_ON_ATTACHED_EXIT",
    "SLOT_REQUEST_TIMEOUT",
    "TASKMANAGER_REGISTRATION_TIMEOUT",
    "WEB_ALLOW_ORIGIN",
    "WEB_REFRESH_INTERVAL",
    "ZOOKEEPER_CONNECTION_TIMEOUT",
    "ZOOKEEPER_QUORUM",
    "ZOOKEEPER_ROOT",
    "ZOOKEEPER_SESSION_TIMEOUT",
    "ConfigOption",
    "Configuration",
    "ConfigurationError",
    "is_known",
    "option_of",
    "parse_duration_ms",
    "parse_memory_mib",
    "parse_queue_slots",
]

# ── cluster ──────────────────────────────────────────────────────────────────────────────────
HEARTBEAT_INTERVAL = ConfigOption("heartbeat.interval", "duration", 10_000, "Time between two heartbeat requests.")
HEARTBEAT_TIMEOUT = ConfigOption(
    "heartbeat.timeout", "duration", 50_000, "A peer that was not heard of for this long is lost."
)
SHUTDOWN_TIMEOUT = ConfigOption(
    "cluster.services.shutdown-timeout",
    "duration",
    30_000,
    "Limit on a clean shutdown; what is left after it is ended hard.",
)
WORK_DIR = ConfigOption(
    "cluster.work-dir",
    "str",
    "",
    "Directory for logs, blobs, stored results and caches; empty means a temporary one that goes at the end.",
)

CLUSTER_DIR = ConfigOption(
    "cluster.dir",
    "str",
    "",
    "Directory of `firesteel cluster` for process ids, logs and work files; empty means ~/.local/state/firesteel/cluster.",
)
SSH_OPTIONS = ConfigOption(
    "env.ssh.opts",
    "str",
    "",
    "What `firesteel cluster start --hosts` gives to ssh, like `-p 2222 -i KEY`; quoted as in a shell.",
)
REMOTE_PYTHON = ConfigOption(
    "cluster.remote-python",
    "str",
    "",
    "Python that has firesteel on the hosts of `firesteel cluster start --hosts`; empty means the path of this one's.",
)
CLUSTER_ID = ConfigOption(
    "high-availability.cluster-id",
    "name",
    "default",
    "Name of the cluster: processes of another one are refused. A slash before it, as in Flink, does not count.",
)

# ── processes and what they say to one another ───────────────────────────────────────────────
JOBMANAGER_ADDRESS = ConfigOption(
    "jobmanager.rpc.address", "str", "localhost", "Host under which workers reach the master."
)
JOBMANAGER_PORT = ConfigOption(
    "jobmanager.rpc.port", "port", 6123, "Port of the master for workers; 0 takes a free one, which its log names."
)
JOBMANAGER_BIND_HOST = ConfigOption(
    "jobmanager.bind-host",
    "str",
    "",
    "Interface that the master listens on, like 0.0.0.0; empty means jobmanager.rpc.address.",
)
RPC_FRAME_SIZE = ConfigOption("rpc.frame-size.max", "memory", 64, "Largest message between two processes.")
RPC_CONNECT_TIMEOUT = ConfigOption(
    "rpc.connect-timeout", "duration", 10_000, "Limit on making a connection, with TLS and handshake."
)
RPC_KEEP_ALIVE_INTERVAL = ConfigOption(
    "rpc.keep-alive.interval", "duration", 5_000, "Time between two signs of life on a connection."
)
RPC_KEEP_ALIVE_TIMEOUT = ConfigOption(
    "rpc.keep-alive.timeout", "duration", 30_000, "A connection on which nothing came for this long is cut."
)
BLOB_SIZE_MAX = ConfigOption("blob.size.max", "memory", 1024, "Largest artifact of a job that a worker takes.")
SSL_INTERNAL_ENABLED = ConfigOption(
    "security.ssl.internal.enabled", "bool", False, "TLS between the processes of the cluster."
)
SSL_INTERNAL_AUTHENTICATION = ConfigOption(
    "security.ssl.internal.authentication-enabled",
    "bool",
    True,
    "Mutual TLS: the master takes only workers that show a certificate of the authority.",
)
SSL_INTERNAL_CERTIFICATE = ConfigOption(
    "security.ssl.internal.certificate", "str", "", "PEM file with this process's certificate and what leads to it."
)
SSL_INTERNAL_KEY = ConfigOption(
    "security.ssl.internal.private-key", "str", "", "PEM file with the certificate's private key."
)
SSL_INTERNAL_KEY_PASSWORD = ConfigOption(
    "security.ssl.internal.key-password", "str", "", "Password of the private key; empty means it has none."
)
SSL_INTERNAL_AUTHORITIES = ConfigOption(
    "security.ssl.internal.certificate-authorities",
    "str",
    "",
    "PEM file with the authorities whose certificates are trusted.",
)
SSL_VERIFY_HOSTNAME = ConfigOption(
    "security.ssl.verify-hostname", "bool", True, "Whether the master's certificate must name jobmanager.rpc.address."
)

# ── jobs and their queue ─────────────────────────────────────────────────────────────────────
JOB_PRIORITY = ConfigOption(
    "job.priority", "int", 0, "Jobs of higher priority get slots first; of one priority, those that came first."
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

# ── JobMaster ────────────────────────────────────────────────────────────────────────────────
SLOT_IDLE_TIMEOUT = ConfigOption(
    "slot.idle.timeout", "duration", 50_000, "A slot a job holds without need for this long is given back."
)
RECONCILIATION_TIMEOUT = ConfigOption(
    "jobmanager.reconciliation.timeout",
    "duration",
    10_000,
    "How long a new JobMaster waits for workers to report attempts that were running before it restarts them.",
)
CANCELLATION_TIMEOUT = ConfigOption(
    "task.cancellation.timeout",
    "duration",
    30_000,
    "An attempt that has not ended this long after its cancellation is given up: its process is gone or its worker is.",
)
CANCELLATION_INTERVAL = ConfigOption(
    "task.cancellation.interval", "duration", 2_000, "Time between two requests to cancel one attempt."
)

# ── TaskExecutor ─────────────────────────────────────────────────────────────────────────────
TASKMANAGER_RESOURCE_ID = ConfigOption(
    "taskmanager.resource-id", "str", "", "Name of a worker process; empty means its host's with a random part."
)
NUMBER_OF_TASK_SLOTS = ConfigOption(
    "taskmanager.numberOfTaskSlots", "int", 2, "Slots a worker offers: how many regions it runs at once."
)
TASK_CPU = ConfigOption("taskmanager.cpu.cores", "float", 0.0, "Cores a worker offers; 0 means all of the machine's.")
SLOT_TIMEOUT = ConfigOption(
    "taskmanager.slot.timeout",
    "duration",
    10_000,
    "A slot that was allocated but not taken up by its job for this long is freed.",
)
MASTER_GRACE = ConfigOption(
    "taskmanager.master-grace",
    "duration",
    600_000,
    "How long a worker keeps running a job's attempts, and their results, while the job has no master.",
)
PROGRESS_INTERVAL = ConfigOption(
    "taskmanager.progress.interval", "duration", 200, "Least time between two progress reports of one attempt."
)
TASK_MEMORY_LIMIT = ConfigOption(
    "taskmanager.memory.task-process.limit",
    "memory",
    0,
    "Memory the task process of an attempt and its Spark Python workers may use before the attempt is ended; 0 means 80 % of what the machine has beside the Spark heap.",
)
TASK_LOG_LIMIT = ConfigOption(
    "taskmanager.task-process.log-limit",
    "memory",
    64,
    "Size of the file with what one attempt prints; of a larger one the newest quarter is kept.",
)
SCRIPT_OUTPUT_LIMIT = ConfigOption(
    "taskmanager.script.output-limit",
    "memory",
    256,
    "What one attempt of a plain script may print to each of its two streams, and its client gets to see; it is kept"
    " with the job's result.",
)
TASK_LOGS_KEPT = ConfigOption(
    "taskmanager.task-process.logs-kept",
    "int",
    200,
    "Ended jobs of which a worker keeps what their functions have printed; the oldest go first.",
)
TASK_SPARES = ConfigOption("taskmanager.task-process.spares", "int", 2, "Task processes forked ahead of need.")
LOAD_BALANCE_MODE = ConfigOption(
    "taskmanager.load-balance.mode",
    "str",
    "SLOTS",
    "How slots are chosen among workers: SLOTS takes the least used worker, NONE fills one after the other (Flink's default).",
    ("NONE", "SLOTS"),
)

# ── Spark ────────────────────────────────────────────────────────────────────────────────────
SPARK_HEAP = ConfigOption(
    "taskmanager.spark.heap",
    "memory",
    1024,
    "Heap of a worker's Spark backends (-Xmx) in all: one JVM has it with `isolation: shared`, each a slot's share else.",
)
SPARK_MASTER = ConfigOption(
    "taskmanager.spark.master", "str", "", "Spark master of the backend; empty means local[N] with the worker's cores."
)
SPARK_ISOLATION = ConfigOption(
    "taskmanager.spark.isolation",
    "str",
    "shared",
    "Who shares a Spark backend JVM: all attempts on the worker, those of one job, or those of one job in one slot.",
    ("shared", "job", "slot"),
)
SPARK_SPARES = ConfigOption(
    "taskmanager.spark.spare-backends",
    "int",
    1,
    "Backend JVMs started ahead of need with `isolation: job` or `slot`, beside those in use and of the same size.",
)
SPARK_CLASS_DATA_ARCHIVE = ConfigOption(
    "taskmanager.spark.class-data-archive",
    "bool",
    True,
    "Keep a JVM class-data archive in the user's cache directory, so that a backend starts in half the time from the second start on.",
)
SPARK_START_TIMEOUT = ConfigOption(
    "taskmanager.spark.start-timeout",
    "duration",
    120_000,
    "A backend of which nothing has moved for this time, or that does not answer within five times this time, is ended and started again, and has twice, then three times as long; after four failures in a row its attempts fail.",
)

# ── Pipelines ────────────────────────────────────────────────────────────────────────────────
OPERATOR_CHAINING = ConfigOption(
    "pipeline.operator-chaining.enabled", "bool", True, "Chain functions that follow one another into one vertex."
)
RESULT_MAX_SIZE = ConfigOption(
    "job.result.max-size",
    "memory",
    16,
    "Most that the rows of one function of a pipeline may take which are returned to its caller.",
)
PACKAGE_SIZE_LIMIT = ConfigOption(
    "pipeline.package.size-limit", "memory", 64, "Largest package of user code that travels with a job."
)
