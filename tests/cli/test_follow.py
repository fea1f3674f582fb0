"""Views as texts."""

import io

import msgspec
import pytest

from firesteel.cli.following.follow import changes, describe_sink, duration, result_lines, vertex_progress, vertex_state
from firesteel.cli.following.live import LineDisplay, LiveDisplay, job_table
from firesteel.cli.jobs.manage import view_lines
from firesteel.model.ids import JobID, RegionAttemptID, RegionIndex
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.tasks import IOMetrics, TaskProgress
from firesteel.model.views import CommittedSink, JobView, QueuePlace
from tests.cli.fakes import result, vertex, view

ATTEMPT = RegionAttemptID(JobID("ab" * 16), RegionIndex(0), 0)
PROGRESS = TaskProgress(attempt=ATTEMPT, tasks_done=3, tasks_total=12, rows_read=6_000)


def test_one_line_per_change() -> None:
    created = view(JobStatus.CREATED, reason="waiting for a slot")
    running, failed = view(JobStatus.RUNNING), view(JobStatus.FAILED)
    assert changes(None, created) == ["wordcount (abababab): CREATED", "wordcount: waiting for a slot"]
    assert changes(created, created) == []
    assert changes(created, running) == ["wordcount (abababab): RUNNING", "lines -> counts: RUNNING"]
    assert changes(running, failed) == [
        "wordcount (abababab): FAILED",
        "failed: counts (etl.py:12): no column 'wrod' (region 0, attempt 1)",
    ]


def test_failures_that_come_with_another_are_told_once_each() -> None:
    """Not what failed of the same cause at the same time, and not again with another root."""
    running = view(JobStatus.RUNNING)
    root = view(JobStatus.FAILED).exceptions[0]
    same, later = (msgspec.structs.replace(root, region=1, timestamp_ms=root.timestamp_ms + more) for more in (0, 5))
    one = msgspec.structs.replace(running, exceptions=(msgspec.structs.replace(root, concurrent=(same,)),))
    two = msgspec.structs.replace(running, exceptions=(msgspec.structs.replace(root, concurrent=(same, later)),))
    assert changes(running, one) == ["failed: counts (etl.py:12): no column 'wrod' (region 0, attempt 1)"]
    assert changes(one, two) == ["failed: counts (etl.py:12): no column 'wrod' (region 1, attempt 1)"]
    again = msgspec.structs.replace(root, region=2, timestamp_ms=root.timestamp_ms + 9, concurrent=(later,))
    three = msgspec.structs.replace(running, exceptions=(again, *two.exceptions))
    assert changes(two, three) == ["failed: counts (etl.py:12): no column 'wrod' (region 2, attempt 1)"]


def test_a_reason_is_told_when_it_becomes_another_one() -> None:
    """Numbers in it change all the time, and a job that runs waits a moment for each slot."""
    place = QueuePlace(place=1, queue="default", priority=0, slots_missing=2, reason="all 2 slots are taken")
    running = view(JobStatus.RUNNING)

    def waits(reason: str, queue: QueuePlace | None = place) -> JobView:
        return msgspec.structs.replace(running, reason=reason, queue=queue)

    many, one = waits("lacks 2 slots: all 2 slots are taken"), waits("lacks 11 slots: all 2 slots are taken")
    assert changes(running, many) == ["wordcount: lacks 2 slots: all 2 slots are taken"]
    assert changes(many, one) == []
    assert changes(one, waits("lacks 11 slots: no worker is registered")) == [
        "wordcount: lacks 11 slots: no worker is registered"
    ]
    assert changes(running, waits("2 regions wait for a slot", None)) == []


def test_a_job_that_runs_and_waits_for_spark_says_so_once() -> None:
    starting = msgspec.structs.replace(PROGRESS, waits_for="Spark to start")
    running = view(JobStatus.RUNNING, vertices=(vertex(ExecutionState.RUNNING, progress=(starting,)),))
    first, second = (
        msgspec.structs.replace(running, reason=f"1 region waits for Spark to start (for {seconds} s)")
        for seconds in (3, 4)
    )
    assert changes(running, first) == ["wordcount: 1 region waits for Spark to start (for 3 s)"]
    assert changes(first, second) == []


def test_a_job_whose_commit_waits_says_so() -> None:
    running = view(JobStatus.RUNNING, vertices=(vertex(ExecutionState.FINISHED),))
    waits = msgspec.structs.replace(
        running, reason="result can't be committed yet (no space is left) and is tried again"
    )
    assert changes(running, waits) == [f"wordcount: {waits.reason}"]


def test_how_long_a_job_has_run_and_how_long_one_took() -> None:
    running = msgspec.structs.replace(view(JobStatus.RUNNING), start_time_ms=1_000, end_time_ms=-1)
    ended = msgspec.structs.replace(view(JobStatus.FINISHED), start_time_ms=1_000, end_time_ms=3_500)
    assert view_lines(running, 5_000)[0].endswith(": RUNNING, 4.0 s after its begin")
    assert view_lines(ended, 5_000)[0].endswith(": FINISHED in 2.5 s")


def test_a_second_attempt_is_a_change() -> None:
    before = view(JobStatus.RUNNING)
    after = view(JobStatus.RUNNING, restarts=1, vertices=(vertex(ExecutionState.RUNNING, attempts=2),))
    assert changes(before, after) == ["wordcount: restart 1", "lines -> counts: RUNNING (attempt 2)"]


def test_subtasks_are_counted() -> None:
    wide = vertex(ExecutionState.RUNNING, parallelism=20_000, tasks={"FINISHED": 7, "RUNNING": 3})
    assert vertex_state(wide) == "RUNNING 7/20000 finished"


def test_progress_and_time_left() -> None:
    running = vertex(ExecutionState.RUNNING, start_time_ms=1_000, progress=(PROGRESS,))
    known = vertex_progress(running, now_ms=4_000)
    assert (known.tasks, known.rows, known.rate, known.left) == ("3/12", "6,000", "2,000/s", "9.0 s")
    assert vertex_progress(vertex(ExecutionState.CREATED), now_ms=4_000) == msgspec.structs.replace(
        known, done=-1.0, tasks="", rows="", rate="", left=""
    )
    assert known.done == 0.25


def test_what_has_finished_keeps_its_numbers() -> None:
    io = IOMetrics(rows_read=6_000, tasks=12, rows_written=5)
    ended = vertex(ExecutionState.FINISHED, start_time_ms=1_000, end_time_ms=4_000, io=io)
    known = vertex_progress(ended, now_ms=9_000)
    assert (known.tasks, known.rows, known.rate, known.left) == ("12/12", "6,000", "2,000/s", "")
    uncounted = msgspec.structs.replace(ended, io=msgspec.structs.replace(io, rows_read=0), io_lacking=("rows_read",))
    assert vertex_progress(uncounted, now_ms=9_000).rows == "5"
    half = msgspec.structs.replace(ended, end_time_ms=-1, progress=(PROGRESS,))
    assert vertex_progress(half, now_ms=4_000).tasks == "15/24"


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(850, "850 ms"), (3_210, "3.2 s"), (250_000, "4 min 10 s"), (7_500_000, "2 h 5 min")]
)
def test_duration(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


def test_result_lines() -> None:
    assert result_lines(result(JobStatus.FINISHED, JobID("ab" * 16))) == [
        "wordcount FINISHED in 3.2 s",
        "  result: 1,234 rows in 1 file, 12.3 kB -> /data/out (overwrite)",
    ]


def test_a_table_has_rows_and_what_a_users_own_sink_has_written_is_its_own_business() -> None:
    table = CommittedSink(function="t", target="orders", mode="append", files=0, rows=3, size_bytes=1_500)
    assert describe_sink(table) == "t: 3 rows, 1.5 kB -> orders (append)"
    own = CommittedSink(function="own", target="Warehouse", mode="commit", files=0)
    assert describe_sink(own) == "own: -> Warehouse (commit)"


def test_lines_carry_the_time_and_never_repeat() -> None:
    lines: list[str] = []
    display = LineDisplay(lines.append, clock=lambda: "12:00:00")
    display.note("building")
    for _ in range(2):
        display.show(view(JobStatus.FINISHED))
    display.close()
    assert lines == [
        "12:00:00 building",
        "12:00:00 wordcount (abababab): FINISHED",
        "12:00:00 lines -> counts: FINISHED",
    ]


def rendered(shown: JobView, width: int = 100) -> str:
    from rich.console import Console

    text = io.StringIO()
    Console(file=text, width=width).print(job_table(shown, now_ms=4_000, width=width))
    return text.getvalue()


def test_table() -> None:
    running = vertex(ExecutionState.RUNNING, name="[odd] name", start_time_ms=1_000, progress=(PROGRESS,))
    text = rendered(view(JobStatus.RUNNING, start_time_ms=1_000, vertices=(running,)))
    lines = [line.split() for line in text.splitlines()]
    assert lines[0] == ["wordcount", "(abababab)", "RUNNING", "3.0", "s"]
    assert lines[2] == ["[odd]", "name", "RUNNING", "━━━", "3/12", "6,000", "2,000/s", "9.0", "s"]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_figures_are_whole_or_left_out(width: int) -> None:
    """Names and states are cut; no line is longer than the terminal is wide, where there is room for anything."""
    progress = msgspec.structs.replace(PROGRESS, rows_read=123_456_789)
    names = ("orders -> cleaned_orders -> orders_by_customer", "b")
    vertices = tuple(
        vertex(ExecutionState.RUNNING, name=name, attempts=3, start_time_ms=1_000, progress=(progress,))
        for name in names
    )
    shown = view(JobStatus.RUNNING, start_time_ms=1_000, vertices=vertices)
    lines = rendered(shown, width).splitlines()
    assert len(lines) == 4
    assert all(line.rstrip().endswith(("9.0 s", "3/12", "123,456,789", "41,152,263/s")) for line in lines[2:])
    assert max(map(len, map(str.rstrip, lines))) <= width or width < 40
    assert ("123,456,789" in lines[2], "41,152,263/s" in lines[2]) == (width >= 60, width >= 80)
    assert ("━" in lines[2]) == (width >= 200), "the bar goes first"


def test_finished_vertices_keep_their_figures() -> None:
    io_metrics = IOMetrics(rows_read=6_000, tasks=12)
    done = vertex(ExecutionState.FINISHED, start_time_ms=1_000, end_time_ms=4_000, io=io_metrics)
    known = vertex_progress(done, now_ms=99_000)
    assert (known.tasks, known.rows, known.rate, known.left) == ("12/12", "6,000", "2,000/s", "")
    half = msgspec.structs.replace(done, status=ExecutionState.RUNNING, end_time_ms=-1, progress=(PROGRESS,))
    known = vertex_progress(half, now_ms=4_000)
    assert (known.tasks, known.rows) == ("15/24", "12,000")
    shown = view(JobStatus.RUNNING, vertices=(done,))
    assert changes(view(JobStatus.RUNNING), shown) == ["lines -> counts: FINISHED, 6,000 rows read"]


def test_the_start_of_spark_is_shown_and_does_not_count() -> None:
    waits = msgspec.structs.replace(PROGRESS, waits_for="a Spark that starts", tasks_done=0, tasks_total=0, rows_read=0)
    waiting = vertex(ExecutionState.RUNNING, start_time_ms=1_000, progress=(waits,))
    assert vertex_state(waiting) == "RUNNING, waits"
    running = msgspec.structs.replace(waiting, progress=(PROGRESS,))
    assert vertex_state(running) == "RUNNING"
    assert vertex_progress(running, now_ms=31_000, computes_since_ms=28_000).left == "9.0 s"


def test_of_many_vertices_those_that_run_are_shown() -> None:
    many = tuple(vertex(ExecutionState.CREATED, name=f"v{index}") for index in range(50))
    text = rendered(view(JobStatus.RUNNING, vertices=(*many, vertex(ExecutionState.RUNNING, name="busy"))))
    assert "busy" in text
    assert "and 21 more" in text


def test_live_display_draws_and_stops() -> None:
    from rich.console import Console

    drawn = io.StringIO()
    display = LiveDisplay(Console(file=drawn, width=100, force_terminal=True))
    display.note("starting")
    display.show(view(JobStatus.FAILED))
    display.close()
    text = drawn.getvalue()
    assert "no column 'wrod'" in text
    assert "FAILED" in text
