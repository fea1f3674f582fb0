"""Spark's pages in a browser: isolated, with their styles, scripts and what these ask for, also where one says who one is."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from firesteel.model.resources import LOCAL_SPARK, SparkApplication
from firesteel.testing.backend import FakeTaskBackend
from tests.browser.conftest import Do
from tests.browser.pages import browser, go, page, picture
from tests.browser.site import site
from tests.browser.test_actions import FEATURES, USERS

PAGE = """<!doctype html><title>Spark</title><link rel="stylesheet" href="{base}/static/a.css">
<script src="{base}/static/a.js"></script><p id="told">nothing</p><a href="{base}/stages/">Stages</a>
<script>ask("{base}/api/v1/applications")</script>"""
SCRIPT = """function ask(where) {
  const asked = new XMLHttpRequest();
  asked.open("GET", where);
  asked.setRequestHeader("X-Requested-With", "XMLHttpRequest");
  asked.onload = () => { document.getElementById("told").textContent = asked.responseText; };
  asked.send();
  try { sessionStorage.getItem("firesteel.token"); document.title = "not isolated"; } catch { document.title = "isolated"; }
}"""
FILES = {
    "/static/a.css": ("text/css", "#told { color: rgb(1, 2, 3) }"),
    "/static/a.js": ("text/javascript", SCRIPT),
    "/api/v1/applications": ("application/json", '"an application"'),
}


@contextlib.asynccontextmanager
async def spark() -> AsyncIterator[str]:
    """Pages made as Spark makes its own: a style, a script, and what this asks for."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        base = next(line.partition(": ")[2] for line in head.splitlines() if line.startswith("X-Forwarded-Context"))
        kind, text = FILES.get(head.split()[1], ("text/html", PAGE.replace("{base}", base)))
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n{text}".encode())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("with_users", [False, True])
def test_pages_of_spark(do: Do, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_users: bool) -> None:
    async def story() -> None:
        users = tmp_path / "users.yaml"
        users.write_text(USERS)
        options = {"rest.users-file": str(users)} if with_users else {}
        async with (
            spark() as url,
            site(tmp_path, options=options, headers={"Authorization": "Bearer o"}) as made,
            browser() as started,
            page(started, made.address, expected=("401", "404")) as opened,
        ):
            if with_users:
                await opened.get_by_label("Token").fill("o")
                await opened.get_by_role("button", name="Log in").click()
            await go(opened, f"#/jobs/{made.jobs[FEATURES]}", ".card.running")
            button = opened.get_by_role("button", name="Spark’s pages")
            shown = [SparkApplication(LOCAL_SPARK, tracking_url=url, is_shared=True)]
            monkeypatch.setattr(FakeTaskBackend, "applications", lambda backend: shown)
            async with opened.context.expect_page() as coming:
                await button.click()
            pages = await coming.value
            await pages.locator("#told", has_text="an application").wait_for()
            assert await pages.title() == "isolated"
            assert await pages.locator("#told").evaluate("told => getComputedStyle(told).color") == "rgb(1, 2, 3)"
            await pages.get_by_role("link", name="Stages").click()
            await pages.wait_for_url("**/stages/")
            await pages.locator("#told", has_text="an application").wait_for()
            await go(opened, f"#/workers/{next(iter(made.rest.cluster.workers))}", "text=Slots in use")
            async with opened.context.expect_page() as coming:
                await opened.get_by_role("button", name="Spark’s pages").first.click()
            await (await coming.value).locator("#told", has_text="an application").wait_for()
            monkeypatch.setattr(FakeTaskBackend, "applications", lambda backend: [])
            await go(opened, f"#/jobs/{made.jobs[FEATURES]}", ".card.running")
            await button.click()
            await opened.locator("[role=alert]", has_text="taskmanager.spark.ui").wait_for()
            await picture(opened, f"spark-{'users' if with_users else 'anybody'}")

    do(story())
