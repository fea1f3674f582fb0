"""Sinks of one job that would spoil one another's rows are found before anything is committed."""

import msgspec
import pytest

from firesteel.core.execution.sinktargets import SinkTargets, clash_of, clash_sentence
from firesteel.core.journal.journal import JobState
from firesteel.core.journal.records import CommitsIntended
from firesteel.core.scheduler.backoff import NoRestart
from firesteel.core.scheduler.jobstates import Created, Running
from firesteel.core.scheduler.scheduler import DefaultScheduler
from firesteel.core.scheduler.settings import SchedulerSettings
from firesteel.model.states import JobStatus
from firesteel.model.tasks import SinkCommit, TaskOutcome
from tests.core.graphs import commit_of, job


def sink(function: str, place: str, mode: str = "overwrite", files: tuple[str, ...] = ("part-0",)) -> SinkCommit:
    return msgspec.structs.replace(commit_of(function), place=place, target=place, mode=mode, files=files)


def conflict(*outcomes: tuple[SinkCommit, ...]) -> str:
    targets = SinkTargets()
    for sinks in outcomes:
        targets.note(TaskOutcome(sinks=sinks))
    return targets.conflict.message if targets.conflict is not None else ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (sink("a", "/out"), sink("b", "/out")),
        (sink("a", "/out", "append"), sink("b", "/out")),
        (sink("a", "/out", "error"), sink("b", "/out", "ignore")),
        (sink("a", "/out"), sink("a", "/out")),
        (sink("a", "db shop.t", "upsert"), sink("b", "db shop.t", "append")),
        (sink("a", "/out"), sink("b", "/out/b")),
        (sink("a", "/"), sink("b", "/out/b", "append")),
        (sink("a", "/out", "append", ("day=1/part-0",)), sink("b", "/out/day=1")),
        (sink("a", "/out", "overwrite-partitions", ("day=1/part-0",)), sink("b", "/out/day=1/hour=2", "append")),
        (sink("a", "/out", "overwrite-partitions", ("day=1/part-0",)), sink("b", "/out/day=1", "append")),
        (sink("a", "/out", "append", ("day=1/hour=2/part-0",)), sink("b", "/out/day=1")),
        (
            sink("a", "/out", "overwrite-partitions", ("day=1/part-0", "day=2/part-0")),
            sink("b", "/out", "overwrite-partitions", ("day=2/part-0",)),
        ),
        (sink("a", "/out", "overwrite-partitions", ("day=1/part-0",)), sink("b", "/out")),
    ],
)
def test_what_would_spoil_one_another(one: SinkCommit, other: SinkCommit) -> None:
    for first, second in ((one, other), (other, one)):
        told = conflict((first,), (second,)) if first.function != second.function else conflict((first, second))
        assert first.target in told
        assert "rows of one would be gone" in told


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (sink("a", "/out"), sink("b", "/out2")),
        (sink("a", "/out/a"), sink("b", "/out/b")),
        (sink("a", ""), sink("b", "")),
        (sink("a", "/out", "append"), sink("b", "/out", "append")),
        (sink("a", "/out", "append"), sink("b", "/out/rejected")),
        (sink("a", "/out", "append", ("day=1/part-0",)), sink("b", "/out/day=1/hour=2")),
        (sink("a", "/out", "append", ("day=1/part-0",)), sink("b", "/out/day=1", "append")),
        (sink("a", "db shop.t"), sink("b", "db shop.t/2")),
        (
            sink("a", "/out", "overwrite-partitions", ("day=1/part-0",)),
            sink("b", "/out", "overwrite-partitions", ("day=2/part-0",)),
        ),
        (sink("a", "/out", "overwrite-partitions", ("day=1/part-0",)), sink("b", "/out", "append", ("day=2/part-0",))),
    ],
)
def test_what_goes_together(one: SinkCommit, other: SinkCommit) -> None:
    assert not conflict((one,), (other,))
    assert not conflict((other,), (one,))


def test_subtasks_of_a_sink_and_its_next_attempt_are_one() -> None:
    assert not conflict((sink("a", "/out"),), (sink("a", "/out", files=("part-1",)),), (sink("a", "/out"),))
    assert conflict(
        (sink("a", "/out", "append"),), (sink("a", "/out", "append", ("day=1/x",)),), (sink("b", "/out/day=1"),)
    )


def test_partitions_of_a_table_are_told_without_files() -> None:
    one, other = (
        msgspec.structs.replace(sink(name, "/t", "overwrite-partitions", ()), partitions=(partition,))
        for name, partition in (("a", "day=1"), ("b", "day=2"))
    )
    assert not conflict((one,), (other,))
    assert conflict((one,), (msgspec.structs.replace(other, partitions=("day=2", "day=1")),))


def test_the_first_conflict_is_told() -> None:
    assert "a and b" in conflict((sink("a", "/out"),), (sink("b", "/out"),), (sink("c", "/out"),))


def test_before_it_is_written_a_sink_is_compared_as_far_as_that_goes() -> None:
    assert clash_of(sink("a", "/out"), sink("b", "/out", files=()))
    assert not clash_of(sink("a", "/out"), sink("b", "", files=()))
    assert not clash_of(sink("a", "/out"), sink("b", "/other", files=()))
    assert not clash_of(sink("a", "/out", "overwrite-partitions"), sink("b", "/out", "overwrite-partitions", ()))
    assert "twice" in clash_sentence(sink("a", "/out"), sink("a", "/out"), "writes the same target")
    assert "/out and /out/b" in clash_sentence(sink("a", "/out"), sink("b", "/out/b"), "write one into the other")


def test_a_job_whose_sinks_spoil_one_another_fails_before_it_commits() -> None:
    graph = job("a -> b")
    scheduler = DefaultScheduler(
        graph, JobState(job_id=graph.job_id), SchedulerSettings(NoRestart(), 16), lambda record: None
    )
    scheduler._enter(Created().start(), 0)
    for name in ("a", "b"):
        scheduler._executions.partitions.sink_targets.note(TaskOutcome(sinks=(sink(name, "/out"),)))
    for now_ms in (1, 2):
        scheduler.advance((), now_ms)
    assert scheduler.status is JobStatus.FAILED
    assert scheduler._executions.state.failure == scheduler._executions.partitions.conflict
    assert not scheduler._executions.state.intended


def test_what_a_commit_tells_is_in_the_jobs_result() -> None:
    graph = job("a -> b")
    scheduler = DefaultScheduler(
        graph, JobState(job_id=graph.job_id), SchedulerSettings(NoRestart(), 16), lambda record: None
    )
    scheduler._enter(Created().start(), 0)
    commits = tuple(msgspec.structs.replace(sink(name, f"/{name}"), commit_id=name) for name in ("a", "b"))
    scheduler._executions.record(CommitsIntended(at_ms=1, commits=commits))
    scheduler.sink_committed("a", "job x was there too", 2)
    scheduler.sink_committed("b", "", 3)
    scheduler._enter(Running().finish(), 4)
    assert [each.note for each in scheduler.views.result().sinks] == ["job x was there too", ""]
