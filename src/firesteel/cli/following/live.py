"""Views of a running job on standard error: a live table on a terminal, a line per change elsewhere."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, Protocol

from firesteel.cli.following.follow import (
    VertexProgress,
    changes,
    describe_failure,
    duration,
    new_failures,
    vertex_progress,
    vertex_state,
    waits,
)
from firesteel.model.states import ExecutionState
from firesteel.model.views import JobView, VertexView

REFRESHES_PER_SECOND = 5
ROWS_MAX = 30
"""Vertices shown at once; of more, those that run and those that failed come first."""

COLUMNS = ("vertex", "state", "done", "Spark tasks", "rows read", "rate", "left")
DROPPED = ("done", "rate", "left", "rows read")
"""Columns that a narrow terminal has no room for, the first first."""
BAR = " " * 12
"""Place of the bar in the column `done`."""
NAME_WIDTH_MIN, STATE_WIDTH_MIN = 12, 10
GAP = 2
"""Blanks between two columns."""


class JobDisplay(Protocol):
    """Shows one job."""

    def note(self, text: str) -> None:
        """Say something that no view of the job says."""

    def printed(self, line: str) -> None:
        """A line that the job's functions have printed."""

    def show(self, view: JobView) -> None: ...

    def close(self) -> None: ...


def open_display(*, is_plain: bool = False) -> JobDisplay:
    """The display that fits where standard error goes; a plain one leaves lines of others alone."""
    if sys.stderr.isatty() and not is_plain:
        return LiveDisplay()
    return LineDisplay(_write_line)


def _write_line(line: str) -> None:
    """Write a line to who reads; where nobody does any more, the job is what counts, and nothing is said."""
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


class LineDisplay:
    """One line per change, with the time of day."""

    def __init__(self, write: Callable[[str], object], clock: Callable[[], str] | None = None) -> None:
        self._write, self._clock = write, clock or (lambda: time.strftime("%H:%M:%S"))
        self._last: JobView | None = None

    def note(self, text: str) -> None:
        self._write(f"{self._clock()} {text}")

    def printed(self, line: str) -> None:
        self._write(line)

    def show(self, view: JobView) -> None:
        for line in changes(self._last, view):
            self.note(line)
        self._last = view

    def close(self) -> None:
        """Nothing is open."""


class LiveDisplay:
    """A table that is drawn anew in place. Failures, and what functions print, scroll by above it."""

    def __init__(self, console: Any = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._last: JobView | None = None
        self._note = "starting"
        self._computes_since_ms: dict[str, int] = {}
        """When a vertex was seen waiting last."""
        self._console = console or Console(stderr=True, highlight=False)
        self._live = Live(
            console=self._console,
            get_renderable=self._render,
            refresh_per_second=REFRESHES_PER_SECOND,
            redirect_stdout=False,
        )
        self._live.start()

    def note(self, text: str) -> None:
        self._note = text

    def printed(self, line: str) -> None:
        with contextlib.suppress(OSError):  # the terminal has gone
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def show(self, view: JobView) -> None:
        for failure in new_failures(self._last, view):
            with contextlib.suppress(OSError):  # the terminal has gone
                self._console.print(f"failed: {describe_failure(failure)}", markup=False, highlight=False, style="red")
        now_ms = round(time.time() * 1_000)
        self._computes_since_ms |= {vertex.id: now_ms for vertex in view.vertices if waits(vertex)}
        self._last, self._note = view, ""

    def close(self) -> None:
        self._live.transient = self._last is None  # the last table stays to be read
        with contextlib.suppress(OSError):  # the terminal has gone
            self._live.stop()

    def _render(self) -> Any:
        if self._last is None:
            return self._note
        return job_table(
            self._last,
            now_ms=round(time.time() * 1_000),
            note=self._note,
            width=self._console.width,
            computes_since_ms=self._computes_since_ms,
        )


def job_table(
    view: JobView, *, now_ms: int, note: str = "", width: int = 100, computes_since_ms: Mapping[str, int] | None = None
) -> Any:
    """A job at one moment: a line of its own, and a table of its vertices with the columns that there is room for."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    until_ms = view.end_time_ms if view.end_time_ms >= 0 else now_ms
    elapsed = duration(until_ms - view.start_time_ms) if view.start_time_ms >= 0 else ""
    parts = (view.name, f"({view.job_id[:8]})", view.status.value, elapsed, view.reason or note)
    title = Text("  ".join(part for part in parts if part), style="bold", no_wrap=True, overflow="ellipsis")
    vertices = sorted(view.vertices, key=lambda vertex: vertex.status is not ExecutionState.RUNNING)
    shown = view.vertices if len(view.vertices) <= ROWS_MAX else vertices[:ROWS_MAX]
    progresses = [vertex_progress(vertex, now_ms, (computes_since_ms or {}).get(vertex.id, -1)) for vertex in shown]
    rows = [_cells(vertex, progress) for vertex, progress in zip(shown, progresses, strict=True)]
    widths = _widths([dict(zip(COLUMNS, COLUMNS, strict=True)), *rows], width)
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
    for column, column_width in widths.items():
        is_figure = column not in ("vertex", "state", "done")
        side: Literal["left", "right"] = "right" if is_figure else "left"
        table.add_column(column, justify=side, no_wrap=True, overflow="ellipsis", width=column_width)
    for vertex, progress, row in zip(shown, progresses, rows, strict=True):
        cells: dict[str, Any] = {column: Text(row[column]) for column in widths}
        cells["state"].style = _STYLES.get(vertex.status, "")
        if "done" in widths and row["done"]:
            cells["done"] = ProgressBar(1.0, progress.done, width=len(BAR), finished_style="green")
        table.add_row(*cells.values())
    more = [f"and {len(view.vertices) - ROWS_MAX} more"] if len(view.vertices) > ROWS_MAX else []
    return Group(title, table, *more)


def _cells(vertex: VertexView, progress: VertexProgress) -> dict[str, str]:
    bar = BAR if progress.done >= 0 else ""
    texts = (vertex.name, vertex_state(vertex), bar, progress.tasks, progress.rows, progress.rate, progress.left)
    return dict(zip(COLUMNS, texts, strict=True))


def _widths(rows: Sequence[Mapping[str, str]], width: int) -> dict[str, int]:
    """The columns that there is room for, figures whole: first some are left out, then names and states are cut."""
    wanted = {column: max(len(row[column]) for row in rows) for column in COLUMNS}
    name, state = min(wanted["vertex"], NAME_WIDTH_MIN), min(wanted["state"], STATE_WIDTH_MIN)

    def left(columns: Collection[str]) -> int:
        """Width left for names and states, beside the figures."""
        figures = [wanted[column] for column in columns if column not in ("vertex", "state")]
        return width - sum(figures) - GAP * (len(figures) + 1)

    for column in DROPPED:
        if left(wanted) < name + wanted["state"]:
            del wanted[column]
    room = left(wanted)
    wanted["state"] = max(state, min(wanted["state"], room - name))
    wanted["vertex"] = max(name, min(wanted["vertex"], room - wanted["state"]))
    return wanted


_STYLES = {
    ExecutionState.RUNNING: "cyan",
    ExecutionState.FINISHED: "green",
    ExecutionState.FAILED: "red",
    ExecutionState.CANCELED: "yellow",
}
