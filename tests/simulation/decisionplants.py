"""Planted bugs in what masters decide around their cores: journals, sessions, retries, and what is shown."""

import dataclasses
from typing import Any

import pytest

from firesteel.core.dispatcher import sessions, shown
from firesteel.core.dispatcher.jobentry import JobEntry
from firesteel.core.dispatcher.requests import ReleaseJob, StartJobMaster
from firesteel.core.dispatcher.sessions import JobSessions
from firesteel.core.effects import Persisted
from firesteel.core.jobmaster.jobmaster import JobMasterCore
from firesteel.core.jobmaster.jobrelease import JobReleaseCore
from firesteel.core.journal.groupcommit import GroupCommit
from firesteel.core.journal.journal import JobState
from firesteel.core.journal.records import JournalRecord
from firesteel.core.leadership import candidate
from firesteel.core.leadership.candidate import FAILURES_MAX, LeaderCandidate
from firesteel.model.ids import JobID
from firesteel.model.tasks import TaskDeployment


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


def sessions_go_on(patch: pytest.MonkeyPatch) -> None:
    """A session that leads its job no more is not stopped."""

    def forget(sessions: JobSessions[object], job_id: JobID) -> None:
        sessions._newest.pop(job_id, None)

    patch.setattr(JobSessions, "end", forget)


def failures_of_the_storage_count(patch: pytest.MonkeyPatch) -> None:
    """A session whose storage fails counts for one that another leader has ended."""
    patch.setattr(LeaderCandidate, "_is_lost", lambda candidate, failure: candidate._failures > FAILURES_MAX)


def first_failure_is_the_last(patch: pytest.MonkeyPatch) -> None:
    """Failures are counted as one too many."""
    patch.setattr(candidate, "FAILURES_MAX", 0)


def failed_once_and_not_again(patch: pytest.MonkeyPatch) -> None:
    """What has failed does not come back."""
    contend = LeaderCandidate._contend
    patch.setattr(LeaderCandidate, "_contend", lambda it: [] if it._failures else contend(it))


def ended_jobs_go_on(patch: pytest.MonkeyPatch) -> None:
    """A job whose end is stored, but not in its journal, has a JobMaster that takes it for one that runs."""
    job_core = sessions.job_core

    def by_the_journal(
        start: StartJobMaster | ReleaseJob, job: JobEntry | None, state: JobState | None, **given: Any
    ) -> JobMasterCore | JobReleaseCore:
        return job_core(start, dataclasses.replace(job, result=None) if job is not None else None, state, **given)

    patch.setattr(sessions, "job_core", by_the_journal)


def the_shares_of_others_are_not_read(patch: pytest.MonkeyPatch) -> None:
    """An attempt is not told that it has the shares of those that have nothing to do."""
    patch.setattr(
        TaskDeployment, "shares", lambda deployment, parallelism: range(deployment.subtask, deployment.subtask + 1)
    )
