"""What is read while it changes: an answer may be older than the events that come before it, and none of these is lost."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from firesteel.core.effects import DISPATCHER
from firesteel.testing.backend import TaskScript
from tests.browser.conftest import Do
from tests.browser.pages import WAIT_MS, browser, page
from tests.rest.cluster import graph, rest_cluster

SEEN = """() => {
  window.seen = [];
  return import("/dashboard/live.js").then(({ listen }) => listen((events) => window.seen.push(...events)));
}"""


HAS = """([kind, fields]) => window.seen.some((event) => event.kind === kind
  && Object.entries(fields).every(([name, value]) => event.data[name] === value))"""


@contextlib.asynccontextmanager
async def answered_late(opened: Any, pattern: str, answers: int = 1) -> AsyncIterator[list[asyncio.Event]]:
    """The first answers are what the master says when it is asked, and each comes when its event is set."""
    asked, sent = [asyncio.Event() for _ in range(answers)], [asyncio.Event() for _ in range(answers)]
    left = list(zip(asked, sent, strict=True))

    async def hold(route: Any) -> None:
        if not left:
            await route.continue_()
            return
        was_asked, may_come = left.pop(0)
        answer = await route.fetch()
        was_asked.set()
        await may_come.wait()
        await route.fulfill(response=answer)

    await opened.route(pattern, hold)
    try:
        yield [each for pair in zip(asked, sent, strict=True) for each in pair]
    finally:
        for each in sent:
            each.set()
        await opened.unroute_all(behavior="wait")


async def told(opened: Any, kind: str, **fields: Any) -> None:
    """Until the page has had an event of this kind that says this."""
    async with asyncio.timeout(WAIT_MS / 1_000):
        while not await opened.evaluate(HAS, [kind, fields]):
            await asyncio.sleep(0.05)


def row(opened: Any, name: str, state: str) -> Any:
    return opened.locator(f".jobs [role=row]:has-text('{name}') .state.{state}")


def test_jobs_that_change_while_they_are_read(do: Do, tmp_path: Path, script: TaskScript) -> None:
    async def story() -> None:
        script.hold("lines")
        async with rest_cluster(tmp_path, script=script) as rest, browser() as started, page(started, "") as opened:
            held = graph("lines", "the held one")
            await rest.submit(held)
            await script.until_running("lines")
            async with answered_late(opened, "**/jobs/overview") as (asked, sent):
                await opened.goto(rest.server.address)
                await opened.evaluate(SEEN)
                await asked.wait()
                script.release("lines")
                await rest.submit(graph("others", "the late one"))
                for name in ("the held one", "the late one"):
                    await told(opened, "job", name=name, state="FINISHED")
                sent.set()
                for name in ("the held one", "the late one"):
                    await row(opened, name, "finished").wait_for()

    do(story())


def test_an_older_answer_that_comes_later(do: Do, tmp_path: Path, script: TaskScript) -> None:
    async def story() -> None:
        async with (
            rest_cluster(tmp_path, script=script) as rest,
            browser() as started,
            page(started, "", expected=("503",)) as opened,
            answered_late(opened, "**/jobs/overview", 2) as (asked, sent, asked_again, sent_again),
        ):
            await opened.goto(rest.server.address)
            await opened.evaluate(SEEN)
            await asked.wait()
            await rest.submit(graph("others", "the late one"))
            await told(opened, "job", name="the late one", state="FINISHED")
            rest.cluster.revoke_leadership(DISPATCHER)
            await opened.locator(".live.away").wait_for()
            rest.cluster.grant_leadership(DISPATCHER)
            await asked_again.wait()
            sent_again.set()
            await row(opened, "the late one", "finished").wait_for()
            sent.set()
            await opened.wait_for_timeout(500)
            assert await row(opened, "the late one", "finished").count() == 1

    do(story())


def test_slots_that_are_taken_while_workers_are_read(do: Do, tmp_path: Path, script: TaskScript) -> None:
    async def story() -> None:
        script.hold("lines")
        async with rest_cluster(tmp_path, script=script) as rest, browser() as started, page(started, "") as opened:
            async with (
                answered_late(opened, "**/taskmanagers") as (asked, sent),
                answered_late(opened, "**/queue") as (queue_asked, queue_sent),
            ):
                await opened.goto(rest.server.address)
                await opened.evaluate(SEEN)
                await asked.wait()
                await queue_asked.wait()
                await rest.submit(graph("lines*2", "takes both"))
                await script.until_running("lines", 2)
                await rest.submit(graph("lines*2", "waits for them"))
                await told(opened, "workers", **{"slots-available": 0})
                await told(opened, "queue", waiting=1)
                sent.set()
                queue_sent.set()
                await opened.locator(".workers .body", has_text="2/2").wait_for()
                await opened.locator("text=Waiting for slots").wait_for()
                assert "2 of 2" in await opened.locator(".summary").inner_text()
            script.release("lines")

    do(story())


def test_an_answer_that_never_comes(do: Do, tmp_path: Path, script: TaskScript) -> None:
    """It is said, and asked for again."""

    async def story() -> None:
        async with (
            rest_cluster(tmp_path, script=script) as rest,
            browser() as started,
            page(started, "") as opened,
        ):
            await opened.clock.install()
            await opened.route("**/v1/taskmanagers", lambda route: None, times=1)
            await opened.route("**/v1/jobs/overview", lambda route: None, times=1)
            await opened.goto(rest.server.address)
            await opened.locator(".live.live").wait_for()
            await rest.submit(graph("others", "the late one"))
            await opened.clock.fast_forward(61_000)
            await opened.locator("text=The master has not answered for 60 s.").first.wait_for()
            await opened.clock.fast_forward(11_000)
            await opened.locator(".workers .body [role=row]").wait_for()
            await row(opened, "the late one", "finished").wait_for()
            assert await opened.locator(".problem").count() == 0

    do(story())


def test_a_stream_that_is_silent(do: Do, tmp_path: Path, script: TaskScript) -> None:
    """It has a sign of life every 15 s: without, it is begun anew."""

    async def story() -> None:
        async with (
            rest_cluster(tmp_path, script=script) as rest,
            browser() as started,
            page(started, "") as opened,
        ):
            await opened.clock.install()
            await opened.goto(rest.server.address)
            await opened.locator(".live.live").wait_for()
            for number in range(2):
                await opened.clock.fast_forward(35_000)
                await rest.submit(graph("others", f"job {number}"))
                await row(opened, f"job {number}", "finished").wait_for()
            assert await opened.locator(".live.live").count() == 1
            await opened.clock.fast_forward(41_000)
            await opened.locator(".live.away").wait_for()
            await rest.submit(graph("others", "in between"))
            await opened.clock.fast_forward(20_000)
            await row(opened, "in between", "finished").wait_for()
            await opened.locator(".live.live").wait_for()

    do(story())
