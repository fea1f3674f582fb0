"""A job in a notebook: a table that is drawn anew in place while the job runs; in a console, its text when that changes."""

import importlib
import time
from collections.abc import Callable, Iterable
from html import escape

from firesteel.model.states import JobStatus
from firesteel.model.views import JobView, VertexView

REDRAWN_S = 0.25
"""Least time between two drawings."""
VERTICES_MAX = 50

_SIGNS = {"FINISHED": "✔", "FAILED": "✘", "CANCELED": "⊘", "RUNNING": "▶"}


class JobCard:
    """A job at one moment, as notebooks show objects. Names come from users, and are escaped."""

    def __init__(self, view: JobView) -> None:
        self._view = view

    def __repr__(self) -> str:
        lines = [f"  {name:30} {state:12} {done:>12} {rows:>14}" for name, state, done, rows in self._rows()]
        return "\n".join((self._headline(), *lines, *self._rest()))

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><td style='text-align:left'>{escape(name)}</td><td style='text-align:left'>{_SIGNS.get(state, '')} "
            f"{escape(state.lower())}</td><td>{_bar(done)}{escape(done)}</td><td>{escape(rows)}</td></tr>"
            for name, state, done, rows in self._rows()
        )
        rest = "".join(f"<div>{escape(line)}</div>" for line in self._rest())
        head = "<tr><th style='text-align:left'>vertex</th><th style='text-align:left'>state</th><th>Spark tasks</th><th>rows read</th></tr>"
        return f"<div><b>{escape(self._headline())}</b></div><table>{head}{cells}</table>{rest}"

    def _headline(self) -> str:
        view = self._view
        return f"{view.name}: {view.status.value}" + (f" ({view.reason})" if view.reason else "")

    def _rows(self) -> list[tuple[str, str, str, str]]:
        return [
            (vertex.name, vertex.status.name, _spark_tasks(vertex), _count(_rows_read(vertex)))
            for vertex in self._view.vertices[:VERTICES_MAX]
        ]

    def _rest(self) -> list[str]:
        """What the table has no room for; why the job failed, or fails."""
        beyond = len(self._view.vertices) - VERTICES_MAX
        lines = [f"and {beyond} more vertices"] if beyond > 0 else []
        failed = self._view.status in (JobStatus.FAILED, JobStatus.FAILING, JobStatus.RESTARTING)
        return lines + [entry.failure.headline() for entry in self._view.exceptions[:1] if failed]


def show(views: Iterable[JobView], display: Callable[..., object] | None = None) -> None:
    """Show each view in place of the one before; the last one stays. By IPython, where this is a notebook."""
    handle, shown_s, waiting = None, 0.0, None
    draw = display or _display()
    for view in views:
        waiting = view
        if handle is None:
            handle, shown_s, waiting = draw(JobCard(view), display_id=True), time.monotonic(), None
        elif time.monotonic() - shown_s >= REDRAWN_S or view.status.is_globally_terminal:
            handle.update(JobCard(view))  # type: ignore[attr-defined]
            shown_s, waiting = time.monotonic(), None
    if waiting is not None:
        handle.update(JobCard(waiting))  # type: ignore[attr-defined]


def _display() -> Callable[..., object]:
    try:
        display: Callable[..., object] = importlib.import_module("IPython.display").display
    except ModuleNotFoundError:
        return Printed
    return display


class Printed:
    """Prints a card, and later ones when their text is another: where there is no IPython."""

    def __init__(self, card: JobCard, *, display_id: bool = True) -> None:
        self._last = ""
        self.update(card)

    def update(self, card: JobCard) -> None:
        if (text := repr(card)) != self._last:
            print(text)
            self._last = text


def _spark_tasks(vertex: VertexView) -> str:
    """Done of total; of all that have finished and run, as far as Spark has told of them."""
    finished = max(0, vertex.io.tasks)
    total = finished + sum(each.tasks_total for each in vertex.progress)
    return f"{finished + sum(each.tasks_done for each in vertex.progress)}/{total}" if total else ""


def _rows_read(vertex: VertexView) -> int:
    return max(0, vertex.io.rows_read) + sum(max(0, each.rows_read) for each in vertex.progress)


def _count(value: int) -> str:
    return f"{value:,}" if value else ""


def _bar(done: str) -> str:
    part, _, total = done.partition("/")
    return f"<progress value='{part}' max='{total}'></progress> " if total else ""
