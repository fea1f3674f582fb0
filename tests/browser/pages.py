"""A browser and its pages, which fail a test when something is wrong in them."""

import contextlib
import os
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from tests.browser.conftest import BROWSER

PICTURES = Path(__file__).resolve().parents[2] / "build" / "browser"
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
SERIOUS = ("serious", "critical")
WAIT_MS = 15_000


@contextlib.asynccontextmanager
async def browser() -> AsyncIterator[Any]:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=os.environ[BROWSER], args=ARGUMENTS)
        try:
            yield started
        finally:
            await started.close()


@contextlib.asynccontextmanager
async def page(
    started: Any, address: str, *, width: int = 1280, theme: str = "light", expected: tuple[str, ...] = ()
) -> AsyncIterator[Any]:
    """A page of the dashboard; in the end nothing may stand in its console but what is `expected`."""
    context = await started.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
    opened = await context.new_page()
    opened.set_default_timeout(WAIT_MS)
    said: list[str] = []
    opened.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: said.append(str(error)))
    if address:
        await opened.goto(f"{address}/")
    yield opened
    await context.close()
    assert not [text for text in said if not any(part in text for part in expected)], said


async def go(opened: Any, place: str, sight: str) -> None:
    """To a place of the page, until something is in sight."""
    await opened.evaluate("place => { location.hash = place }", place)
    await opened.locator(sight).first.wait_for()
    await opened.wait_for_timeout(150)


async def flaws(opened: Any) -> list[str]:
    """What axe finds that is serious."""
    await opened.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = await opened.evaluate("async () => (await axe.run(document)).violations")
    return [
        f"{each['id']}: {each['help']}: {node['html'][:160]}"
        for each in found
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ]


async def picture(opened: Any, name: str) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    await opened.screenshot(path=PICTURES / f"{name}.png", full_page=True)


async def overflow(opened: Any) -> int:
    """By how many pixels the page is wider than what is seen of it."""
    beyond: int = await opened.evaluate("document.documentElement.scrollWidth - innerWidth")
    return beyond
