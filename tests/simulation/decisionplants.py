"""Planted bugs in what masters decide around their cores: journals, sessions, retries, and what is shown."""

import pytest

from firesteel.core.effects import Persisted
from firesteel.core.groupcommit import GroupCommit
from firesteel.core.journal import JournalRecord


def acknowledged_before_the_group_is_through(patch: pytest.MonkeyPatch) -> None:
    """A write that is through counts for what has come while it was under way, too."""
    written = GroupCommit.written

    def written_all(commit: GroupCommit) -> Persisted:
        told = written(commit)
        return Persisted(commit._waiting[-1].sequence) if commit._waiting else told

    patch.setattr(GroupCommit, "written", written_all)


def only_the_last_of_a_group_is_written(patch: pytest.MonkeyPatch) -> None:
    """Of what was decided together, the last record counts for all."""
    next_write = GroupCommit.next_write

    def last_of_many(commit: GroupCommit) -> tuple[JournalRecord, ...]:
        return next_write(commit)[-1:]

    patch.setattr(GroupCommit, "next_write", last_of_many)
