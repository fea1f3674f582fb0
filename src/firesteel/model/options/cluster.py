"""Options of a cluster as a whole, and of `firesteel cluster`."""

from firesteel.model.configuration import ConfigOption

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
    "Directory for logs, blobs, caches and, unless `cluster.results-dir` is set, stored results; empty means a temporary one that goes at the end.",
)
RESULTS_DIR = ConfigOption(
    "cluster.results-dir",
    "str",
    "",
    "Where regions store results for one another: a directory that all workers share, s3://BUCKET/PATH or hdfs://HOST:PORT/PATH; empty means each worker's own directory below `cluster.work-dir`.",
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
    "Name of the cluster: processes of another one are refused. A slash before it, as in Flink, does not count. Flink's `kubernetes.cluster-id` means it, too.",
    deprecated_key="kubernetes.cluster-id",
)
