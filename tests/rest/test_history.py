"""Jobs that have ended, after their workers and their cluster: read from the archive, by REST and by commands."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from firesteel.adapters.history.keptlogs import KeptLog, KeptText, encode_logs
from firesteel.adapters.storage.files import DirectoryFiles
from firesteel.assembly.historyserver import HistoryServer
from firesteel.cli.main import cli
from firesteel.core.dispatcher.jobentry import JobStage
from firesteel.model.failures import FailureKind
from firesteel.model.ids import ResourceID, derived_id
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.rest.routes import ROUTES
from firesteel.testing.backend import TaskScript
from tests.adapters.archives import archived, job_id, put
from tests.rest.cluster import LIMIT_S, RestCluster, graph, rest_cluster
from tests.rest.conftest import Do

WORDS = graph("lines*2 => counts -> result", "words", owner="", parameters={"limit": 3})


@contextlib.asynccontextmanager
async def history(*directories: Path, **options: str) -> AsyncIterator[httpx.AsyncClient]:
    """A history server over these directories, asked by HTTP."""
    given = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    server = HistoryServer(
        Configuration(
            {
                "historyserver.web.port": "0",
                "historyserver.archive.fs.dir": ",".join(map(str, directories)),
                "historyserver.archive.fs.refresh-interval": "20 ms",
                **given,
            }
        )
    )
    await server.start()
    try:
        async with httpx.AsyncClient(base_url=server.rest.address, timeout=LIMIT_S) as http:
            yield http
    finally:
        await server.stop()


async def listed(http: httpx.AsyncClient, count: int) -> list[Any]:
    """The overview once it has that many jobs."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            jobs: list[Any] = (await http.get("/jobs/overview")).json()["jobs"]
            if len(jobs) >= count:
                return jobs
            await asyncio.sleep(0.01)


def archiving(directory: Path) -> dict[str, str]:
    return {"jobmanager.archive.fs.dir": str(directory), "restart-strategy.type": "none"}


async def printed(rest: RestCluster, text: str) -> None:
    """The running attempts have printed something."""
    for record in rest.script.of("lines", "RUNNING"):
        file = rest.cluster.work_dir / record.worker / "logs" / WORDS.job_id
        file.mkdir(parents=True, exist_ok=True)
        (file / f"{record.attempt.region}-{record.attempt.attempt}.log").write_text(text)


async def cleaned_up(directory: Path, job: str) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not (directory / f"{job}.job").exists():
            await asyncio.sleep(0.01)


async def run_words(rest: RestCluster, script: TaskScript) -> None:
    script.hold("lines")
    await rest.submit(WORDS)
    await script.until_running("lines", 2)
    await printed(rest, "hello from an attempt\n")
    script.release("lines")
    await rest.finish(WORDS.job_id)


PATHS = (
    "",
    "/status",
    "/view",
    "/plan",
    "/config",
    "/exceptions",
    "/logs",
    "/execution-result",
    "/accumulators",
    f"/vertices/{WORDS.vertices[0].id}",
    f"/vertices/{WORDS.vertices[0].id}/subtasktimes",
    f"/vertices/{WORDS.vertices[0].id}/taskmanagers",
    f"/vertices/{WORDS.vertices[0].id}/subtasks/1",
    f"/vertices/{WORDS.vertices[0].id}/subtasks/1/attempts/0",
)


def of_then(answer: Any) -> Any:
    """An answer without what depends on who answers when."""
    for key in ("now", "elapsed"):
        if isinstance(answer, dict):
            answer.pop(key, None)
    return answer


def test_a_history_server_answers_as_the_master_did(tmp_path: Path, do: Do, script: TaskScript) -> None:
    script.fail("counts", kind=FailureKind.USER)

    async def story() -> None:
        directory = tmp_path / "archive"
        async with rest_cluster(tmp_path, script=script, options=archiving(directory)) as rest:
            await run_words(rest, script)
            await cleaned_up(directory, WORDS.job_id)
            told = {path: of_then(await rest.get(f"/jobs/{WORDS.job_id}{path}")) for path in PATHS}
            line = (await rest.get("/jobs/overview"))["jobs"][0]
        async with history(directory) as http:
            (shown,) = await listed(http, 1)
            assert shown == {**line, "cluster": "default"}
            assert line["cluster"] == ""
            for path in PATHS:
                answer = await http.get(f"/v1/jobs/{WORDS.job_id}{path}")
                assert answer.status_code == 200, (path, answer.text)
                assert of_then(answer.json()) == told[path], path
            assert "as the script says" in str(told["/exceptions"])
            features = (await http.get("/config")).json()["features"]
            assert (features["web-history"], features["web-submit"], features["web-cancel"]) == (True, False, False)
            overview = (await http.get("/overview")).json()
            assert (overview["jobs-failed"], overview["jobs-running"], overview["taskmanagers"]) == (1, 0, 0)

    do(story())


def test_output_that_was_read_to_its_end_is_not_told_again_from_the_archive(
    tmp_path: Path, do: Do, script: TaskScript
) -> None:
    """There it is longer, since what looked like a secret is hidden."""
    log = KeptLog(task_manager=ResourceID(""), name="0.stdout", modified_ms=1, size_bytes=8)

    async def story() -> None:
        directory = tmp_path / "archive"
        DirectoryFiles(directory).write(f"{WORDS.job_id}.logs", encode_logs([KeptText(log, b"token=******\n")]))
        async with rest_cluster(tmp_path, script=script, options=archiving(directory)) as rest:
            outputs = rest.cluster.master.uploads.outputs
            await outputs.append(WORDS.job_id, "0.stdout", 0, b"token=x\n")
            await run_words(rest, script)
            await cleaned_up(directory, WORDS.job_id)
            path = f"/v1/jobs/{WORDS.job_id}/output?stream=stdout&offset="
            assert [(await rest.http.get(f"{path}{offset}")).text for offset in (0, 8)] == ["token=x\n", ""]
            await outputs.delete(WORDS.job_id)
            assert (await rest.http.get(f"{path}0")).text == "token=******\n"

    do(story())


async def nothing_comes(http: httpx.AsyncClient, path: str) -> None:
    """Whoever follows what can't grow any more waits, as for what may, and does not ask again and again."""
    assert (await http.get(path)).json()["text"] == ""
    following = asyncio.ensure_future(http.get(f"{path}&wait=30 s"))
    await asyncio.wait({following}, timeout=0.2)
    assert not following.done()
    following.cancel()
    assert (await http.get(f"{path}&wait=1 ms")).json()["text"] == ""


def test_prints_are_read_after_the_worker_has_gone(tmp_path: Path, do: Do, script: TaskScript) -> None:
    """From the master, and from the history server."""

    async def story() -> None:
        directory = tmp_path / "archive"
        async with rest_cluster(tmp_path, script=script, options=archiving(directory)) as rest:
            await run_words(rest, script)
            await cleaned_up(directory, WORDS.job_id)
            before = (await rest.get(f"/jobs/{WORDS.job_id}/logs"))["logs"]
            (worker,) = rest.cluster.workers
            await rest.cluster.terminate_task_executor(worker)
            while (await rest.get("/taskmanagers"))["taskmanagers"]:
                await asyncio.sleep(0.01)
            after = (await rest.get(f"/jobs/{WORDS.job_id}/logs"))["logs"]
            assert [each["size"] for each in after] == [len("hello from an attempt\n")] * 2
            assert after == before
            path = f"/taskmanagers/{worker}/logs/{after[0]['name']}"
            assert (await rest.get(f"{path}/part"))["text"] == "hello from an attempt\n"
            assert (await rest.http.get(path)).text == "hello from an attempt\n"
            await nothing_comes(rest.http, f"{path}/part?offset={after[0]['size']}")
            await rest.get(f"/taskmanagers/{worker}/logs", 404)
            await rest.get(f"/taskmanagers/{worker}/logs/taskmanager.log/part", 404)
        async with history(directory) as http:
            await listed(http, 1)
            assert (await http.get(f"/jobs/{WORDS.job_id}/logs")).json()["logs"] == after
            assert (await http.get(path)).text == "hello from an attempt\n"
            await nothing_comes(http, f"{path}/part?offset={after[0]['size']}")
            assert (await http.get(f"/taskmanagers/{worker}/logs")).status_code == 404

            def command(*arguments: str) -> str:
                master = str(http.base_url).removeprefix("http://").rstrip("/")
                done = CliRunner().invoke(cli, [*arguments, "--master", master], standalone_mode=False)
                assert done.exit_code == 0, done.output
                return done.output

            assert "hello from an attempt" in await asyncio.to_thread(command, "logs", WORDS.job_id[:8])
            assert "words" in await asyncio.to_thread(command, "list", "--all")
            for name in ("info", "exceptions", "wait"):
                await asyncio.to_thread(command, name, WORDS.job_id)

    do(story())


def test_of_too_many_jobs_that_wait_for_the_archive_the_oldest_is_cleaned_up(
    tmp_path: Path, do: Do, script: TaskScript, caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "archive"
    broken.touch()
    first, second = (graph("lines", name) for name in ("first", "second"))

    async def story() -> None:
        options = {**archiving(broken), "jobmanager.archive.max-waiting-jobs": "1"}
        async with rest_cluster(tmp_path, script=script, options=options) as rest:
            jobs = rest.cluster.master.dispatcher().core.jobs
            for each in (first, second):
                await rest.submit(each)
                await rest.finish(each.job_id)
            async with asyncio.timeout(LIMIT_S):
                while jobs[first.job_id].stage is not JobStage.DONE:
                    await asyncio.sleep(0.01)
            assert jobs[second.job_id].stage is not JobStage.DONE
            assert f"job {first.job_id} is not archived" in caplog.text
            assert (await rest.get(f"/jobs/{first.job_id}"))["vertices"], "its master shows it as before"
            broken.unlink()
            await cleaned_up(broken, second.job_id)
        assert not (broken / f"{first.job_id}.job").exists()

    do(story())


def test_nothing_can_be_changed(tmp_path: Path, do: Do) -> None:
    async def story() -> None:
        put(tmp_path / "archive", archived("it"))
        async with history(tmp_path / "archive") as http:
            await listed(http, 1)
            for route in (each for each in ROUTES if each.changes):
                path = route.path.replace("{jobid}", job_id("it"))
                answer = await http.request(route.method, path)
                assert answer.status_code == 405, path
                assert answer.json() == {
                    "errors": ["A history server shows jobs that have ended: ask a master for this."]
                }
            assert {route.method for route in ROUTES if not route.changes} == {"GET"}

    do(story())


def test_each_route_that_reads_answers(tmp_path: Path, do: Do) -> None:
    """With what there is, or with what there is none of; never with a bug."""

    async def story() -> None:
        put(tmp_path / "archive", archived("it"))
        async with history(tmp_path / "archive") as http:
            await listed(http, 1)
            for route in (each for each in ROUTES if not each.changes and not each.path.endswith("/events")):
                path = route.path.replace("{jobid}", job_id("it")).replace("{vertexid}", derived_id("none"))
                answer = await http.get(path.replace("{", "").replace("}", ""))
                known = (200, 400, 403, 404) if "ticket" in path else (200, 400, 404)
                assert answer.status_code in known, (path, answer.text)
            events = await http.get(f"/jobs/{job_id('it')}/events")
            assert [line for line in events.text.splitlines() if line.startswith("event: ")] == [
                "event: job",
                "event: result",
            ]
            assert (await http.get(f"/jobs/{derived_id('nobody')}")).status_code == 404

    do(story())


def test_three_clusters_one_broken_file_and_tokens(tmp_path: Path, do: Do, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "users.yaml").write_text("users: [{name: ada, roles: [view], token: abc}]")

    async def story() -> None:
        for cluster in "abc":
            put(tmp_path / cluster, archived(cluster))
        torn = put(tmp_path / "b", archived("torn"))
        torn.write_bytes(b"\0")
        options = {"rest__users_file": str(tmp_path / "users.yaml")}
        async with history(*(tmp_path / cluster for cluster in "abc"), **options) as http:
            assert (await http.get("/jobs/overview")).status_code == 401
            http.headers["Authorization"] = "Bearer abc"
            assert {job["name"] for job in await listed(http, 3)} == {"a", "b", "c"}
            assert torn.name in caplog.text

    with caplog.at_level(logging.WARNING):
        do(story())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "historyserver.archive.fs.dir: which directories"),
        ({"historyserver.archive.fs.dir": "relative"}, "is no absolute path"),
        ({"historyserver.archive.fs.dir": "hdfs://h/a"}, "archives are kept in paths and in s3://, not elsewhere yet"),
        ({"historyserver.archive.fs.dir": "/a", "historyserver.archive.retained-jobs": "0"}, "neither -1 nor above 0"),
    ],
)
def test_what_can_not_be_configured(options: dict[str, str], text: str, do: Do) -> None:
    async def story() -> None:
        with pytest.raises(ConfigurationError, match=text):
            HistoryServer(Configuration(options))

    do(story())
