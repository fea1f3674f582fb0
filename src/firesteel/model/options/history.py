"""Options of the archive of ended jobs, and of the history server that shows it."""

from firesteel.model.configuration import ConfigOption

ARCHIVE_DIR = ConfigOption(
    "jobmanager.archive.fs.dir",
    "str",
    "",
    "Where jobs that have ended are archived for `firesteel historyserver`: the absolute path of a directory, or s3://BUCKET/PATH. Empty means nowhere.",
)
ARCHIVE_LOGS_MAX_SIZE = ConfigOption(
    "jobmanager.archive.logs.max-size",
    "memory",
    16,
    "Most that is archived of what one job has printed; of longer logs the ends are kept. 0 archives none.",
)
ARCHIVE_WAITING_MAX = ConfigOption(
    "jobmanager.archive.max-waiting-jobs",
    "int",
    10_000,
    "Jobs that may wait to be archived while the storage fails; of more the one that ended first is not archived, which the log says.",
)
HISTORY_ARCHIVE_DIRS = ConfigOption(
    "historyserver.archive.fs.dir",
    "str",
    "",
    "Directories of archived jobs that `firesteel historyserver` shows, parted by commas: what `jobmanager.archive.fs.dir` of any number of clusters says.",
)
HISTORY_REFRESH_INTERVAL = ConfigOption(
    "historyserver.archive.fs.refresh-interval",
    "duration",
    10_000,
    "Time between two looks of the history server for archives that are new.",
)
HISTORY_CLEAN_EXPIRED = ConfigOption(
    "historyserver.archive.clean-expired-jobs",
    "bool",
    False,
    "Whether the history server forgets a job whose archive was deleted; else it goes on listing it, without its vertices, until it ends.",
)
HISTORY_RETAINED_JOBS = ConfigOption(
    "historyserver.archive.retained-jobs",
    "int",
    -1,
    "Archives that the history server leaves in each directory: it deletes those of the jobs that ended first. -1 means all.",
    minimum=-1,
)
HISTORY_WEB_ADDRESS = ConfigOption(
    "historyserver.web.address",
    "str",
    "127.0.0.1",
    "Address the history server listens on; 0.0.0.0 for all.",
)
HISTORY_WEB_PORT = ConfigOption(
    "historyserver.web.port", "port", 8082, "Port of the history server; 0 takes a free one."
)
HISTORY_WEB_REFRESH_INTERVAL = ConfigOption(
    "historyserver.web.refresh-interval",
    "duration",
    10_000,
    "The same for a history server: what its /config tells Flink's dashboard.",
)
