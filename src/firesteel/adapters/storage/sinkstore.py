"""The contract of a storage that file sinks write to. `LocalSinks` and `ObjectSinks` are the two."""

from pathlib import Path
from typing import Protocol

from firesteel.adapters.storage.directories import Directories
from firesteel.model.tasks import Committed, SinkCommit

STAGING_NAME = ".firesteel-staging"
"""Beside the targets: what is staged, by job, attempt and place. Readers pass over names that begin with a dot."""


class SinkStore(Directories, Protocol):
    """Rows are staged in its directories, at locations which it has made itself, and become visible in `commit`."""

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

    def commit(self, commit: SinkCommit) -> Committed:
        """Make the staged files readers' files; idempotent, and others may have begun it. Raises CommitRefused."""

    def advice(self, error: OSError, target: str) -> str:
        """A sentence on what happened and what to do about it."""
