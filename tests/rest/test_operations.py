"""Cancelling, savepoints and checkpoints of batch jobs, completion without asking again and again."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from firesteel.adapters.ha.embedded import InMemoryJobStore
from firesteel.client.http import HttpClusterClient
from firesteel.model.ids import JobID
from firesteel.model.refusals import CancelRefused
from firesteel.model.states import JobStatus
from firesteel.model.tasks import SinkCommit
from firesteel.rest.handlers import operations
from firesteel.rest.operations import JOBS_BETWEEN_SWEEPS, OPERATIONS_PER_JOB_MAX, Operations
from firesteel.testing.backend import TaskScript
from tests.rest.cluster import graph, rest_cluster
from tests.rest.conftest import Do

HELD = graph("lines", "held")


def test_cancelling(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        script.hold("lines")
        async with rest_cluster(tmp_path, script=script) as rest:
            await rest.submit(HELD)
            await script.until_running("lines")
            wrong = await rest.http.patch(f"/v1/jobs/{HELD.job_id}?mode=stop", json={})
            assert wrong.status_code == 400
            answer = await rest.http.request("PATCH", f"/v1/jobs/{HELD.job_id}?mode=cancel", json={})
            assert (answer.status_code, answer.json()) == (202, {})
            assert (await rest.finish(HELD.job_id))["application-status"] == "CANCELED"
            again = await rest.http.get(f"/jobs/{HELD.job_id}/yarn-cancel")
            assert (again.status_code, again.json()) == (202, {})
            done = graph("other", "done")
            await rest.submit(done)
            await rest.finish(done.job_id)
            late = await rest.http.patch(f"/jobs/{done.job_id}")
            assert late.status_code == 409
            assert "FINISHED" in late.json()["errors"][0]
            assert (await rest.http.patch(f"/jobs/{'0' * 32}")).status_code == 404
            assert (await rest.http.delete("/cluster")).json() == {}
            assert rest.shut_downs == ["now"]

    do(story())


def test_a_cancellation_that_can_not_be_made_safe_is_told(
    do: Do, script: TaskScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk of its journal is full: who asks does not wait until there is room, and is told why."""
    monkeypatch.setattr(operations, "CANCEL_PATIENCE_S", 0.1)
    append, errors = InMemoryJobStore.append, [OSError("no space left on device")]

    async def fails(store: InMemoryJobStore, *record: Any) -> None:
        if errors:
            raise errors[0]
        await append(store, *record)

    monkeypatch.setattr(InMemoryJobStore, "append", fails)

    async def story() -> None:
        async with rest_cluster(tmp_path, script=script) as rest:
            await rest.submit(HELD)
            told = ""
            async with asyncio.timeout(10):
                while "can't be led here" not in told:  # at first it only waits for a slot
                    answer = await rest.http.patch(f"/v1/jobs/{HELD.job_id}?mode=cancel", json={})
                    assert answer.status_code == 500
                    told = answer.json()["errors"][0]
            assert "can't make that safe yet (the job can't be led here (no space left" in told
            errors.clear()
            assert (await rest.finish(HELD.job_id))["application-status"] == "CANCELED", "it was not forgotten"

    do(story())


def test_a_job_that_commits_is_not_cancelled(
    do: Do, script: TaskScript, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks is told at once; the job goes on."""

    async def story() -> None:
        job, committing = graph("lines => result", "committing"), asyncio.Event()

        def first_refused(_: TaskScript, commit: SinkCommit) -> bool:
            is_first = not committing.is_set()
            committing.set()
            return is_first

        monkeypatch.setattr(TaskScript, "refuses", first_refused)
        async with rest_cluster(tmp_path, script=script) as rest:
            await rest.submit(job)
            await committing.wait()
            answer = await rest.http.patch(f"/v1/jobs/{job.job_id}?mode=cancel", json={})
            assert answer.status_code == 409
            assert "making its outputs visible: it can't be cancelled any more" in answer.json()["errors"][0]
            assert (await rest.http.get(f"/v1/jobs/{job.job_id}")).json()["state"] == "RUNNING", "it was not waited for"
            assert (await rest.finish(job.job_id))["application-status"] == "SUCCEEDED"
            async with HttpClusterClient([rest.server.address]) as client:
                with pytest.raises(CancelRefused):
                    await client.cancel_job(job.job_id)

    do(story())


def test_a_batch_job_has_no_checkpoints(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        script.hold("lines")
        async with rest_cluster(tmp_path, script=script) as rest:
            await rest.submit(HELD)
            await script.until_running("lines")
            job = f"/v1/jobs/{HELD.job_id}"
            chosen = "ab" * 16
            for path, body, read, field in (
                (
                    "savepoints",
                    {"target-directory": "/x", "cancel-job": False, "triggerId": None},
                    "savepoints",
                    "failure-cause",
                ),
                ("savepoints", {"target-directory": None, "triggerId": chosen}, "savepoints", "failure-cause"),
                (
                    "stop",
                    {"targetDirectory": None, "drain": True, "formatType": "CANONICAL"},
                    "savepoints",
                    "failure-cause",
                ),
                ("checkpoints", {"checkpointType": "FULL", "triggerId": None}, "checkpoints", "failureCause"),
            ):
                for _ in range(2):
                    trigger = await rest.http.post(f"{job}/{path}", json=body)
                    assert trigger.status_code == 202, trigger.text
                    request_id = trigger.json()["request-id"]
                    assert body.get("triggerId") in (None, request_id)
                    answer = await rest.get(f"{job}/{read}/{request_id}")
                    assert answer["status"]["id"] == "COMPLETED"
                    cause = answer["operation"][field]
                    assert "is a batch job: it has no checkpoints" in cause["stack-trace"]
                    assert base64.b64decode(cause["serialized-throwable"]).startswith(b"\xac\xed\x00\x05")
            disposal = await rest.http.post("/v1/savepoint-disposal", json={"savepoint-path": "/x"})
            assert disposal.status_code == 200
            path = f"/v1/savepoint-disposal/{disposal.json()['request-id']}"
            while (answer := await rest.get(path))["status"]["id"] == "IN_PROGRESS":
                await asyncio.sleep(0.01)
            assert "/x is no savepoint of firesteel" in answer["operation"]["failure-cause"]["stack-trace"]
            for path, content in (
                ("savepoints", b"{"),
                ("savepoints", b'{"formatType": "canonical"}'),
                ("savepoints", b'{"cancel-job": null}'),
                ("savepoints", b'{"triggerId": "../.."}'),
                ("stop", b"[]"),
                ("checkpoints", b'{"checkpointType": 1}'),
                ("checkpoints", b" " * (2 << 20)),
            ):
                answer = await rest.http.post(f"{job}/{path}", content=content)
                assert answer.status_code in (400, 413), (path, content[:40], answer.text)
                assert list(answer.json()) == ["errors"]
            upload = await rest.http.post(f"{job}/stop", files={"x": b"x"})
            assert upload.json() == {"errors": ["File uploads not allowed."]}

    do(story())


def test_operations_are_known_as_long_as_their_job(do: Do, script: TaskScript, tmp_path: Path) -> None:
    async def story() -> None:
        first, second = graph("lines", "first"), graph("lines", "second")
        async with rest_cluster(tmp_path, script=script, options={"jobstore.max-capacity": "1"}) as rest:
            await rest.submit(first)
            await rest.finish(first.job_id)
            trigger = await rest.http.post(f"/v1/jobs/{first.job_id}/savepoints", json={})
            path = f"/v1/jobs/{first.job_id}/savepoints/{trigger.json()['request-id']}"
            cause = (await rest.get(path))["operation"]["failure-cause"]["stack-trace"]
            assert "has ended: it is FINISHED" in cause
            await rest.submit(second)
            await rest.finish(second.job_id)
            while (answer := await rest.http.get(path)).status_code == 200:
                await asyncio.sleep(0.01)
            assert answer.status_code == 404
            assert f"no job {first.job_id} is known" in answer.json()["errors"][0]

    do(story())


def test_operations_of_forgotten_jobs_go(do: Do) -> None:
    async def nothing() -> str:
        return "done"

    async def story() -> None:
        operations = Operations()
        jobs = [JobID(f"job {index}") for index in range(JOBS_BETWEEN_SWEEPS + 1)]
        for job_id in (None, *jobs):
            operations.start(job_id, ("savepoint", "a"), nothing)
        assert operations.needs_sweep()
        operations.keep(jobs[:2])
        assert not operations.needs_sweep()
        assert all(operations.find(job_id, ("savepoint", "a")) for job_id in (None, *jobs[:2]))
        assert operations.find(jobs[2], ("savepoint", "a")) is None
        await asyncio.sleep(0)
        for index in range(OPERATIONS_PER_JOB_MAX):
            operations.start(jobs[0], ("savepoint", f"b{index}"), nothing)
        assert operations.find(jobs[0], ("savepoint", "a")) is None
        assert operations.find(jobs[0], ("savepoint", "b0")) is not None
        await operations.close()

    do(story())


def test_completion_is_told(do: Do, script: TaskScript, tmp_path: Path) -> None:
    """A long poll comes back when the job ends, a stream tells each change, and neither outlives the endpoint."""

    async def story() -> None:
        script.hold("lines")
        async with rest_cluster(tmp_path, script=script) as rest:
            await rest.submit(HELD)
            await script.until_running("lines")
            path = f"/v1/jobs/{HELD.job_id}/execution-result"
            assert await rest.get(path) == {"status": {"id": "IN_PROGRESS"}}
            assert await rest.get(f"{path}?wait=50") == {"status": {"id": "IN_PROGRESS"}}
            async with asyncio.TaskGroup() as group:
                waiting = group.create_task(rest.get(f"{path}?wait=30 s"))
                told = asyncio.Event()
                stream = group.create_task(events_of(rest.http, HELD.job_id, told))
                await told.wait()
                script.release("lines")
            assert waiting.result()["result"]["status"] == "FINISHED"
            names, views = [name for name, _ in stream.result()], [data for _, data in stream.result()]
            assert names == ["job"] * (len(names) - 1) + ["result"]
            assert views[0]["status"] == "RUNNING"
            assert views[-2]["status"] == views[-1]["status"] == "FINISHED"

    do(story())


def test_stopping_answers_those_who_wait(
    do: Do, script: TaskScript, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is cut off, which would be an error to look at."""

    async def story() -> None:
        script.hold("lines")
        async with rest_cluster(tmp_path, script=script) as rest:
            await rest.submit(HELD)
            await script.until_running("lines")
            waiting = [
                asyncio.ensure_future(rest.http.get(f"/jobs/{HELD.job_id}/{path}"))
                for path in ("events", "execution-result?wait=60 s")
            ]
            while len(rest.server._services.waits._limits) < 2:
                await asyncio.sleep(0.01)
            async with asyncio.timeout(300):
                await rest.server.stop()
            events, result = [await task for task in waiting]
            assert events.text.startswith("event: job\ndata: {")
            assert result.json() == {"status": {"id": "IN_PROGRESS"}}
            assert (await rest.cluster.client.request_job(HELD.job_id)).status is JobStatus.RUNNING

    do(story())
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


async def events_of(http, job_id: str, told: asyncio.Event) -> list[tuple[str, dict]]:
    """All events of a stream, to its end; `told` is set with the first."""
    text = ""
    async with http.stream("GET", f"/v1/jobs/{job_id}/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for part in answer.aiter_text():
            text += part
            if "event: " in text:
                told.set()
    blocks = [block.split("\n") for block in text.strip().split("\n\n") if not block.startswith(":")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]
