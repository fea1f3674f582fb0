"""Failures as data: what went wrong, whose fault it is, where to look."""

import re
from enum import Enum

import msgspec

from firesteel.model.secrets import redacted_code, redacted_text

WORKER_LOST = "TaskManagerLost"
"""Exception of a failure whose worker is gone."""

OVERTAKEN = "SnapshotOvertaken"
"""Exception of a failure to look at a query that was too fast for that: it is well."""

NO_RESOURCE_AVAILABLE = "NoResourceAvailableException"
"""Exception of a failure of a region that was given no slot."""

_OUT_OF_MEMORY = re.compile(r"\b(?:Spark)?OutOfMemoryError\b")


class FailureKind(Enum):
    """The side at fault for a failure; decides whether and what to restart."""

    USER = "user"
    """The pipeline's own code or input. Restarted as the restart strategy says."""

    ENVIRONMENT = "environment"
    """A worker, a JVM, a disk or the network. Restarted as the restart strategy says."""

    PARTITION = "partition"
    """A stored result could not be read: its producer runs again too."""

    NON_RECOVERABLE = "non-recoverable"
    """Running again can't help (bad graph, version mismatch, a syntax error): the job fails at once."""


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
    excerpt: str = ""
    """Lines of the user's code around `location`, with their numbers; that one begins with `>`."""
    trace: str = ""
    partitions: tuple[str, ...] = ()
    """Locations of the stored results that could not be read (kind PARTITION)."""
    backend: str = ""
    """The worker's Spark backend that has died of it, or with it; empty when none did."""
    spared: bool = False
    """The backend's cluster has ended it, so that nothing that was in it is suspect."""
    exit_code: int = 0
    """Code that a script ended with, by itself or (128 and the signal's number) killed; 0 where no script has ended."""
    spark_error: str = ""
    """Spark's condition (`DIVIDE_BY_ZERO`), or its exception, where Spark has refused or failed what the user's code asked
    for; empty where that has raised by itself, in Spark's Python workers too."""
    unbegun: bool = False
    """Of a stream: the attempt has left no checkpoint directory, for it failed before it had all of them, or before a query
    was started in one."""
    may_pass: bool = False
    """Of a commit: a full disk, a storage that does not answer, a target that others hold. Of an attempt: a storage that has
    answered before, and does not now. It is tried again for longer."""
    stays: bool = False
    """Of a commit: others have written the target first. It is not tried again, by no worker."""
    needs_all: bool = False
    """What the function does is right on all rows only, and not on each subtask's share of them."""
    verdict: str = ""
    """Why the job was let fail of it, where others are restarted; else empty."""

    @property
    def is_suspect(self) -> bool:
        """Whether the attempt may have killed the backend that it was in."""
        return bool(self.backend) and not self.spared

    def headline(self) -> str:
        """One line: where, then what, then why it was for good."""
        where = " ".join(part for part in (self.vertex, f"({self.location})" if self.location else "") if part)
        text = f"{where}: {self.message}" if where else self.message
        return f"{text} (failed for good: {self.verdict})" if self.verdict else text

    def shown_message(self) -> str:
        """`message` for views, without what looks like a secret."""
        return redacted_text(self.message)

    def shown_headline(self) -> str:
        """The same for views and for other systems, without what looks like a secret."""
        return redacted_text(self.headline())

    def redacted(self) -> "FailureInfo":
        """The same, without what looks like a secret in what the program has raised, or in its code."""
        return msgspec.structs.replace(
            self,
            message=redacted_text(self.message),
            excerpt=redacted_code(self.excerpt),
            trace=redacted_text(self.trace),
        )


class FailureType(Enum):
    """The cause of a failure, for those who look at many: the label `type`."""

    USER = "USER"
    """The user's code has raised, or was refused."""
    SPARK = "SPARK"
    """Spark has refused or failed what the user's code asked for."""
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    """A task process, Spark's Python workers or a JVM had too little memory, or took too much."""
    LOST_WORKER = "LOST_WORKER"
    """The worker is gone, or does not know of the attempt any more."""
    LOST_RESULT = "LOST_RESULT"
    """A stored result could not be read."""
    ENVIRONMENT = "ENVIRONMENT"
    """A JVM, a disk, the network, another machine."""


def failure_labels(failure: FailureInfo) -> dict[str, str]:
    """Labels, as Flink's failure enrichers give them: `type`, and `condition` where it is Spark's."""
    labels = {"type": failure_type(failure).value}
    if labels["type"] == FailureType.SPARK.value:
        labels["condition"] = failure.spark_error
    return labels


def failure_type(failure: FailureInfo) -> FailureType:
    """The type of a failure, as far as it says."""
    if failure.exception in ("MemoryError", "MemoryLimitExceeded") or any(
        _OUT_OF_MEMORY.search(text) for text in (failure.exception, failure.message, failure.trace)
    ):
        return FailureType.OUT_OF_MEMORY
    if failure.exception == WORKER_LOST:
        return FailureType.LOST_WORKER
    if failure.kind is FailureKind.PARTITION:
        return FailureType.LOST_RESULT
    if failure.kind is FailureKind.ENVIRONMENT or failure.backend:
        return FailureType.ENVIRONMENT
    return FailureType.SPARK if failure.spark_error else FailureType.USER
