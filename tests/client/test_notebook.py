"""A job in the cell of a notebook: one display that is drawn anew, and what users have named is text there."""

from typing import Any

import pytest

from firesteel.client import notebook
from firesteel.client.notebook import JobCard, Printed, show
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID, JobVertexID, RegionAttemptID, RegionIndex
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.tasks import IOMetrics, TaskProgress
from firesteel.model.views import ExceptionEntry, JobView, VertexView

JOB = JobID("0" * 32)


def vertex(name: str, state: ExecutionState, **fields: Any) -> VertexView:
    return VertexView(
        id=JobVertexID(name), name=name, functions=(name,), parallelism=1, status=state, tasks={}, attempts=1, **fields
    )


def view(status: JobStatus, *vertices: VertexView, **fields: Any) -> JobView:
    return JobView(job_id=JOB, name="<b>etl</b>", status=status, vertices=vertices, **fields)


class Handles:
    """IPython's display, and what it has shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def __call__(self, card: JobCard, *, display_id: bool) -> "Handles":
        assert display_id
        self.update(card)
        return self

    def update(self, card: JobCard) -> None:
        self.shown.append(card._repr_html_())


def test_a_card_says_what_goes_on() -> None:
    running = TaskProgress(attempt=RegionAttemptID(JOB, RegionIndex(0), 0), tasks_done=3, tasks_total=8, rows_read=500)
    finished = IOMetrics(rows_read=1_234_567, tasks=4)
    card = JobCard(
        view(
            JobStatus.RUNNING,
            vertex("lines & more", ExecutionState.FINISHED, io=finished),
            vertex("counts", ExecutionState.RUNNING, progress=(running,)),
            vertex("sink", ExecutionState.CREATED),
            reason="1 region waits for a slot",
        )
    )
    html, text = card._repr_html_(), repr(card)
    assert "&lt;b&gt;etl&lt;/b&gt;: RUNNING (1 region waits for a slot)" in html
    assert "lines &amp; more" in html
    assert "<progress value='3' max='8'></progress> 3/8" in html
    assert [line.split() for line in text.splitlines()[1:]] == [
        ["lines", "&", "more", "FINISHED", "4/4", "1,234,567"],
        ["counts", "RUNNING", "3/8", "500"],
        ["sink", "CREATED"],
    ]


def test_many_vertices_are_counted_and_a_failure_is_told() -> None:
    entry = ExceptionEntry(timestamp_ms=1, failure=FailureInfo(kind=FailureKind.USER, message="a < b", vertex="v"))
    many = [vertex(f"v{number}", ExecutionState.FAILED) for number in range(53)]
    card = JobCard(view(JobStatus.FAILED, *many, exceptions=(entry,)))
    assert repr(card).splitlines()[-2:] == ["and 3 more vertices", "v: a < b"]
    assert "<div>v: a &lt; b</div>" in card._repr_html_()
    assert "a < b" not in repr(JobCard(view(JobStatus.FINISHED, exceptions=(entry,))))


def test_the_last_view_is_shown_however_fast_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "REDRAWN_S", 3_600.0)
    ended, cut_off = Handles(), Handles()
    show([view(JobStatus.CREATED), view(JobStatus.RUNNING), view(JobStatus.FINISHED)], ended)
    assert [text.partition("</b>")[0].rpartition(" ")[2] for text in ended.shown] == ["CREATED", "FINISHED"]
    show([view(JobStatus.CREATED), view(JobStatus.RUNNING)], cut_off)
    assert "RUNNING" in cut_off.shown[-1]
    nothing = Handles()
    show([], nothing)
    assert nothing.shown == []


def test_elsewhere_a_text_is_printed_when_it_changes(capsys: pytest.CaptureFixture[str]) -> None:
    show([view(JobStatus.RUNNING), view(JobStatus.RUNNING), view(JobStatus.FINISHED)], Printed)
    assert capsys.readouterr().out == "<b>etl</b>: RUNNING\n<b>etl</b>: FINISHED\n"
