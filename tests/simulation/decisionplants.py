"""Planted bugs in what masters decide around their cores: journals, sessions, retries, and what is shown."""

import pytest

from firesteel.core.dispatcher import shown
from firesteel.core.effects import Persisted
from firesteel.core.journal.groupcommit import GroupCommit
from firesteel.core.journal.journal import JournalRecord


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


def shown_as_archived_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    """What a JobMaster says of the end is shown when it comes, and not when it is stored."""
    view_at_hand = shown.view_at_hand
    patch.setattr(shown, "view_at_hand", lambda job, leads: job.view or view_at_hand(job, leads))
