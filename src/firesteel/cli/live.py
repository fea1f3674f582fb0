"""Views of a running job on standard error: a live table on a terminal, a line per change elsewhere."""

import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

from firesteel.cli.follow import changes, describe_failure, duration, new_failures, vertex_progress, vertex_state
from firesteel.model.states import ExecutionState
from firesteel.model.views import JobView

REFRESHES_PER_SECOND = 5
ROWS_MAX = 30
"""Vertices shown at once; of more, those that run and those that failed come first."""


class JobDisplay(Protocol):
    """Shows one job."""

    def note(self, text: str) -> None:
        """Say something that no view of the job says."""

    def show(self, view: JobView) -> None: ...

    def close(self) -> None: ...


def open_display(*, is_plain: bool = False) -> JobDisplay:
    """The display that fits where standard error goes; a plain one leaves lines of others alone."""
    stream = sys.stderr
    return (
        LiveDisplay()
        if stream.isatty() and not is_plain
        else LineDisplay(lambda line: print(line, file=stream, flush=True))
    )


class LineDisplay:
    """One line per change, with the time of day."""

    def __init__(self, write: Callable[[str], object], clock: Callable[[], str] | None = None) -> None:
        self._write, self._clock = write, clock or (lambda: time.strftime("%H:%M:%S"))
        self._last: JobView | None = None

    def note(self, text: str) -> None:
        self._write(f"{self._clock()} {text}")

    def show(self, view: JobView) -> None:
        for line in changes(self._last, view):
            self.note(line)
        self._last = view

    def close(self) -> None:
        """Nothing is open."""


class LiveDisplay:
    """A table that is drawn anew in place. Failures and notes scroll by above it."""

    def __init__(self, console: Any = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._last: JobView | None = None
        self._note = "starting"
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

    def show(self, view: JobView) -> None:
        for failure in new_failures(self._last, view):
            self._console.print(f"failed: {describe_failure(failure)}", markup=False, highlight=False, style="red")
        self._last, self._note = view, ""

    def close(self) -> None:
        self._live.transient = self._last is None  # the last table stays to be read
        self._live.stop()

    def _render(self) -> Any:
        if self._last is None:
            return self._note
        return job_table(self._last, now_ms=round(time.time() * 1_000), note=self._note)


def job_table(view: JobView, *, now_ms: int, note: str = "") -> Any:
    """The table of a job at one moment."""
    from rich.table import Table
    from rich.text import Text

    until_ms = view.end_time_ms if view.end_time_ms >= 0 else now_ms
    elapsed = duration(until_ms - view.start_time_ms) if view.start_time_ms >= 0 else ""
    title = "  ".join(part for part in (view.name, view.status.value, elapsed, view.reason or note) if part)
    table = Table(title=Text(title, style="bold"), title_justify="left", box=None, pad_edge=False)
    for column in ("vertex", "state", "Spark tasks", "rows read", "rate", "left"):
        right = column in ("Spark tasks", "rows read", "rate", "left")
        table.add_column(column, justify="right" if right else "left", no_wrap=right)
    vertices = sorted(view.vertices, key=lambda vertex: vertex.status is not ExecutionState.RUNNING)
    shown = view.vertices if len(view.vertices) <= ROWS_MAX else vertices[:ROWS_MAX]
    for vertex in shown:
        progress = vertex_progress(vertex, now_ms)
        state = Text(vertex_state(vertex), style=_STYLES.get(vertex.status, ""))
        table.add_row(Text(vertex.name), state, progress.tasks, progress.rows, progress.rate, progress.left)
    if len(view.vertices) > ROWS_MAX:
        table.add_row(f"and {len(view.vertices) - ROWS_MAX} more")
    return table


_STYLES = {
    ExecutionState.RUNNING: "cyan",
    ExecutionState.FINISHED: "green",
    ExecutionState.FAILED: "red",
    ExecutionState.CANCELED: "yellow",
}
