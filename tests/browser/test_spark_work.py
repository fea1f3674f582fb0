"""What Spark does for an attempt, on the page of its subtask."""

from pathlib import Path

import pytest

from firesteel.model.resources import LOCAL_SPARK, SparkApplication
from firesteel.testing.backend import FakeTaskBackend
from tests.browser.conftest import Do
from tests.browser.pages import browser, flaws, go, overflow, page, picture
from tests.browser.site import site
from tests.browser.test_actions import FEATURES
from tests.rest.sparkapi import answers, spark_api


def test_queries_and_stages_of_an_attempt(do: Do, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with site(tmp_path) as made, browser() as started:
            job = made.jobs[FEATURES]
            view = await made.rest.get(f"/jobs/{job}/view")
            vertex = next(each for each in view["vertices"] if each["tasks"].get("RUNNING"))
            place = f"#/jobs/{job}/vertices/{vertex['id']}/0"
            known = answers(f"firesteel-{job}-{vertex['first_region']}-0")
            async with page(started, made.address) as opened:
                await go(opened, place, "text=taskmanager.spark.ui: true")
                await picture(opened, "spark-work-off")
            async with spark_api(known) as url:
                shown = [SparkApplication(LOCAL_SPARK, tracking_url=url, is_shared=True)]
                monkeypatch.setattr(FakeTaskBackend, "applications", lambda backend: shown)
                for width, theme in ((1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")):
                    async with page(started, made.address, width=width, theme=theme) as opened:
                        await go(opened, place, "text=4 stages")
                        queries = opened.locator("details.query")
                        assert await queries.count() == 2
                        done = queries.filter(has_text="Query 2: Execute InsertIntoHadoopFsRelationCommand")
                        await done.locator("summary").first.click()
                        await done.get_by_text("Plan as text").click()
                        row = done.locator("tr", has_text="HashAggregate")
                        assert "8.3 MiB" in await row.inner_text()
                        assert "spill size" not in await row.inner_text(), "there was none"
                        await picture(opened, f"spark-work-{width}-{theme}")
                        assert (await flaws(opened), await overflow(opened)) == ([], 0)
                        async with opened.context.expect_page() as coming:
                            await done.get_by_role("button", name="Query 2 in Spark").click()
                        assert (await coming.value).url.endswith("/SQL/execution/?id=2")
                        known_now = known["/api/v1/applications/local-1/stages/5"]
                        known_now[0]["numCompleteTasks"] = 2
                        await opened.get_by_role("button", name="Look again").click()
                        await opened.get_by_text("2/4", exact=True).wait_for()
                        known_now[0]["numCompleteTasks"] = 1
            async with page(started, made.address) as opened:
                await go(opened, place, "text=Spark does not answer")

    do(story())
