"""What is shown of a job: its JobMaster's word until the end is stored, then how it has ended."""

import msgspec
import pytest

from firesteel.core.dispatcher.jobentry import JobEntry, JobStage
from firesteel.core.dispatcher.shown import (
    is_read_again,
    last_known_view,
    summary_now,
    teller_of,
    view_at_hand,
    view_now,
)
from firesteel.core.jobmaster.jobmaster import JobMasterCore
from firesteel.core.machine import Core
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.jobgraph import JobType
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult, JobView, summary_of
from tests.core.graphs import JOB, job
from tests.core.stories.jobmaster import JobMasterPlayer
from tests.core.stories.jobrelease import JobReleasePlayer


def job_master(story: str = "> graph v\n> start\n") -> JobMasterCore:
    player = JobMasterPlayer()
    player.play(story)
    return player.core


CANCELLED = "> graph v\n> start\n> cancel\n"
"""Its journal says CANCELED, since nothing has run."""


def entry(stage: JobStage, view: JobView | None = None, status: JobStatus = JobStatus.CANCELED) -> JobEntry:
    known = JobEntry(JOB, "a job", job("v", JOB), stage, since_ms=7)
    if stage is not JobStage.RUNNING:
        reason = FailureInfo(kind=FailureKind.USER, message="nobody wants it")
        known.result = JobResult(
            job_id=JOB, name="a job", status=status, start_time_ms=7, end_time_ms=9, failure=reason, owner="kim"
        )
        known.status = status if known.has_ended else JobStatus.RUNNING
    if view is not None:
        known.view, known.summary = view, summary_of(view)
    return known


def archived(job_entry: JobEntry) -> JobView:
    return msgspec.structs.replace(last_known_view(job_entry), name="as archived")


def test_why_a_job_was_cancelled_is_shown_without_secrets() -> None:
    ended = entry(JobStage.DONE)
    failure = FailureInfo(kind=FailureKind.USER, message="jdbc:x://me:geheim@host is away", vertex="words")
    assert ended.result is not None
    ended.result = msgspec.structs.replace(ended.result, failure=failure)
    assert summary_now(ended, None).reason == "words: jdbc:x://me:******@host is away"
    core = job_master("> graph v\n> start\n> cancel Bearer-geheim\n")
    assert (core.view().reason, core.summary().reason) == ("Bearer ******", "Bearer ******")


def test_why_nothing_leads_a_job_is_shown_until_it_has_ended() -> None:
    running, ended = entry(JobStage.RUNNING), entry(JobStage.DONE, status=JobStatus.FINISHED)
    assert view_now(running, "the disk is full").reason == summary_now(running, "the disk is full").reason
    assert view_now(running, "the disk is full").reason == "the disk is full"
    assert view_now(ended, "the disk is full").reason == ""
    assert view_now(running, "jdbc:x://me:geheim@host is away").reason == "jdbc:x://me:******@host is away"


@pytest.mark.parametrize("leads", [None, JobReleasePlayer().make_core()], ids=["nothing", "release"])
def test_a_job_that_nobody_tells_of_is_shown_as_it_was_known_last(leads: Core | None) -> None:
    running = entry(JobStage.RUNNING)
    assert (teller_of(running, leads), view_at_hand(running, leads)) == (None, None)
    assert summary_now(running, leads) == summary_of(last_known_view(running))


def test_a_job_that_goes_on_is_shown_by_its_job_master() -> None:
    running, core = entry(JobStage.RUNNING), job_master()
    assert teller_of(running, core) is core
    assert view_at_hand(running, core) == core.view(may_end=False)
    assert summary_now(running, core) == core.summary(may_end=False)


def test_an_end_is_shown_when_its_result_is_stored() -> None:
    core = job_master(CANCELLED)
    assert core.view().status is JobStatus.CANCELED
    storing = entry(JobStage.STORING_RESULT, core.view())
    shown = view_at_hand(storing, core)
    assert shown is not None
    assert not shown.status.is_globally_terminal
    assert view_at_hand(storing, None) is None, "what will be archived says too much"
    assert summary_now(storing, None).status is JobStatus.RUNNING
    stored = entry(JobStage.RELEASING)
    assert view_at_hand(stored, core) == core.view()
    assert [is_read_again(stored, leads) for leads in (core, None, JobReleasePlayer().make_core())] == [
        False,
        True,
        False,
    ]
    assert not is_read_again(storing, None)


def test_what_is_archived_is_shown_for_good() -> None:
    view = archived(entry(JobStage.RELEASING))
    stored, core = entry(JobStage.RELEASING, view), job_master(CANCELLED)
    assert teller_of(stored, core) is None
    assert view_at_hand(stored, core) is view
    assert summary_now(stored, core) == summary_of(view)


def test_who_cleans_up_and_has_not_read_how_it_ended_does_not_tell() -> None:
    assert teller_of(entry(JobStage.RELEASING), job_master()) is None


def test_the_line_of_what_ended_under_a_former_leader_has_its_subtasks() -> None:
    ended, core = entry(JobStage.DONE), job_master(CANCELLED)
    ended.result = core.views.result()
    assert ended.result.tasks == core.summary().tasks == {"CANCELED": 1}
    assert summary_now(ended, None).tasks == {"CANCELED": 1}


def test_what_the_dispatcher_knows_itself() -> None:
    going = last_known_view(entry(JobStage.RUNNING))
    assert (going.status, going.start_time_ms, going.end_time_ms, going.owner) == (JobStatus.INITIALIZING, 7, -1, "")
    cancelled = last_known_view(entry(JobStage.DONE))
    assert (cancelled.end_time_ms, cancelled.owner, cancelled.reason) == (9, "kim", "nobody wants it")
    finished = last_known_view(entry(JobStage.DONE, status=JobStatus.FINISHED))
    assert (finished.reason, finished.timestamps_ms) == ("", {"FINISHED": 9})
    forgotten = entry(JobStage.DONE)
    forgotten.graph = None
    assert last_known_view(forgotten).job_type is JobType.BATCH
