"""Logs of attempts, as clients read them."""

import msgspec


class JobLog(msgspec.Struct, rename="kebab", frozen=True):
    """Log of what one attempt has printed: the file `name` of a worker."""

    taskmanager_id: str
    name: str
    size: int
    region: int
    attempt: int
    vertices: list[str]


class LogLines(msgspec.Struct, rename="kebab", frozen=True):
    """Some lines of a log file, and where to go on."""

    text: str
    next_offset: int
    size: int
    """Size of the whole file, in bytes."""
