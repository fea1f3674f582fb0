"""The slider of the timeline: a job as it was."""

from pathlib import Path
from typing import Any

from tests.browser.conftest import Do
from tests.browser.pages import browser, flaws, go, overflow, page, picture
from tests.browser.site import site

AT = "async ([job, data, at]) => (await import('/dashboard/moments.js')).jobAt(job, data, at)"
NONE = [-1, -1, -1, -1]
ROWS = [
    [0, 0, 0, "FINISHED", "w", 100, 110, 200, 5, 50, 6, 60],
    [1, 0, 0, "FAILED", "w", 210, -1, 300, *NONE, 320],
    [1, 0, 1, "FINISHED", "w", 350, 360, 400, 7, -1, 8, 80],
    [1, 1, 0, "FINISHED", "w", 210, 220, 290, 1, 10, 2, 20],
    [2, 0, 0, "RUNNING", "w", 410, 420, -1, *NONE],
]
DATA = {"vertices": ["a", "b", "c"], "attempts": ROWS}
JOB: dict[str, Any] = {
    "vertices": [{"id": name, "parallelism": 2 if name == "b" else 1} for name in "abc"],
    "timestamps_ms": {"CREATED": 90, "RUNNING": 340, "RESTARTING": 305},
    "exceptions": [{"timestamp_ms": 300}],
}
STORY = {
    95: ("CREATED", [{"CREATED": 1}, {"CREATED": 2}, {"CREATED": 1}]),
    105: ("RUNNING", [{"DEPLOYING": 1}, {"CREATED": 2}, {"CREATED": 1}]),
    199: ("RUNNING", [{"RUNNING": 1}, {"CREATED": 2}, {"CREATED": 1}]),
    250: ("RUNNING", [{"FINISHED": 1}, {"DEPLOYING": 1, "RUNNING": 1}, {"CREATED": 1}]),
    310: ("RESTARTING", [{"FINISHED": 1}, {"FAILED": 1, "FINISHED": 1}, {"CREATED": 1}]),
    330: ("RESTARTING", [{"FINISHED": 1}, {"SCHEDULED": 1, "FINISHED": 1}, {"CREATED": 1}]),
    355: ("RUNNING", [{"FINISHED": 1}, {"DEPLOYING": 1, "FINISHED": 1}, {"CREATED": 1}]),
    420: ("RUNNING", [{"FINISHED": 1}, {"FINISHED": 2}, {"RUNNING": 1}]),
}


def test_a_fold_of_attempts(do: Do, tmp_path: Path) -> None:
    async def story() -> None:
        async with site(tmp_path) as made, browser() as started, page(started, made.address) as opened:
            then: dict[str, Any] = {}
            for at, (status, tasks) in STORY.items():
                then = await opened.evaluate(AT, [JOB, DATA, at])
                assert (then["status"], [each["tasks"] for each in then["vertices"]]) == (status, tasks), at
                assert len(then["exceptions"]) == (at >= 300)
            last = {each["id"]: each for each in then["vertices"]}
            assert (last["a"]["start_time_ms"], last["a"]["end_time_ms"], last["c"]["end_time_ms"]) == (100, 200, -1)
            assert (last["b"]["attempts"], last["b"]["io"]["rows_read"]) == (2, 8)
            assert last["b"]["io_lacking"] == ["tasks", "spark_ms", "memory_peak_bytes", "bytes_read"]

    do(story())


def test_a_job_is_shown_as_it_was(do: Do, tmp_path: Path) -> None:
    """At its end the fold is what the master says of it now; at its beginning nothing had begun."""

    async def story() -> None:
        async with site(tmp_path) as made, browser() as started:
            job = made.jobs["word counts that were restarted"]
            view = await made.rest.get(f"/jobs/{job}/view")
            attempts = await made.rest.get(f"/jobs/{job}/attempts")
            for width, theme in ((1280, "light"), (390, "dark")):
                async with page(started, made.address, width=width, theme=theme) as opened:
                    then = await opened.evaluate(AT, [view, attempts, view["end_time_ms"]])
                    for name in ("tasks", "attempts", "start_time_ms", "end_time_ms"):
                        assert [each[name] for each in then["vertices"]] == [each[name] for each in view["vertices"]]
                    await go(opened, f"#/jobs/{job}/timeline", ".moment input")
                    assert await opened.locator(".card.finished").count() == 3
                    await opened.locator(".moment input").fill("0")
                    await opened.locator(".card.waiting").first.wait_for()
                    assert await opened.locator(".card.finished").count() == 0
                    assert await opened.locator(".marks .mark.at-failure").count() == 1
                    failure = opened.locator("ol.events li", has_text="the disk of the worker is full")
                    await failure.get_by_role("button").press("Enter")
                    await opened.locator(".card.trouble, .card.failed, .card.waiting").first.wait_for()
                    at = int(await opened.locator(".moment input").input_value())
                    assert 0 < at < 1_000, "between its beginning and its end"
                    await opened.locator(".moment input").fill("500")
                    await picture(opened, f"moment-{width}-{theme}")
                    assert (await flaws(opened), await overflow(opened)) == ([], 0)

    do(story())
