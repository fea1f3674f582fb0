"""Failures as data: what went wrong, whose fault it is, where to look."""

from enum import Enum

import msgspec


class FailureKind(Enum):
    """Whose fault a failure is; decides whether and what to restart."""

    USER = "user"
    """The pipeline's own code or input. Restarted as the restart strategy says."""

    ENVIRONMENT = "environment"
    """A worker, a JVM, a disk or the network. Restarted as the restart strategy says."""

    PARTITION = "partition"
    """A stored result could not be read: its producer runs again too."""

    NON_RECOVERABLE = "non-recoverable"
    """Running again can't help (bad graph, version mismatch): the job fails at once."""


class FailureInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One failure. `message` is short, for people; `trace` is all there is, for digging."""

    kind: FailureKind
    message: str
    exception: str = ""
    """Class name of the exception, or empty."""
    vertex: str = ""
    """Name of the user's function that failed, or empty."""
    location: str = ""
    """`file:line` in the user's code, or empty."""
    trace: str = ""
    partitions: tuple[str, ...] = ()
    """Locations of the stored results that could not be read (kind PARTITION)."""
    backend: str = ""
    """Which of the worker's Spark backends has died of it, or with it; empty when none did."""
    exit_code: int = 0
    """What a script ended with, by itself or (128 and the signal's number) killed; 0 where no script has ended."""

    def headline(self) -> str:
        """One line: where, then what."""
        where = " ".join(part for part in (self.vertex, f"({self.location})" if self.location else "") if part)
        return f"{where}: {self.message}" if where else self.message
