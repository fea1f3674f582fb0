"""What a script prints: all of it, as it comes, of each attempt."""

from pathlib import Path
from typing import Any

import msgspec

from firesteel.model.jobgraph import FunctionKind, JobGraph
from firesteel.testing.backend import TaskScript
from tests.browser.conftest import Do
from tests.browser.pages import browser, flaws, go, overflow, page, picture
from tests.rest.cluster import artifact, graph, rest_cluster, submission

AGAIN = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "10 ms"}
CODE = b"print()"
LINE = "zwölf Äpfel\n"
LARGE = 60_000
"""Lines that are more than an answer has, and more than the page shows."""


def scripted(name: str) -> JobGraph:
    made = graph("work", name)
    (vertex,) = made.vertices
    functions = tuple(msgspec.structs.replace(each, kind=FunctionKind.SCRIPT) for each in vertex.functions)
    alone = msgspec.structs.replace(vertex, functions=functions)
    return msgspec.structs.replace(made, vertices=(alone,), artifacts=(artifact(CODE, kind="code"),))


def test_output_of_a_script(do: Do, tmp_path: Path, script: TaskScript) -> None:
    async def story() -> None:
        script.fail("work")
        script.hold("work")
        async with rest_cluster(tmp_path, script=script, options=AGAIN) as rest, browser() as started:
            job = scripted("a script")
            outputs = rest.cluster.master.uploads.outputs
            await outputs.append(job.job_id, "0.stdout", 0, b"of the first attempt\n")
            answer = await rest.http.post("/v1/jobs", files=submission(job, {"code.zip": CODE}))
            assert answer.status_code == 202, answer.text
            await script.until_running("work")
            script.release("work")
            script.hold("work")
            while (await rest.get(f"/jobs/{job.job_id}/view"))["vertices"][0]["attempts"] < 2:
                pass
            async with page(started, rest.server.address) as opened:
                await go(opened, f"#/jobs/{job.job_id}/output", "text=Nothing is in it.")
                first = b"begun: " + LINE.encode()
                await outputs.append(job.job_id, "1.stdout", 0, first[:9])  # within a letter
                await opened.locator(".log", has_text="begun: z").wait_for()
                await outputs.append(job.job_id, "1.stdout", 9, first[9:])
                await opened.locator(".log", has_text="begun: zwölf Äpfel").wait_for()
                await outputs.append(job.job_id, "1.stdout", len(first), LINE.encode() * LARGE + b"at last\n")
                await opened.locator(".log", has_text="at last").wait_for()
                text: Any = await opened.locator(".log").inner_text()
                assert "\ufffd" not in text
                await opened.locator("text=the last part of").wait_for()
                await opened.locator(".choice select").select_option("0")
                await opened.locator(".log", has_text="of the first attempt").wait_for()
                await opened.get_by_role("button", name="stderr").click()
                await opened.locator(".log", has_text="Nothing is in it.").wait_for()
                await opened.get_by_role("button", name="stdout").click()
                await picture(opened, "script-1280-light")
                assert await flaws(opened) == []
            script.release("work")
            await rest.finish(job.job_id)
            async with page(started, rest.server.address, width=390, theme="dark") as opened:
                await go(opened, f"#/jobs/{job.job_id}/output", "text=at last")
                await picture(opened, "script-390-dark")
                assert (await flaws(opened), await overflow(opened)) == ([], 0)

    do(story())
