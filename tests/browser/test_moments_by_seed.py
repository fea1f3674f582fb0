"""The slider against the simulator: for 300 seeds, in the browser that shows it."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.browser.conftest import BROWSER
from tests.browser.pages import ARGUMENTS
from tests.simulation.moments import DASHBOARD, Fold, Folded, Tally, compare, stories

SEEDS = int(os.environ.get("FIRESTEEL_MOMENT_SEEDS", "300"))
A_TEST = 50
"""Seeds of one test."""

ADDRESS = "http://dashboard.test"
FOLD = """async (asked) => {
  const { jobAt } = await import("/moments.js");
  return asked.map(([job, data, times]) => times.map((at) => jobAt(job, data, at)));
}"""


@pytest.fixture
def fold() -> Iterator[Fold]:
    """The dashboard's own files, in a page of their own."""
    from playwright.sync_api import Route, sync_playwright

    def serve(route: Route) -> None:
        name = route.request.url.removeprefix(f"{ADDRESS}/")
        kind = "text/javascript" if name else "text/html"
        route.fulfill(content_type=kind, body=(DASHBOARD / name).read_text(encoding="utf-8") if name else "<p>")

    def evaluate(asked: Sequence[tuple[Any, Any, Sequence[int]]]) -> Sequence[Folded]:
        found: list[Folded] = page.evaluate(FOLD, asked)
        return found

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=os.environ[BROWSER], args=ARGUMENTS)
        page = started.new_page()
        page.route("**/*", serve)
        page.goto(f"{ADDRESS}/")
        yield evaluate
        started.close()


@pytest.mark.parametrize("first", range(0, SEEDS, A_TEST))
def test_the_slider_shows_what_job_masters_said(first: int, fold: Fold) -> None:
    tally = Tally()
    for seed in range(first, min(first + A_TEST, SEEDS)):
        compare(tally, seed, stories(seed), fold)
    print(f"{tally.jobs} jobs, {tally.compared} moments, {tally.forgotten} of which not everything is kept")
    assert not tally.differences, "\n".join(tally.differences[:5])
