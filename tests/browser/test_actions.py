"""What one can do on the dashboard, and that it shows by itself what others do."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any

from firesteel.core.effects import DISPATCHER
from firesteel.model.jobgraph import JobType
from tests.browser.conftest import Do
from tests.browser.pages import browser, flaws, go, page, picture
from tests.browser.site import Site, named, site, submitted
from tests.rest.test_history import cleaned_up, history, listed

NOOPS = """import firesteel as fs

pipeline = fs.Pipeline("from the browser")
pipeline.add(fs.noop("first"))
pipeline.add(fs.noop("second", inputs=["first"]))
"""
USERS = f"""users:
  - {{name: vera, roles: [view], token: v}}
  - {{name: sam, roles: [submit], token: s}}
  - {{name: olga, roles: [operate, submit], sha256: {hashlib.sha256(b"o").hexdigest()}}}
"""
FEATURES = "customer features of the last ninety days"


def test_a_job_is_cancelled(do: Do, tmp_path: Path) -> None:
    async def story() -> None:
        async with site(tmp_path) as made, browser() as started, page(started, made.address) as opened:
            await go(opened, f"#/jobs/{made.jobs[FEATURES]}", ".card.running")
            await opened.get_by_role("button", name="Cancel job").click()
            await opened.get_by_role("button", name="Leave it").click()
            assert await opened.locator("h1 + .state").inner_text() == "running"
            await opened.get_by_role("button", name="Cancel job").click()
            await opened.locator("dialog").get_by_role("button", name="Cancel job").click()
            await opened.locator("h1 + .state.cancelled").wait_for()
            assert await opened.get_by_role("button", name="Cancel job").count() == 0
            assert (await made.rest.get(f"/jobs/{made.jobs[FEATURES]}/status")) == {"status": "CANCELED"}

    do(story())


def test_a_job_is_tried_again(do: Do, tmp_path: Path) -> None:
    """Where it failed or was cancelled; the new job is shown, and what refuses it is."""

    async def story() -> None:
        async with (
            site(tmp_path) as made,
            browser() as started,
            page(started, made.address, expected=("400",)) as opened,
        ):
            failed = made.jobs["monthly totals"]
            await go(opened, f"#/jobs/{made.jobs['daily sales report']}", ".card")
            assert await opened.get_by_role("button", name="Retry job").count() == 0
            await go(opened, f"#/jobs/{failed}", ".card.failed")
            await opened.get_by_role("button", name="Retry job").click()
            await opened.locator("dialog", has_text="under a new id").wait_for()
            await picture(opened, "retry-1280-light")
            assert await flaws(opened) == []
            await opened.locator("dialog").get_by_role("button", name="Retry job").click()
            await opened.wait_for_function("id => !location.hash.includes(id)", arg=failed)
            await opened.locator("h1 + .state.waiting, h1 + .state.finished, h1 + .state.running").wait_for()
            assert await opened.locator("h1").inner_text() == "monthly totals"
            assert await opened.locator("dialog").count() == 0
            made.rest.cluster.master.dispatcher().core.jobs[made.jobs["an export that took too long"]].graph = None
            await go(opened, f"#/jobs/{made.jobs['an export that took too long']}", ".card")
            await opened.get_by_role("button", name="Retry job").click()
            await opened.locator("dialog").get_by_role("button", name="Retry job").click()
            await opened.locator("dialog .problem", has_text="not kept any more").wait_for()

    do(story())


def test_only_streams_have_savepoints(do: Do, tmp_path: Path) -> None:
    """What comes of the request is shown where it was made."""

    async def story() -> None:
        async with site(tmp_path) as made, browser() as started, page(started, made.address) as opened:
            await go(opened, f"#/jobs/{made.jobs[FEATURES]}", ".card.running")
            assert await opened.get_by_role("button", name="savepoint").count() == 0
            stream = await submitted(made, named("clicks -> rows", "clicks as they come", job_type=JobType.STREAMING))
            await go(opened, f"#/jobs/{stream}", "text=streaming")
            answer: dict[str, Any] = {"status": {"id": "COMPLETED"}, "operation": {"location": "/savepoints/one"}}
            await opened.route("**/savepoints", lambda route: route.fulfill(json={"request-id": "1"}))
            await opened.route("**/savepoints/1", lambda route: route.fulfill(json=answer))
            await opened.get_by_role("button", name="Take savepoint").click()
            await opened.locator("dialog").get_by_role("button", name="Take savepoint").click()
            await opened.locator("text=Savepoint: /savepoints/one").wait_for()
            answer["operation"] = {"failure-cause": {"stack-trace": "the disk is full\n  at"}}
            await opened.get_by_role("button", name="Take savepoint").click()
            await opened.locator("dialog").get_by_role("button", name="Take savepoint").click()
            await opened.locator("dialog .problem", has_text="the disk is full").wait_for()

    do(story())


def test_a_stream_is_drained_into_a_directory(do: Do, tmp_path: Path) -> None:
    """What is asked for is what the dialogs say; who leaves one is not looked for any more."""

    async def story() -> None:
        async with site(tmp_path) as made, browser() as started, page(started, made.address) as opened:
            stream = await submitted(made, named("clicks -> rows", "clicks as they come", job_type=JobType.STREAMING))
            await go(opened, f"#/jobs/{stream}", "text=streaming")
            bodies: list[Any] = []
            looks: list[str] = []

            async def taken(route: Any) -> None:
                bodies.append(route.request.post_data_json)
                await route.fulfill(json={"request-id": "1"})

            async def looked(route: Any) -> None:
                looks.append(route.request.url)
                await route.fulfill(json={"status": {"id": "IN_PROGRESS"}})

            for path in ("savepoints", "stop"):
                await opened.route(f"**/{path}", taken)
            await opened.route("**/savepoints/1", looked)
            dialog = opened.locator("dialog")
            await opened.get_by_role("button", name="Take savepoint").click()
            await dialog.get_by_label("Directory").fill("s3://b/one ")
            await dialog.get_by_role("button", name="Take savepoint").click()
            while not looks:
                await asyncio.sleep(0.05)
            await dialog.get_by_role("button", name="Leave it").click()
            await dialog.wait_for(state="detached")
            number = len(looks)
            await opened.wait_for_timeout(2_500)
            assert len(looks) == number
            await opened.get_by_role("button", name="Stop with savepoint").click()
            await dialog.get_by_label("Directory").fill("/savepoints")
            await dialog.get_by_label("Drain").check()
            await picture(opened, "drain-1280-light")
            assert await flaws(opened) == []
            await dialog.get_by_role("button", name="Stop with savepoint").click()
            while len(bodies) < 2:
                await asyncio.sleep(0.05)
            assert bodies == [{"target-directory": "s3://b/one"}, {"targetDirectory": "/savepoints", "drain": True}]

    do(story())


def test_a_file_is_run_from_a_savepoint_where_it_takes_long(do: Do, tmp_path: Path) -> None:
    """Also by plain HTTP, where a browser makes no ids by itself; the same run keeps its id when it is sent again."""

    async def story() -> None:
        async with site(tmp_path) as made, browser() as started, page(started, "", expected=("503",)) as opened:
            await opened.add_init_script("delete Crypto.prototype.randomUUID")
            await opened.clock.install()
            await opened.goto(f"{made.address}/#/submit")
            file = {"name": "noops.py", "mimeType": "text/x-python", "buffer": NOOPS.encode()}
            await opened.set_input_files("input[type=file]", file)
            await opened.get_by_label("Savepoint that a stream starts from").fill("/savepoints/one")
            await opened.get_by_label("Leave out state").check()
            waiting: list[Any] = []

            async def unanswered(route: Any) -> None:
                waiting.append(route)

            await opened.route("**/run", unanswered)
            for number in range(2):
                await opened.get_by_role("button", name="Submit").click()
                while len(waiting) == number:
                    await asyncio.sleep(0.05)
                await opened.clock.fast_forward(150_000)
                assert await opened.locator(".problem").count() == 0
                await opened.clock.fast_forward(31_000)
                await opened.locator(".problem", has_text="has not answered for 180 s").wait_for()
            bodies = [each.request.post_data_json for each in waiting]
            assert bodies[0] == bodies[1]
            assert len(bodies[0]["jobId"]) == 32
            assert (bodies[0]["savepointPath"], bodies[0]["allowNonRestoredState"]) == ("/savepoints/one", True)

    do(story())


def test_a_file_is_uploaded_and_run(do: Do, tmp_path: Path) -> None:
    async def story() -> None:
        options = {"taskmanager.numberOfTaskSlots": "4"}
        async with (
            site(tmp_path, options=options) as made,
            browser() as started,
            page(started, made.address, expected=("400",)) as opened,
        ):
            made.script.release("features", "hours")
            await go(opened, "#/submit", "text=Choose a file")
            file = {"name": "noops.py", "mimeType": "text/x-python", "buffer": NOOPS.encode()}
            await opened.set_input_files("input[type=file]", file)
            await opened.get_by_label("Parameters, one a line").fill("nothing=1")
            await opened.get_by_role("button", name="Submit").click()
            await opened.locator(".problem").wait_for()
            assert "nothing" in await opened.locator(".problem").inner_text()
            await opened.get_by_label("Parameters, one a line").fill("")
            await opened.get_by_role("button", name="Show its plan").click()
            await opened.locator(".plan", has_text="from the browser").wait_for()
            await opened.get_by_role("button", name="Submit").click()
            await opened.locator("h1", has_text="from the browser").wait_for()
            await opened.locator("h1 + .state.finished").wait_for()
            await go(opened, "#/submit", "text=noops.py")
            await opened.get_by_role("button", name="Delete noops.py").click()
            await opened.locator("dialog").get_by_role("button", name="Delete").click()
            await opened.locator("text=None yet.").wait_for()

    do(story())


def test_what_others_do_is_shown(do: Do, tmp_path: Path) -> None:
    """Jobs that come, run and end, workers, and another leader; nothing is clicked or loaded anew."""

    async def story() -> None:
        async with (
            site(tmp_path) as made,
            browser() as started,
            page(started, made.address, expected=("503",)) as opened,
        ):
            await opened.locator("text=backfill 1 of 4").first.wait_for()
            await made.rest.cluster.start_task_executor()
            await opened.locator(".workers .body [role=row]").nth(3).wait_for()
            made.script.release("features", "hours")
            await opened.locator(".jobs [role=row]:has-text('ninety days') .state.finished").wait_for()
            await submitted(made, named("late => later", "a late one"))
            await opened.locator(".jobs [role=row]:has-text('a late one') .state.finished").wait_for()
            await opened.locator("text=Waiting for slots").wait_for(state="detached")
            await change_leader(made, opened)
            await submitted(made, named("late => later", "one of another leader"))
            await opened.locator(".jobs [role=row]:has-text('one of another leader') .state.finished").wait_for()

    async def change_leader(made: Site, opened: Any) -> None:
        made.rest.cluster.revoke_leadership(DISPATCHER)
        await opened.locator(".live.away").wait_for()
        made.rest.cluster.grant_leadership(DISPATCHER)
        await opened.locator(".live.live").wait_for()

    do(story())


def test_who_one_is(do: Do, tmp_path: Path) -> None:
    """The page asks for a token, and offers what its holder may do."""

    async def story() -> None:
        users = tmp_path / "users.yaml"
        users.write_text(USERS)
        options, olga = {"rest.users-file": str(users)}, {"Authorization": "Bearer o"}
        async with (
            site(tmp_path, options=options, headers=olga) as made,
            browser() as started,
            page(started, made.address, expected=("401",)) as opened,
        ):
            token = opened.get_by_label("Token")
            await token.fill("wrong")
            await opened.get_by_role("button", name="Log in").click()
            await opened.locator("dialog .problem").wait_for()
            await log_in(opened, "v")
            await opened.locator(".user", has_text="vera").wait_for()
            await go(opened, f"#/jobs/{made.jobs[FEATURES]}", ".card.running")
            assert await opened.get_by_role("button", name="Cancel job").count() == 0
            await go(opened, f"#/jobs/{made.jobs[FEATURES]}/output", "text=for olga, who submitted it")
            await go(opened, "#/submit", "text=takes the role")
            await opened.get_by_role("button", name="Log out").click()
            await log_in(opened, "o")
            await go(opened, f"#/jobs/{made.jobs[FEATURES]}", ".card.running")
            await opened.get_by_role("button", name="Cancel job").wait_for()

    async def log_in(opened: Any, token: str) -> None:
        await opened.get_by_label("Token").fill(token)
        await opened.get_by_role("button", name="Log in").click()
        await opened.locator("dialog").wait_for(state="detached")

    do(story())


def test_without_a_mouse(do: Do, tmp_path: Path) -> None:
    """Search, filters, rows, tabs and dialogs by keys alone; and the theme stays as it was chosen."""

    async def story() -> None:
        async with site(tmp_path) as made, browser() as started, page(started, made.address) as opened:
            keys = opened.keyboard
            await opened.locator("text=daily sales report").wait_for()
            await keys.press("/")
            await keys.type("ninety")
            await opened.locator(".jobs .body [role=row]").nth(1).wait_for(state="detached")
            while await opened.evaluate("document.activeElement.textContent") != FEATURES:
                await keys.press("Tab")
            await keys.press("Enter")
            await opened.locator("h1", has_text=FEATURES).wait_for()
            while await opened.evaluate("document.activeElement.textContent") != "Cancel job":
                await keys.press("Tab")
            await keys.press("Enter")
            await opened.locator("dialog[open]").wait_for()
            await keys.press("Escape")
            await opened.locator("dialog").wait_for(state="detached")
            theme = opened.get_by_role("button", name="Theme")
            await theme.press("Enter")
            await theme.press("Enter")
            assert await opened.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(19, 20, 22)"
            await opened.reload()
            await opened.locator("h1", has_text=FEATURES).wait_for()
            assert await opened.evaluate("document.documentElement.dataset.theme") == "dark"

    do(story())


def test_an_archive_is_shown_by_the_same_page(do: Do, tmp_path: Path) -> None:
    """Jobs that have ended, of a cluster that is gone; what would change something is not offered."""

    async def story() -> None:
        archive = tmp_path / "archive"
        async with site(tmp_path, options={"jobmanager.archive.fs.dir": str(archive)}) as made:
            sales = made.jobs["daily sales report"]
            await cleaned_up(archive, sales)
        async with (
            history(archive) as http,
            browser() as started,
            page(started, str(http.base_url).rstrip("/"), expected=("405",)) as opened,
        ):
            await listed(http, 1)
            await opened.locator(".live.still").wait_for()
            await opened.reload()
            await opened.locator("text=daily sales report").wait_for()
            assert await opened.locator("nav a", has_text="Submit").count() == 0
            assert await flaws(opened) == []
            for tab, sight in (
                ("", ".card:has-text('archive')"),
                ("/timeline", "text=totals"),
                ("/results", "text=88,123"),
            ):
                await go(opened, f"#/jobs/{sales}{tab}", sight)

    do(story())
