"""`firesteel branch` and `promote` against a cluster without Spark: the steps, and what is left after an interruption."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firesteel.client.branching import Branching
from firesteel.model.branches import branch_of
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.model.streams import FAN_OUT, STREAM_FILES, QueryPosition, QueryProgress, QuerySight, StreamOutput
from firesteel.model.views import JobView
from firesteel.testing.backend import TaskScript
from tests.cli.conftest import command
from tests.client.conftest import Served
from tests.rest.cluster import LIMIT_S

__all__ = ["command"]

Command = Callable[..., tuple[int, str, str]]
PIPELINE = """
import firesteel as fs
pipeline = fs.Pipeline("clicks", mode="streaming")

@pipeline.source
def lines(spark, input: str, least: int = 0):
    return spark

@pipeline.sink
def result(lines, output: str):
    return lines
"""
SIGHT = QuerySight(
    uid="result",
    output=StreamOutput(kind=STREAM_FILES, place="/real", format="parquet"),
    positions=(QueryPosition(7, "x"),),
)


class Clicks:
    """A stream, its file, and commands about it."""

    def __init__(self, served: Served, script: TaskScript, command: Command, directory: Path) -> None:
        self.served, self.script, self._command = served, script, command
        self.master = ("--master", served.address)
        self.file = directory / "clicks.py"
        self.file.write_text(PIPELINE)
        script.queries = (QueryProgress(uid="result", batch_id=7),)
        script.sights["result"] = SIGHT
        served.call(script.hold, "lines", "rows")
        self.job = JobID(self.ran("submit", self.file, "-p", "input=/in", "-p", "output=/real", "-D", "spark.x=1"))
        self.until_heard_of(self.job)
        self.file.write_text(
            PIPELINE.replace("lines", "rows")
        )  # who stops one job lets go of what others hold by that name

    def ran(self, *arguments: object, code: int = 0) -> str:
        """What it has printed, or said where it failed."""
        found, out, err = self._command(*map(str, arguments), *self.master)
        assert found == code, (arguments, out, err)
        return (out if not code else err).strip()

    def view(self, job: str) -> JobView:
        view: JobView = self.served.do(self.served.rest.cluster.client.request_job(JobID(job)))
        return view

    def until_heard_of(self, job: str) -> None:
        give_up = time.monotonic() + LIMIT_S
        while not any(vertex.progress for vertex in self.view(job).vertices):
            assert time.monotonic() < give_up
            time.sleep(0.01)

    def branched(self, *arguments: object) -> str:
        return self.ran("branch", self.job, self.file, "-p", "output=/aside", "-p", "least=3", *arguments)

    def promoted(self, branch: str, *arguments: object, code: int = 0) -> str:
        return self.ran("promote", branch, "--savepoint-dir", "/s", *arguments, code=code)


@pytest.fixture
def clicks(served: Served, script: TaskScript, command: Command, tmp_path: Path) -> Clicks:
    return Clicks(served, script, command, tmp_path)


def test_a_branch_has_what_its_parent_has_but_for_what_is_given(clicks: Clicks) -> None:
    branch = clicks.branched("--savepoint-dir", "/s", "-D", "spark.y=2")
    view = clicks.view(branch)
    assert view.parameters == {"input": "/in", "least": 3, "output": "/aside"}
    assert (view.configuration["spark.x"], view.configuration["spark.y"]) == ("1", "2")
    note = branch_of(view.configuration)
    assert note is not None
    assert (note.of, note.parameters, note.moved) == (clicks.job, {"output": "/real"}, ("result",))
    assert note.outputs == {"result": SIGHT.output}
    assert note.batches == {"result": 7}
    assert view.configuration["execution.state-recovery.path"] == note.savepoint
    assert clicks.script.savepoints[-1].location == note.savepoint
    assert view.branch_of == clicks.job
    assert f"branch of {clicks.job[:8]}" in clicks.ran("list")
    assert f"branch of {clicks.job}" in clicks.ran("info", branch)
    assert clicks.view(clicks.job).status is JobStatus.RUNNING


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("nothing",), 2, "no job's id begins with"),
        ((), 1, "no directory for savepoints is named"),
    ],
)
def test_what_a_branch_is_refused_for(clicks: Clicks, arguments: tuple[str, ...], code: int, words: str) -> None:
    assert words in clicks.ran("branch", *(arguments or (clicks.job,)), clicks.file, "-p", "output=/a", code=code)


def test_files_that_are_no_new_version(clicks: Clicks) -> None:
    for text, words in (
        (PIPELINE.replace(', mode="streaming"', ""), "is a batch pipeline"),
        ("print(1)", "is a plain script"),
        (PIPELINE.replace("least: int", "least: int, more: str"), "more"),
        ("import firesteel\nraise ValueError('oh')", "oh"),
    ):
        clicks.file.write_text(text)
        assert words in clicks.ran("branch", clicks.job, clicks.file, "--savepoint-dir", "/s", code=2), text
    assert not clicks.script.savepoints, "nothing was taken for nothing"


def test_a_branch_takes_the_place_of_its_parent(clicks: Clicks) -> None:
    branch = clicks.branched("--savepoint-dir", "/s")
    assert "is no branch" in clicks.promoted(clicks.job, code=2)
    assert "'five' is no int" in clicks.promoted(branch, "-p", "least=five", code=2)
    assert "unknown parameter 'more'" in clicks.promoted(branch, "-p", "more=1", code=2)
    assert clicks.view(clicks.job).status is JobStatus.RUNNING
    promoted = clicks.promoted(branch)
    view, parent = clicks.view(promoted), clicks.view(clicks.job)
    assert parent.status is JobStatus.FINISHED
    assert parent.checkpoints is not None
    assert parent.checkpoints.history.latest_savepoint is not None
    savepoint = parent.checkpoints.history.latest_savepoint.savepoint
    assert view.configuration["execution.state-recovery.path"] == savepoint
    assert view.parameters == {"input": "/in", "least": 3, "output": "/real"}
    assert view.branch_of == ""
    note = branch_of(view.configuration)
    assert note is not None
    assert (note.of, note.promoted, note.outputs) == (clicks.job, True, {"result": SIGHT.output})
    assert clicks.promoted(branch) == promoted


def test_an_interrupted_promotion_goes_on_where_it_was(clicks: Clicks, monkeypatch: pytest.MonkeyPatch) -> None:
    branch = clicks.branched("--savepoint-dir", "/s")

    async def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Branching, "_submit_copy", interrupted)
        told = clicks.promoted(branch, code=130)
    assert f"interrupted: job {clicks.job} was stopped, with savepoint /s/savepoint-" in told
    assert "--param output=/real" in told
    assert clicks.view(clicks.job).status is JobStatus.FINISHED
    taken = len(clicks.script.savepoints)
    promoted = clicks.promoted(branch)
    assert clicks.view(promoted).parameters["output"] == "/real"
    assert len(clicks.script.savepoints) == taken, "the parent was stopped once"


def test_a_parent_that_ended_otherwise_has_no_place_to_take(clicks: Clicks) -> None:
    branch = clicks.branched("--savepoint-dir", "/s")
    clicks.ran("cancel", clicks.job)
    clicks.ran("wait", clicks.job, code=1)
    assert "was not stopped for this branch" in clicks.promoted(branch, code=2)
    assert "has ended, it is CANCELED" in clicks.ran("branch", clicks.job, clicks.file, code=2)
    assert clicks.view(branch).status is JobStatus.RUNNING


def test_a_savepoint_that_fails_changes_nothing(clicks: Clicks) -> None:
    branch = clicks.branched("--savepoint-dir", "/s")
    clicks.script.savepoint_error = "the disk is full"
    assert "the disk is full" in clicks.promoted(branch, code=1)
    assert clicks.view(branch).status is JobStatus.RUNNING
    assert len(clicks.script.savepoints) == 1, "the branch's own"


def test_compare_says_what_can_not_be_compared(clicks: Clicks) -> None:
    branch = clicks.branched("--savepoint-dir", "/s")
    assert "name two jobs" in clicks.ran("compare", branch, branch, code=2)
    assert "not to be seen from here" in clicks.ran("compare", clicks.job, branch, "--wait", "1 s", code=2)
    assert "no such query in both" in clicks.ran("compare", clicks.job, branch, "--query", "x", "--wait", "1 s", code=2)
    clicks.script.sights["result"] = QuerySight(uid="result", output=StreamOutput(kind="foreachBatch"))
    assert "writes by foreachBatch: files can be compared" in clicks.ran(
        "compare", clicks.job, branch, "--wait", "1 s", code=2
    )
    parts = {"all": StreamOutput(kind=STREAM_FILES, place="/all"), "calls": StreamOutput(kind="foreachBatch")}
    clicks.script.sights["result"] = QuerySight(uid="result", output=StreamOutput(kind=FAN_OUT, parts=parts))
    assert "query result/calls of job" in clicks.ran("compare", clicks.job, branch, "--wait", "1 s", code=2)
    for wanted, words in (("result/all", "/all is not to be seen from here"), ("result", "query result/calls of job")):
        said = clicks.ran("compare", clicks.job, branch, "--query", wanted, "--wait", "1 s", code=2)
        assert words in said
