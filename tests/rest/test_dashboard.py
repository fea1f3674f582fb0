"""The files of the dashboard as they are served; what they show is tried in a browser (`make test-browser`)."""

import hashlib
import re
from pathlib import Path

from firesteel.rest.dashboardfiles import DIRECTORY, dashboard_files
from firesteel.testing.backend import TaskScript
from tests.rest.cluster import graph, rest_cluster
from tests.rest.conftest import Do
from tests.rest.test_security import USERS, bearer
from tools.dashboard_libraries import LIBRARIES, LIST, VENDOR, listing

FIRST_VIEW_BYTES_MAX = 300_000


def test_the_page_and_its_files(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            page = await rest.http.get("/")
            assert page.headers["content-type"] == "text/html; charset=UTF-8"
            policy = page.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "script-src 'self';" in policy
            assert "unsafe" not in policy
            assert not re.search(r"<script(?![^>]* src=)|<style| style=| on\w+=", page.text), "what the policy refuses"
            for path in re.findall(r'(?:src|href)="(dashboard/[^"]+)"', page.text):
                assert (await rest.http.get(f"/{path}")).status_code == 200, path
            for path in ("/dashboard/", "/dashboard/README.md", "/dashboard/nothing.js", "/dashboard/../app.py"):
                assert (await rest.http.get(path)).status_code == 404, path

    do(story())


def test_who_has_a_file_is_not_sent_it_again(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            plain = await rest.http.get("/dashboard/app.js", headers={"Accept-Encoding": "identity"})
            assert "content-encoding" not in plain.headers
            small = await rest.http.get("/dashboard/app.js", headers={"Accept-Encoding": "gzip, br"})
            assert small.headers["content-encoding"] == "gzip"
            assert int(small.headers["content-length"]) < int(plain.headers["content-length"]) / 2
            assert small.text == plain.text == (DIRECTORY / "app.js").read_text()
            refused = await rest.http.get("/dashboard/app.js", headers={"Accept-Encoding": "gzip;q=0"})
            assert "content-encoding" not in refused.headers
            for tag in (plain.headers["etag"], f'"other", W/{plain.headers["etag"]}'):
                known = await rest.http.get("/dashboard/app.js", headers={"If-None-Match": tag})
                assert (known.status_code, known.content) == (304, b"")
            other = await rest.http.get("/dashboard/app.js", headers={"If-None-Match": '"other"'})
            assert other.status_code == 200

    do(story())


def test_the_first_view_is_small() -> None:
    """All that the page can load, as it travels."""
    sizes = [len(file.compressed or file.content) for path, file in dashboard_files().items() if "LICENSE" not in path]
    assert sum(sizes) < FIRST_VIEW_BYTES_MAX / 3


def test_nothing_comes_from_elsewhere() -> None:
    for file in DIRECTORY.glob("*.*"):
        found = re.findall(r"https?://(?!www\.w3\.org/)[\w.]+", file.read_text())
        assert not found, file


def test_libraries_are_what_the_list_says() -> None:
    assert LIST.read_text() == listing()
    listed = {target for library in LIBRARIES for _, target in library.files}
    assert {file.name for file in VENDOR.iterdir()} == {*listed, LIST.name}
    assert all(any("LICENSE" in target for _, target in library.files) for library in LIBRARIES)
    assert hashlib.sha256((VENDOR / "preact.js").read_bytes()).hexdigest() in LIST.read_text()


def test_who_asks(do: Do, script: TaskScript, tmp_path: Path) -> None:
    """The page is for anybody, what it shows is not."""

    async def story() -> None:
        users = tmp_path / "users.yaml"
        users.write_text(USERS)
        async with rest_cluster(tmp_path, script=script) as rest:
            assert await rest.get("/user") == {"name": "", "roles": ["operate", "submit", "view"], "needs-token": False}
        async with rest_cluster(tmp_path, script=script, options={"rest.users-file": str(users)}) as rest:
            assert (await rest.http.get("/")).status_code == 200
            for path in ("/events", "/user", "/queue", f"/jobs/{'0' * 32}/attempts"):
                assert (await rest.http.get(path)).status_code == 401, path
            answer = (await rest.http.get("/user", headers=bearer("s-token"))).json()
            assert answer == {"name": "sam", "roles": ["submit"], "needs-token": True}

    do(story())


def test_large_answers_are_compressed_for_who_takes_that(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            for number in range(120):
                await rest.submit(graph("lines", f"job {number}"))
            sizes = {}
            for way in ("gzip", "identity", "gzip;q=0"):
                async with rest.http.stream("GET", "/jobs/overview", headers={"Accept-Encoding": way}) as answer:
                    sizes[way] = len(b"".join([part async for part in answer.aiter_raw()]))
                    assert sizes[way] == int(answer.headers["content-length"])
                    assert ("content-encoding" in answer.headers) == (way == "gzip")
            assert sizes["gzip"] < sizes["identity"] / 5
            assert len((await rest.get("/jobs/overview"))["jobs"]) == 120
            assert "content-encoding" not in (await rest.http.get("/overview")).headers

    do(story())


def test_attempts_as_rows(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        script.fail("words")
        options = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "10 ms"}
        async with rest_cluster(tmp_path, script=script, options=options) as rest:
            job = graph("lines => words*2 -> counts*2", "again")
            await rest.submit(job)
            await rest.finish(job.job_id)
            found = await rest.get(f"/jobs/{job.job_id}/attempts")
            assert found["vertices"] == [vertex.id for vertex in job.vertices]
            assert not found["truncated"]
            rows = found["attempts"]
            assert [row[:3] for row in rows if row[3] == "FAILED"] == [[1, 0, 0], [2, 0, 0]] or len(rows) == 7
            assert {row[3] for row in rows} == {"FINISHED", "FAILED"}
            assert all(row[4] in rest.cluster.workers and 0 < row[5] <= row[7] for row in rows)
            of_one = await rest.get(f"/jobs/{job.job_id}/attempts?vertex={job.vertices[1].id}")
            assert of_one["attempts"] == [row for row in rows if row[0] == 1]

    do(story())
