"""Addresses of the page that others make up: they lead to what they name, or nowhere."""

from pathlib import Path

from tests.browser.conftest import Do
from tests.browser.pages import browser, go, page
from tests.browser.site import site

FEATURES = "customer features of the last ninety days"
UNKNOWN = (
    "%E0%A4%A",
    "toString",
    "__proto__/x",
    "jobs/../x",
    "workers/%2e%2e/logs",
    "workers/..",
)


def test_links_do_nothing(do: Do, tmp_path: Path) -> None:
    """A part of an address is never more than a part of the path that is asked for."""

    async def story() -> None:
        async with (
            site(tmp_path) as made,
            browser() as started,
            page(started, made.address, expected=("404",)) as opened,
        ):
            asked: list[str] = []
            opened.on("request", lambda request: asked.append(request.url.removeprefix(made.address)))
            job = made.jobs[FEATURES]
            for place in (f"{job}%2Fyarn-cancel%3F", f"{job}%3Fx", f"..%2Fjobs%2F{job}", f"{job.upper()}", "1%2F.."):
                await go(opened, f"#/jobs/{place}", "text=That is no id of a job")
            await go(opened, f"#/workers/..%2Fjobs%2F{job}%2Fyarn-cancel%3F", ".problem")
            assert not [path for path in asked if path.partition("?")[0].endswith("yarn-cancel")]
            assert not [path for path in asked if path.startswith("/v1/jobs/") and job in path]
            await go(opened, f"#/jobs/{job}", ".card.running")

    do(story())


def test_what_is_no_address(do: Do, tmp_path: Path) -> None:
    async def story() -> None:
        async with site(tmp_path) as made, browser() as started, page(started, made.address) as opened:
            for place in UNKNOWN:
                await go(opened, f"#/{place}", "text=There is no such page")
                await go(opened, "#/", "text=daily sales report")
            await opened.goto(f"{made.address}/#/%")
            await opened.reload()
            await opened.locator("text=There is no such page").wait_for()
            await go(opened, f"#/jobs/{made.jobs[FEATURES]}/nothing", "text=There is no such page")

    do(story())
