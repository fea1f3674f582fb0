"""Figures of a vertex while it runs: what has finished counts, what a region's Spark does is nobody's own."""

from pathlib import Path
from typing import Any

from tests.browser.conftest import Do
from tests.browser.pages import browser, page
from tests.browser.site import site

FIGURES = """([job, id]) => import("/dashboard/vertices.js").then(({ figuresOf }) =>
  figuresOf(job, job.vertices.find((each) => each.id === id)))"""
ALL = ["rows_read", "bytes_read", "rows_written", "bytes_written", "tasks"]


def vertex(name: str, parallelism: int, finished: int, **fields: Any) -> dict[str, Any]:
    io = {"rows_read": 10 * finished, "bytes_read": 0, "rows_written": 4 * finished, "bytes_written": 0}
    return {
        "id": name,
        "kinds": ["transform"],
        "first_region": 0,
        "parallelism": parallelism,
        "tasks": {"FINISHED": finished, "RUNNING": parallelism - finished},
        "io": {**io, "tasks": 5 * finished},
        "io_lacking": [] if finished == parallelism else ALL,
        "io_uncounted": [],
        "progress": [],
        **fields,
    }


def running(done: int, total: int, rows: int = 0) -> dict[str, Any]:
    return {"rows_read": rows, "bytes_read": 0, "tasks_done": done, "tasks_total": total}


def test_figures_of_vertices(do: Do, tmp_path: Path) -> None:
    async def story() -> None:
        async with site(tmp_path) as made, browser() as started, page(started, made.address) as opened:

            async def told(name: str, *vertices: dict[str, Any]) -> tuple[Any, ...]:
                job = {"vertices": list(vertices), "edges": [{"source": "a", "target": "b"}]}
                found = await opened.evaluate(FIGURES, [job, name])
                return found["rowsRead"], found["rowsWritten"], found["sparkTasks"], found["sparkShare"]

            assert await told("x", vertex("x", 4, 4)) == ("40", "16", "20", None)
            assert await told("x", vertex("x", 4, 0)) == (None, None, None, None)
            two_run = vertex("x", 4, 2, progress=[running(1, 5, rows=3), running(2, 5)])
            assert await told("x", two_run) == ("23", "8", "13/20", 0.65)
            many_run = vertex("x", 40, 2, progress=[running(1, 5)] * 16)
            assert await told("x", many_run) == ("20", "8", "26 so far", None)
            assert await told("x", vertex("x", 4, 2)) == ("20", "8", "10 so far", None)
            unknown = vertex("x", 2, 2, io_lacking=["rows_read", "tasks"])
            assert await told("x", unknown) == (None, "8", None, None)
            uncounted = vertex("x", 4, 2, io_uncounted=["rows_written", "tasks"])
            assert await told("x", uncounted) == ("20", None, None, None)
            fused = [running(1, 4, rows=7)]
            source = vertex("a", 1, 0, progress=fused, kinds=["source"])
            then = vertex("b", 1, 0, progress=fused)
            assert await told("a", source, then) == ("7", None, "1/4", 0.25)
            assert await told("b", source, then) == (None, None, "1/4", 0.25)
            assert await told("a", source, {**then, "kinds": ["source"]}) == (None, None, "1/4", 0.25)

    do(story())
