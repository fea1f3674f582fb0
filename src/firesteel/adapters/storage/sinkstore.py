"""The contract of a storage that file sinks write to. `LocalSinks` and `ObjectSinks` are the two."""

from pathlib import Path
from typing import BinaryIO, Protocol

from firesteel.model.tasks import SinkCommit

STAGING_NAME = ".firesteel-staging"
"""Beside the targets: what is staged, by job, attempt and place. Readers pass over names that begin with a dot."""


class SinkStore(Protocol):
    """Rows are staged in it, and become visible in `commit`. Locations are texts which the store itself has made.

    Blocking: call from a thread. Raises OSError when something failed that may not fail again, `Unusable` when it will.
    """

    def resolve(self, path: str, base: Path, *, replaces: bool) -> str:
        """The target, as everybody names it from here on. `base` is where relative paths begin; `replaces`: what is there
        will go. Raises TargetRefused."""

    def place(self, target: str) -> str:
        """Identity of a resolved target, however it is spelled."""

    def staging(self, target: str, *steps: str) -> str:
        """Location for what is to be staged for a resolved target: `steps` are job, attempt, and place in the attempt."""

    def holds_data(self, target: str) -> bool:
        """Whether there is something that the modes `error` and `ignore` leave alone."""

    def prepare(self, target: str, staging: str) -> None:
        """Rows are about to be staged there: note it for others who write the target, and find out whether it can be."""

    def as_spark(self, staging: str) -> str:
        """Path that Spark is to write."""

    def files(self, staging: str) -> dict[str, int]:
        """Data files below it: sizes in bytes, by names relative to it."""

    def end_of(self, staging: str, name: str) -> BinaryIO:
        """One of the files, or as much of its end as tells what is in it."""

    def commit(self, commit: SinkCommit) -> str:
        """Make the staged files readers' files; idempotent, and others may have begun it. Returns what the job is to be
        told of others that write there, or nothing. Raises CommitRefused."""

    def remove(self, location: str) -> None:
        """Delete all that is staged there or below, and what marks it; idempotent."""

    def advice(self, error: OSError, target: str) -> str:
        """A sentence on what happened and what to do about it."""


def is_hidden(name: str) -> bool:
    """Spark's own rule for what is not data: `_a=1` is a partition of a column named `_a`."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
