"""A flame graph on the page of a vertex: made when asked for, looked into by keys, and said when there is none."""

from pathlib import Path

import pytest

from firesteel.model.stacks import SampledStack
from tests.browser.conftest import Do
from tests.browser.pages import browser, flaws, go, overflow, page, picture
from tests.browser.site import site

FEATURES = "customer features of the last ninety days"
PYTHON = ("Python", "<module> (child.py:1)", "run (plan.py:88)")
STACKS = (
    SampledStack(frames=(*PYTHON, "features (pipeline.py:12)", "parse (dates.py:3)"), is_waiting=False, count=22),
    SampledStack(frames=(*PYTHON, "features (pipeline.py:14)"), is_waiting=False, count=8),
    SampledStack(frames=(*PYTHON, "collect (client.py:9)", "wait (threading.py:320)"), is_waiting=True, count=30),
    SampledStack(
        frames=("JVM: Spark tasks", "org.apache.spark.scheduler.Task.run(Task.scala:147)", "Codegen.processNext()"),
        is_waiting=False,
        count=40,
    ),
)


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_where_a_vertex_is(do: Do, tmp_path: Path, width: int, theme: str) -> None:
    async def story() -> None:
        async with (
            site(tmp_path) as made,
            browser() as started,
            page(started, made.address, width=width, theme=theme) as opened,
        ):
            made.script.stacks = STACKS
            vertex = made.vertices[FEATURES, "features"]
            await go(opened, f"#/jobs/{made.jobs[FEATURES]}/vertices/{vertex}", "text=Made when asked for")
            await opened.get_by_role("button", name="All", exact=True).click()
            await opened.locator(".frame.python").first.wait_for()
            await opened.locator("text=400 samples").wait_for()
            await picture(opened, f"flames-{width}-{theme}")
            assert await flaws(opened) == []
            assert await overflow(opened) <= 0
            await opened.get_by_role("button", name="features (pipeline.py:12): 88 of 400 samples").press("Enter")
            parse = opened.get_by_role("button", name="parse (dates.py:3)")
            whole = opened.get_by_role("button", name="root: 400 of 400")
            box, all_of_it = await parse.bounding_box(), await whole.bounding_box()
            assert round(box["width"]) == round(all_of_it["width"])
            await whole.click()
            assert (await parse.bounding_box())["width"] < box["width"] / 3
            await opened.get_by_role("button", name="Waiting").click()
            await opened.locator("text=120 samples").wait_for()
            assert await opened.locator(".frame.tasks").count() == 0
            scores = made.vertices[FEATURES, "model"]
            await go(opened, f"#/jobs/{made.jobs[FEATURES]}/vertices/{scores}", "text=Made when asked for")
            await opened.get_by_role("button", name="All", exact=True).click()
            await opened.locator("text=Nothing of it runs").wait_for()

    do(story())
