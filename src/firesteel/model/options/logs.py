"""Options of what processes log."""

from firesteel.model.configuration import ConfigOption

LOG_FORMAT = ConfigOption(
    "log.format",
    "str",
    "text",
    "How masters and workers log: `text`, or `json`, one object a line, with the job, vertex and attempt that it is about.",
    ("text", "json"),
)
LOG_FILE_MAX_SIZE = ConfigOption(
    "log.file.max-size",
    "memory",
    16,
    "A log file of a master or worker, or of a process that a worker has started, that is larger becomes `NAME.1.log`.",
)
LOG_FILE_MAX_COUNT = ConfigOption(
    "log.file.max-count", "int", 4, "Former log files that are kept: `NAME.1.log` is the newest. 0 keeps none."
)
