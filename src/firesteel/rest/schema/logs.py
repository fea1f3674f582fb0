"""Bodies about log files, beside those that Flink has."""

import msgspec


class LogPartInfo(msgspec.Struct, frozen=True, rename="kebab"):
    """Some lines of a log file. Whoever follows it asks for `next-offset` next."""

    text: str
    offset: int
    next_offset: int
    size: int
    """Size of the whole file."""


class AttemptLog(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Log of one attempt; its lines are in the log file `name` of its worker."""

    taskmanager_id: str
    name: str
    size: int
    mtime: int
    region: int
    attempt: int
    vertices: list[str]
    """Names of what ran there."""


class JobLogsInfo(msgspec.Struct, frozen=True):
    logs: list[AttemptLog]
    """Logs in the order of regions and attempts."""
