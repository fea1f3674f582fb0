"""Every page, with jobs in every state, in both themes and two widths: as it should be, for everybody."""

from pathlib import Path
from typing import Any

import pytest

from firesteel.model.jobgraph import JobType
from tests.browser.conftest import Do
from tests.browser.pages import browser, flaws, go, overflow, page, picture
from tests.browser.site import Site, named, site, submitted

STREAM = "clicks as they come"
OF_STREAMS = {
    "timeline": "text=No attempt has been deployed yet",
    "exceptions": "text=Nothing has gone wrong so far",
    "output": "text=Nothing was printed",
    "checkpoints": "text=None has been taken so far",
    "results": "h2:has-text('Outputs')",
    "configuration": "text=States it was in",
}
"""Tabs of a stream that waits, and what is to be seen there."""


def places(made: Site) -> dict[str, tuple[str, str]]:
    """Each page by its name: where it is, and what is to be seen there."""
    jobs = {name: f"#/jobs/{job_id}" for name, job_id in made.jobs.items()}
    sales, failed, features = (
        jobs["daily sales report"],
        jobs["monthly totals"],
        jobs["customer features of the last ninety days"],
    )
    again, waiting = jobs["word counts that were restarted"], jobs["backfill 4 of 4"]
    stream = jobs[STREAM]
    worker = f"#/workers/{next(iter(made.rest.cluster.workers))}"
    vertex = made.vertices["customer features of the last ninety days", "features"]
    return {
        "cluster": ("#/", "text=backfill 4 of 4"),
        "finished": (sales, ".card:has-text('archive')"),
        "results": (f"{sales}/results", "text=88,123"),
        "lineage": (f"{sales}/lineage", "code:has-text('2026-11-22/orders')"),
        "configuration": (f"{sales}/configuration", "text=spark.sql.shuffle.partitions"),
        "timeline": (f"{again}/timeline", "text=#1"),
        "running": (features, ".card.running"),
        "output": (f"{features}/output", "text=Nothing was printed"),
        "waiting": (waiting, ".reason-line"),
        "masters": ("#/master", "text=Configuration"),
        "failed": (failed, ".why"),
        "exceptions": (f"{failed}/exceptions", "text=sales/pipeline.py:42"),
        "restarted": (f"{again}/exceptions", "text=the disk of the worker is full"),
        "stream": (stream, "text=Take savepoint"),
        **{f"stream {tab}": (f"{stream}/{tab}", sight) for tab, sight in OF_STREAMS.items()},
        "cancelled": (jobs["an export that took too long"], "h1 + .state.cancelled"),
        "vertex": (f"{features}/vertices/{vertex}", ".subtasks .state.running"),
        "subtask": (f"{features}/vertices/{vertex}/0", "text=Printed output"),
        "worker": (worker, "text=Slots in use"),
        "worker logs": (f"{worker}/logs", "text=No log file is written"),
        "worker threads": (f"{worker}/threads", "text=MainThread"),
        "submit": ("#/submit", "text=Choose a file"),
        "master": ("#/master", "text=rest.port"),
        "master logs": ("#/master/logs", "text=leading: 0"),
        "master threads": ("#/master/threads", "text=MainThread"),
        "nowhere": ("#/nowhere", "text=There is no such page"),
        "unknown job": (f"#/jobs/{'0' * 32}", "text=Job could not be found"),
    }


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page(do: Do, tmp_path: Path, width: int, theme: str) -> None:
    async def story() -> None:
        found: dict[str, Any] = {}
        async with (
            site(tmp_path) as made,
            browser() as started,
            page(started, made.address, width=width, theme=theme, expected=("404",)) as opened,
        ):
            await submitted(made, named("clicks -> rows", STREAM, job_type=JobType.STREAMING))
            for name, (place, sight) in places(made).items():
                await go(opened, place, sight)
                await picture(opened, f"{name}-{width}-{theme}")
                wrong = await flaws(opened)
                if name == "stream checkpoints" and await opened.locator("text=on average").count():
                    wrong.append("an average of nothing")
                if beyond := await overflow(opened):
                    wrong.append(f"{beyond} px too wide")
                if wrong:
                    found[name] = wrong
        assert not found, found

    do(story())
