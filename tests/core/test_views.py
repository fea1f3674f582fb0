"""What others see of a scheduler while its job runs."""

import msgspec

from firesteel.model import messages as m
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobVertexID, ResourceID
from firesteel.model.reports import TaskStateUpdate
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.tasks import RESULT_FORMAT, InputPlace, TaskOutcome
from tests.core.graphs import JOB, commit_of
from tests.core.stories.jobmaster import JobMasterPlayer
from tests.core.stories.player import attempt


def test_places_that_a_source_was_seen_to_read_are_told_without_secrets() -> None:
    player = JobMasterPlayer()
    player.play("> graph v ; w\n> start\n> report w1 slots=a,b\n> state w1 0#0:RUNNING 1#0:RUNNING\n")
    assert player.core.view().vertices[0].reads == ()
    read = (("v", "s3a://me:secret@bucket/in", (("n", "int"),)), ("v", "sales.orders"), ("other", "/not/of/v"))
    seen = TaskOutcome(reads=tuple(InputPlace(*each) for each in read))
    update = TaskStateUpdate(attempt=attempt("0#0"), state=ExecutionState.FINISHED, outcome=seen)
    body = m.UpdateTaskExecutionStates(resource_id=ResourceID("w1"), job_id=JOB, sequence=99, updates=(update,))
    player.deliver("w1", body)
    first, second = player.core.view().vertices
    assert first.reads == (
        InputPlace("v", "s3a://me:******@bucket/in", (("n", "int"),)),
        InputPlace("v", "sales.orders"),
    )
    assert second.reads == ()


def test_a_running_jobs_views_show_attempts_commits_and_what_it_is_going_to_return() -> None:
    player = JobMasterPlayer()
    player.play("> graph v*2\n> start\n> report w1 slots=a,b\n> state w1 0#0:RUNNING 1#0:RUNNING\n")
    views = player.core.views
    assert [each.state.name for each in views.subtasks(JobVertexID("v"))] == ["RUNNING", "RUNNING"]
    assert [each.subtask for each in views.subtasks(JobVertexID("v"), range(1, 2))] == [1]
    assert [each.subtask for each in views.subtasks(JobVertexID("v"), range(1, 9))] == [1]
    assert views.subtasks(JobVertexID("v"), range(2, 9)) == ()
    assert (views.returned_blobs(), views.intended) == ((), ())
    rows = msgspec.structs.replace(commit_of("v"), format=RESULT_FORMAT, target="sha-of-rows")
    update = TaskStateUpdate(
        attempt=attempt("0#0"), state=ExecutionState.FINISHED, outcome=TaskOutcome(sinks=(rows, commit_of("v", 1)))
    )
    body = m.UpdateTaskExecutionStates(resource_id=ResourceID("w1"), job_id=JOB, sequence=99, updates=(update,))
    player.deliver("w1", body)
    assert views.returned_blobs() == ("sha-of-rows",)
    player.sequence = 99
    player.do_state("w1", "1#0:FINISHED")
    assert {commit.target for commit in views.intended} == {"sha-of-rows", "out/v/1"}
    assert player.core.view().reason == ""
    (first, _) = views.intended
    busy = FailureInfo(kind=FailureKind.ENVIRONMENT, message="job x is writing out/v/1", may_pass=True)
    answer = m.SinkCommitAnswer(resource_id=ResourceID("w1"), job_id=JOB, commit_id=first.commit_id, failure=busy)
    player.deliver("w1", answer)
    assert player.core.view().reason == player.core.summary().reason
    assert player.core.view().reason == "v can't be committed yet (job x is writing out/v/1) and is tried again"


def test_a_job_that_waits_for_a_storage_says_which_and_goes_on() -> None:
    """Without a restart strategy. What runs again because something else has failed is told as ever."""
    player = JobMasterPlayer()
    player.play("> graph v\n> start\n> report w1 slots=a\n> state w1 0#0:RUNNING\n")
    away = FailureInfo(kind=FailureKind.ENVIRONMENT, message="hdfs://nn does not answer (for 13 s; no)", may_pass=True)
    update = TaskStateUpdate(attempt=attempt("0#0"), state=ExecutionState.FAILED, failure=away)
    body = m.UpdateTaskExecutionStates(resource_id=ResourceID("w1"), job_id=JOB, sequence=99, updates=(update,))
    player.deliver("w1", body)
    view = player.core.view()
    assert view.status is JobStatus.RESTARTING
    assert view.reason == "hdfs://nn does not answer (for 13 s; no); what has failed of it runs again"
    assert player.core.summary().reason == view.reason


def test_rows_that_a_commit_leaves_out_are_written_by_nobody() -> None:
    """Mode `ignore` has found data that came after the rows were staged. The next JobMaster says the same."""
    player = JobMasterPlayer()
    player.play("> graph v*2 ; w\n> start\n> report w1 slots=a,b,c\n> state w1 0#0:RUNNING 1#0:RUNNING 2#0:RUNNING\n")
    player.do_state("w1", "0#0:FINISHED", "1#0:FINISHED", "2#0:FINISHED")
    assert [each.io.rows_written for each in player.core.view().vertices] == [20, 10]
    left = m.SinkCommitAnswer(
        resource_id=ResourceID("w1"), job_id=JOB, commit_id="v/0", note="y was there", ignored=True
    )
    player.deliver("w1", left)
    assert [each.io.rows_written for each in player.core.view().vertices] == [10, 10]
    player.do_successor()
    assert [each.io.rows_written for each in player.core.view().vertices] == [10, 10]
    player.do_report("w1", "slots=a,b,c")
    player.do_committed("w1", "v/1")
    player.do_committed("w1", "w/0")
    sinks = player.core.views.result().sinks
    assert [(each.function, each.rows, each.files, each.size_bytes) for each in sinks] == [
        ("v", 0, 0, 0),
        ("v", 10, 1, 100),
        ("w", 10, 1, 100),
    ]
    assert [each.note for each in sinks] == ["y was there", "", ""]
