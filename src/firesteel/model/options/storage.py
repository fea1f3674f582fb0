"""Options of where a cluster keeps what outlives its masters."""

from firesteel.model.configuration import ConfigOption

HA_STORAGE_DIR = ConfigOption(
    "high-availability.storageDir",
    "str",
    "",
    "Directory for jobs, results, artifacts and the leader's register, the same for all masters of a cluster and for its workers; a path, a `file:` URI, or `s3://BUCKET/PATH` in a store that has conditional writes.",
)
BLOB_ORPHANS_GRACE = ConfigOption(
    "blob.orphans.grace",
    "duration",
    3_600_000,
    "Artifacts and returned rows that former leaders have left and no job names are deleted this long after another one has begun to lead.",
)
BLOB_STORAGE_MAX = ConfigOption(
    "blob.storage.max-size",
    "memory",
    0,
    "Most that artifacts and returned rows take at the master when a job is submitted, with its own artifacts: it is refused where that is more. Rows that known jobs return are taken beyond it, too. 0: no limit.",
)
BLOB_FREE_MIN = ConfigOption(
    "blob.disk.min-free",
    "memory",
    64,
    "Space that the artifacts of further jobs leave free on the master's disk; jobs that would take it are refused.",
)
ARTIFACT_CACHE_MAX = ConfigOption(
    "taskmanager.artifact-cache.max-size",
    "memory",
    10_240,
    "Most that artifacts may take on a worker, unpacked: those that no job uses go first, the least recently used ones before others; a job whose own do not fit beside those in use fails.",
)
HA_RETRY_PERIOD = ConfigOption(
    "high-availability.leader-election.retry-period",
    "duration",
    1_000,
    "Time between two signs of life of the leader, between two looks at them, and between two tries to reach it.",
)
S3_ENDPOINT = ConfigOption(
    "s3.endpoint",
    "str",
    "",
    "URL of the server that `s3://` names buckets of; empty means that of `AWS_ENDPOINT_URL`, else Amazon's.",
)
S3_REGION = ConfigOption("s3.region", "str", "", "Region of the buckets; empty means that of `AWS_REGION`.")
S3_ACCESS_KEY = ConfigOption(
    "s3.access-key",
    "str",
    "",
    "Key to the buckets; empty means that of `AWS_ACCESS_KEY_ID`, else that of the machine's or pod's role.",
)
S3_SECRET_KEY = ConfigOption(
    "s3.secret-key", "str", "", "Secret of the key; empty means that of `AWS_SECRET_ACCESS_KEY`."
)
S3_PATH_STYLE = ConfigOption(
    "s3.path.style.access",
    "str",
    "auto",
    "Whether the bucket is in the path of a URL and not in its host; `auto` means so for a server that is not Amazon's.",
    ("auto", "true", "false"),
)
HDFS_WEBHDFS_ADDRESS = ConfigOption(
    "fs.hdfs.webhdfs-address",
    "str",
    "",
    "Where WebHDFS is, for `hdfs://`: `HOST:PORT` or a URL, several with commas where a standby may take over; empty means as HADOOP_CONF_DIR/hdfs-site.xml says, else port 9870 of the NameNode.",
)
