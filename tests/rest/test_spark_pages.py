"""Spark's own pages of a job: read from its worker, for who may look at the job."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from firesteel.model.inquiries import SPARK_PAGE_BYTES_MAX
from firesteel.model.resources import LOCAL_SPARK, SparkApplication
from firesteel.rest import tickets
from firesteel.rest.security import ANYBODY
from firesteel.testing.backend import FakeTaskBackend, TaskScript
from tests.rest.cluster import RestCluster, graph, rest_cluster, submission
from tests.rest.conftest import Do

JOB = graph("a", "job")
BASE = f"/v1/jobs/{JOB.job_id}/spark"


@contextlib.asynccontextmanager
async def pages(asked: list[str]) -> AsyncIterator[str]:
    """A Spark that says what it was asked."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append(head)
        target = head.split()[1]
        answers = {
            "/": b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/jobs/?a=b\r\nSet-Cookie: x=y\r\n\r\n",
            "/huge": b"HTTP/1.1 200 OK\r\n\r\n" + bytes(SPARK_PAGE_BYTES_MAX + 1),
            "/cut": b"",
        }
        page = (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html;charset=utf-8\r\nConnection: close\r\n\r\n<p>"
            + target.encode()
        )
        writer.write(answers.get(target, page))
        with contextlib.suppress(ConnectionError):  # who was told too much has gone
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def test_pages_of_what_a_job_runs_in(
    do: Do, script: TaskScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        asked: list[str] = []
        async with pages(asked) as url, rest_cluster(tmp_path, script=script) as rest:
            nobody = await rest.http.get(f"{BASE}/jobs/")
            assert (nobody.status_code, "Job could not be found" in nobody.text) == (404, True)
            script.hold("a")
            await rest.submit(JOB)
            await script.until_running("a")
            off = await rest.http.get(f"{BASE}/jobs/")
            assert (off.status_code, "taskmanager.spark.ui" in off.text) == (404, True)

            shown = (
                SparkApplication(LOCAL_SPARK, tracking_url="http://127.0.0.1:1"),
                SparkApplication(LOCAL_SPARK, tracking_url=url, jobs=(JOB.job_id,)),
            )
            monkeypatch.setattr(FakeTaskBackend, "applications", lambda backend: shown)
            first = await rest.http.get(f"{BASE}/", headers={"Authorization": "Bearer secret"})
            assert (first.status_code, first.headers["location"]) == (302, f"{BASE}/jobs/?a=b")
            assert "set-cookie" not in first.headers
            told = asked[-1].lower()
            assert f"x-forwarded-context: {BASE}" in told
            assert "secret" not in told
            page = await rest.http.get(f"{BASE}/stages/stage/?id=1&attempt=0")
            assert (page.status_code, page.text) == (200, "<p>/stages/stage/?id=1&attempt=0")
            assert page.headers["content-type"] == "text/html;charset=utf-8"
            assert page.headers["content-security-policy"].startswith("sandbox")
            for target, words in (("huge", "larger than 8 MiB"), ("cut", "Spark does not answer at http://127.0.0.1:")):
                refused = await rest.http.get(f"{BASE}/{target}")
                assert (refused.status_code, words in refused.text) == (503, True), refused.text
            assert (await rest.http.post(f"{BASE}/jobs/job/kill/?id=1")).status_code == 405
            script.release("a")
            await rest.finish(JOB.job_id)
            while (gone := await rest.http.get(f"{BASE}/jobs/")).status_code != 404:
                await asyncio.sleep(0.05)
            assert "taskmanager.spark.event-log.dir" in gone.text

    do(story())


USERS = """
users:
  - {name: vera, roles: [view], token: vera}
  - {name: sam, roles: [submit], token: sam}
  - {name: olga, roles: [operate], token: olga}
"""


async def status(rest: RestCluster, who: str = "") -> int:
    answer = await rest.http.get(f"{BASE}/jobs/", headers={"Authorization": f"Bearer {who}"} if who else {})
    return answer.status_code


def test_pages_are_for_the_jobs_owner_and_shared_ones_for_who_operates(
    do: Do, script: TaskScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        users = tmp_path / "users.yaml"
        users.write_text(USERS)
        with_users = rest_cluster(tmp_path, script=script, options={"rest.users-file": str(users)})
        async with pages([]) as url, with_users as rest:
            script.hold("a")
            sam = {"Authorization": "Bearer sam"}
            assert (await rest.http.post("/jobs", headers=sam, files=submission(JOB))).status_code == 202
            await script.until_running("a")
            own = SparkApplication(LOCAL_SPARK, tracking_url=url, jobs=(JOB.job_id,))
            monkeypatch.setattr(FakeTaskBackend, "applications", lambda backend: [own])
            assert [await status(rest, who) for who in ("vera", "sam", "olga")] == [403, 200, 200]
            shared = SparkApplication(LOCAL_SPARK, tracking_url=url, jobs=(JOB.job_id,), is_shared=True)
            monkeypatch.setattr(FakeTaskBackend, "applications", lambda backend: [shared])
            assert [await status(rest, who) for who in ("vera", "sam", "olga")] == [403, 403, 200]
            refused = await rest.http.get(f"{BASE}/jobs/", headers=sam)
            assert "taskmanager.spark.isolation" in refused.text
            script.release("a")

    do(story())


def test_pages_of_any_worker_that_has_some(
    do: Do, script: TaskScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        one_each = rest_cluster(tmp_path, script=script, workers=2, options={"taskmanager.numberOfTaskSlots": "1"})
        async with pages([]) as url, one_each as rest:
            script.hold("a")
            await rest.submit(graph("a*2", "job"))
            await script.until_running("a", 2)
            shared = SparkApplication(LOCAL_SPARK, tracking_url=url, is_shared=True)
            for chosen in rest.cluster.workers:
                monkeypatch.setattr(
                    FakeTaskBackend,
                    "applications",
                    lambda backend, chosen=chosen: [shared] if backend.worker == chosen else [],
                )
                assert await status(rest) == 200
            monkeypatch.setattr(FakeTaskBackend, "applications", lambda backend: [])
            assert await status(rest) == 404
            monkeypatch.setattr(FakeTaskBackend, "applications", lambda backend: [shared])
            killing = await rest.http.get(f"{BASE}/jobs/job/kill/?id=1")
            assert (killing.status_code, "nothing is killed" in killing.text) == (403, True)
            script.release("a")

    do(story())


def test_an_address_that_a_browser_can_open(
    do: Do, script: TaskScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has it sees what its owner may see, from a page of no origin too, as long as it is good."""

    async def story() -> None:
        users = tmp_path / "users.yaml"
        users.write_text(USERS)
        asked: list[str] = []
        with_users = rest_cluster(tmp_path, script=script, options={"rest.users-file": str(users)})
        async with pages(asked) as url, with_users as rest:
            script.hold("a")
            sam, vera = ({"Authorization": f"Bearer {name}"} for name in ("sam", "vera"))
            assert (await rest.http.post("/jobs", headers=sam, files=submission(JOB))).status_code == 202
            await script.until_running("a")
            own = SparkApplication(LOCAL_SPARK, tracking_url=url, jobs=(JOB.job_id,))
            monkeypatch.setattr(FakeTaskBackend, "applications", lambda backend: [own])
            wanted = f"/jobs/{JOB.job_id}/spark-ticket"
            assert [(await rest.http.post(wanted, headers=who)).status_code for who in ({}, vera, sam)] == [
                401,
                403,
                200,
            ]
            path = (await rest.http.post(wanted, headers=sam)).json()["path"]
            isolated = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors", "Origin": "null"}
            for target, headers in (("jobs/", {}), ("static/a.css", isolated), ("api/v1/applications", isolated)):
                page = await rest.http.get(f"{path}{target}", headers=headers)
                assert (page.status_code, page.text) == (200, f"<p>/{target}")
                assert page.headers["access-control-allow-origin"] == "*"
                assert page.headers["content-security-policy"].startswith("sandbox")
            assert f"X-Forwarded-Context: {path.rstrip('/')}\r\n" in asked[-1]
            preflight = await rest.http.options(f"{path}api/v1/applications", headers=isolated)
            assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (204, "*")
            shared = SparkApplication(LOCAL_SPARK, tracking_url=url, is_shared=True)
            monkeypatch.setattr(FakeTaskBackend, "applications", lambda backend: [shared])
            assert (await rest.http.get(f"{path}jobs/")).status_code == 403
            monkeypatch.setattr(FakeTaskBackend, "applications", lambda backend: [own])
            assert (await rest.http.get("/v1/spark/nonsense/jobs/")).status_code == 403
            monkeypatch.setattr(tickets, "VALID_MS", -1)
            late = (await rest.http.post(wanted, headers=sam)).json()["path"]
            assert (await rest.http.get(f"{late}jobs/")).status_code == 403
            script.release("a")

    do(story())


def test_tickets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tickets, "TICKETS_MAX", 2)
    known = tickets.Tickets()
    names = [known.issue(JOB.job_id, ANYBODY, now_ms=0) for _ in range(3)]
    assert [known.find(name, 0) is not None for name in names] == [False, True, True]
