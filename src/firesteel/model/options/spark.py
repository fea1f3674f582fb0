"""Options of a worker's Spark backends. `spark.*` keys are handed to Spark as they are."""

from firesteel.model.configuration import ConfigOption

SPARK_HEAP = ConfigOption(
    "taskmanager.spark.heap",
    "memory",
    1024,
    "Heap of a worker's Spark backends (-Xmx) in all: one JVM has it with `isolation: shared`, each a slot's share else.",
)
SPARK_MASTER = ConfigOption(
    "taskmanager.spark.master",
    "str",
    "",
    "The Spark that a worker uses: empty means local[N] with the worker's cores, `spark://HOST:PORT` a standalone cluster, `sc://HOST:PORT/;token=TOKEN` a Connect server that is there; `yarn` the YARN that `HADOOP_CONF_DIR` names; `k8s://https://HOST:PORT` a Kubernetes.",
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
SPARK_WARM_UP = ConfigOption(
    "taskmanager.spark.warm-up",
    "bool",
    True,
    "Run some small queries on a backend that all attempts of the worker share, after its start and while nobody uses it, so that the first job is as fast as later ones. `firesteel run` alone, without --keep-warm, does not by default.",
)
SPARK_UI = ConfigOption(
    "taskmanager.spark.ui",
    "bool",
    False,
    "Have Spark's own pages served where all of Spark is on the worker's host, at a free port of its loopback address: masters show them at `/v1/jobs/ID/spark/`, and what Spark does for an attempt on its page. On clusters of Spark they always are, at the address by which the host reaches these; where the worker's configuration has `rest.users-file` at its loopback address as well, unless this is `true`.",
)
SPARK_EVENT_LOG_DIR = ConfigOption(
    "taskmanager.spark.event-log.dir",
    "str",
    "",
    "Directory, or URI, where Spark keeps the events of each of the worker's applications, for Spark's history server: `spark.eventLog.enabled` and `spark.eventLog.dir` in one. Empty: nowhere, unless these say so.",
)
SPARK_START_TIMEOUT = ConfigOption(
    "taskmanager.spark.start-timeout",
    "duration",
    120_000,
    "A backend of which nothing has moved for this time, or that does not answer within five times this time, is ended and started again, and has twice, then three times as long; after four failures in a row its attempts fail.",
)
SPARK_HEARTBEAT_TIMEOUT = ConfigOption(
    "taskmanager.spark.heartbeat.timeout",
    "duration",
    120_000,
    "A backend that was up, and for this time neither answers nor works, because it was stopped or hangs, or works and does not answer for five times this time, is ended with the attempts on it, and another one is started. Attempts say meanwhile what they wait for. 0: it never is.",
)
