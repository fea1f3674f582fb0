"""Flink's own dashboard in front of our REST: every page, without an error that it shows to people.

Needs the jars that `make compat` has downloaded.
"""

import mimetypes
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from firesteel.model.jobgraph import JobType
from tests.browser.conftest import Do
from tests.browser.pages import browser
from tests.browser.site import Site, named, site, submitted

JARS = os.environ.get("FIRESTEEL_FLINK_JARS", "")
FEATURES = "customer features of the last ninety days"
NOTE = ".ant-notification-notice"
BROKEN = ("NaN", "undefined", "Invalid Date")
ABSENT = ("/checkpoints", "/checkpoints/config", "/log", "/stdout")
"""Ends of what may be missing, as with Flink's own master: its page knows that."""


def places(made: Site, stream: str) -> list[str]:
    jobs = made.jobs
    running, done = f"/job/running/{jobs[FEATURES]}", f"/job/completed/{jobs['daily sales report']}"
    vertex = f"{running}/overview/{made.vertices[FEATURES, 'features']}"
    worker = f"/task-manager/{next(iter(made.rest.cluster.workers))}"
    drawer = (
        "detail",
        "subtasks",
        "taskmanagers",
        "watermarks",
        "accumulators",
        "metrics",
        "backpressure",
        "flamegraph",
    )
    of_job = ("overview", "exceptions", "dataskew", "timeline", "configuration")
    of_process = ("metrics", "logs", "stdout", "thread-dump", "profiler")
    return [
        *("/overview", "/job/running", "/job/completed", "/application/running", "/application/completed", "/submit"),
        f"/application/running/{jobs[FEATURES]}",
        f"/application/completed/{jobs['monthly totals']}/exceptions",
        *(f"{job}/{tab}" for job in (running, done) for tab in of_job),
        *(f"{vertex}/{tab}" for tab in drawer),
        f"/job/completed/{jobs['monthly totals']}/exceptions",
        *(f"/job/running/{stream}/{tab}" for tab in (*of_job, "checkpoints")),
        "/task-manager",
        *(f"{worker}/{tab}" for tab in (*of_process, "log-list")),
        *(f"/job-manager/{tab}" for tab in (*of_process, "config", "log")),
    ]


@pytest.mark.skipif(not JARS, reason="needs the jars that `make compat` downloads")
def test_every_page_of_flinks_dashboard(do: Do, tmp_path: Path) -> None:
    async def story() -> None:
        (dist,) = Path(JARS).glob("flink-dist-*.jar")
        with zipfile.ZipFile(dist) as jar:
            async with site(tmp_path) as made, browser() as started:
                stream = await submitted(
                    made, named("clicks -> rows", "clicks as they come", job_type=JobType.STREAMING)
                )
                opened = await started.new_page()
                wrong: list[str] = []
                opened.on("response", lambda answer: wrong.extend(refused(answer, made.address)))
                await opened.route("**/*", lambda route: served(route, jar, made.address))
                for place in places(made, stream):
                    await opened.goto(f"{made.address}/#{place}")
                    await opened.wait_for_load_state("networkidle")
                    await opened.wait_for_timeout(300)
                    wrong += [f"{place}: {text}" for text in await opened.locator(NOTE).all_inner_texts()]
                    text = await opened.locator("body").inner_text()
                    wrong += [f"{place}: {word}" for word in BROKEN if word in text]
                    assert len(text) > 100, f"{place} is blank"
                assert not wrong

    do(story())


def refused(answer: Any, address: str) -> list[str]:
    """Errors that the page was answered. What its own scripts stumble over, like drawings that one has left, is its own."""
    path = answer.url.removeprefix(address).partition("?")[0]
    is_fine = answer.status < 400 or (answer.status == 404 and path.endswith(ABSENT))
    return [] if is_fine else [f"{answer.status} {path}"]


async def served(route: Any, jar: zipfile.ZipFile, address: str) -> None:
    """A file of Flink's page, or else what our REST answers."""
    name = f"web/{route.request.url.removeprefix(address).partition('?')[0].lstrip('/') or 'index.html'}"
    if name in jar.namelist():
        await route.fulfill(body=jar.read(name), content_type=mimetypes.guess_type(name)[0] or "text/plain")
    else:
        await route.continue_()
