"""Files and threads of master and workers over REST, and what a job's attempts have printed."""

import asyncio
import json
import logging
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from firesteel.assembly.client import MasterClient
from firesteel.assembly.processlog import process_log
from firesteel.model.ids import JobID, ResourceID, derived_id
from firesteel.model.inquiries import PART_BYTES_MAX, AnyAnswer, AnyInquiry, ListFiles
from firesteel.model.options import Configuration
from firesteel.rest.handlers import logs
from firesteel.runtime.about import about
from firesteel.runtime.client import INQUIRY_LIMIT_S, NoAnswer
from firesteel.testing.backend import TaskScript
from tests.rest.cluster import RestCluster, graph, rest_cluster, submission
from tests.rest.conftest import Do

JOB = derived_id("it")


def logs_of(rest: RestCluster, worker: str = "") -> Path:
    """Where a worker's log files lie."""
    directory = rest.cluster.work_dir / (worker or only_worker(rest)) / "logs"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def only_worker(rest: RestCluster) -> str:
    return next(iter(rest.cluster.workers))


def test_a_workers_files_are_listed_and_read_as_flinks_dashboard_does(tmp_path: Path, do: Do) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path) as rest:
            worker = only_worker(rest)
            (logs_of(rest) / JOB).mkdir()
            (logs_of(rest) / JOB / "0-0.log").write_text("printed\n")
            lines = "".join(f"{number}: nothing happens\n" for number in range(50_000))
            (logs_of(rest) / "taskmanager.log").write_text(lines)
            found = {each["name"]: each for each in (await rest.get(f"/taskmanagers/{worker}/logs"))["logs"]}
            assert found["taskmanager.log"]["size"] == len(lines)
            assert set(found) == {"taskmanager.log", f"{JOB}_0-0.log"}
            for path, text in (
                ("log", lines),
                ("logs/taskmanager.log", lines),
                ("stdout", "printed\n"),
                (f"logs/{JOB}_0-0.log", "printed\n"),
            ):
                answer = await rest.http.get(f"/v1/taskmanagers/{worker}/{path}")
                assert answer.headers["content-type"] == "text/plain; charset=UTF-8"
                assert answer.text == text

    do(story())


def test_what_is_not_there_and_tricks_with_paths(tmp_path: Path, do: Do) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path) as rest:
            worker = only_worker(rest)
            (rest.cluster.work_dir / "outside.log").write_text("secret")
            for path in ("stdout", "log", "logs/no.log", "logs/..%2f..%2foutside.log", "logs/%00.log"):
                answer = await rest.http.get(f"/taskmanagers/{worker}/{path}")
                assert (answer.status_code, "secret" in answer.text) == (404, False), path
            for path in ("", "/logs", "/log", "/stdout", "/logs/a.log", "/logs/a.log/part", "/thread-dump"):
                assert (
                    "Could not find TaskExecutor" in (await rest.get(f"/taskmanagers/nobody{path}", 404))["errors"][0]
                )
            for query in ("offset=x", "wait=soon", f"offset={10**20}"):
                await rest.get(f"/taskmanagers/{worker}/logs/a.log/part?{query}", 400)

    do(story())


def test_secrets_are_hidden_also_in_the_middle_of_a_file(tmp_path: Path, do: Do) -> None:
    """Whatever a part begins or ends with: it is whole lines."""
    secrets = "jdbc:postgresql://ada:hunter2@db/x?password=hunter2 Authorization: Bearer hunter2\n"

    async def story() -> None:
        async with rest_cluster(tmp_path) as rest:
            (logs_of(rest) / "taskmanager.log").write_text(secrets * 10_000)
            (tmp_path / "jobmanager.log").write_text(secrets)
            for path in (
                f"/taskmanagers/{only_worker(rest)}/log",
                "/jobmanager/log",
                "/jobmanager/logs/jobmanager.log",
            ):
                text = (await rest.http.get(path)).text
                assert "hunter2" not in text
                assert "jdbc:postgresql://ada:******@db/x?password=****** Authorization: Bearer ******" in text

    do(story())


def test_no_offset_leads_behind_what_makes_a_secret_known(tmp_path: Path, do: Do) -> None:
    """Nor does a line that is still being written, or one that is longer than a part."""
    line = "one\njdbc:postgresql://ada:hunter2@db/x?password=hunter2 Authorization: Bearer hunter2 \u00e9nd\n"
    data = line.encode()

    async def story() -> None:
        async with rest_cluster(tmp_path) as rest:
            worker, file = only_worker(rest), logs_of(rest) / "taskmanager.log"
            file.write_text(line)
            path = f"/taskmanagers/{worker}/logs/taskmanager.log/part"
            for offset in (0, *range(4, len(data))):
                part = await rest.get(f"{path}?offset={offset}")
                assert not any(end in part["text"] for end in ("unter2", "nter2", "ter2", "er2", "r2")), offset
                assert (part["offset"], part["next-offset"]) == (offset, len(data))
            assert (await rest.get(f"{path}?offset={data.index(b'Auth')}"))["text"].startswith(
                "Authorization: Bearer *"
            )
            shown, offset = "", 0
            for length in (10, data.index(b"ter2@"), data.index(b"r2 Auth"), data.index(b"2 \xc3"), len(data)):
                file.write_bytes(data[:length])
                part = await rest.get(f"{path}?offset={offset}")
                shown, offset = shown + part["text"], part["next-offset"]
            assert "hun" not in shown
            assert "ter2" not in shown
            assert shown.endswith(" \u00e9nd\n")
            file.write_text(f"{'x' * (PART_BYTES_MAX - 14)} password=hunter2 done\n")
            assert "r2" not in (text := (await rest.http.get(f"/taskmanagers/{worker}/log")).text)
            assert text.endswith(" done\n")

    do(story())


def test_a_file_is_followed_without_asking_again_and_again(tmp_path: Path, do: Do) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path) as rest:
            file = logs_of(rest) / "taskmanager.log"
            file.write_text("one\ntwo\n")
            path = f"/taskmanagers/{only_worker(rest)}/logs/taskmanager.log/part"
            first = await rest.get(f"{path}?offset=4")
            assert first == {"text": "two\n", "offset": 4, "next-offset": 8, "size": 8}
            assert (await rest.get(f"{path}?offset=8"))["text"] == ""
            waiting = asyncio.ensure_future(rest.get(f"{path}?offset=8&wait=30 s"))
            await rest.get("/overview")  # the one that waits keeps nobody
            assert not waiting.done()
            with file.open("a") as more:
                more.write("three\n")
            assert await waiting == {"text": "three\n", "offset": 8, "next-offset": 14, "size": 14}

    do(story())


def test_what_the_attempts_of_a_job_have_printed(tmp_path: Path, do: Do) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path, workers=2) as rest:
            await rest.submit(graph("lines*2 => it", "it"))
            await rest.finish(JOB)
            assert await rest.get(f"/jobs/{JOB}/logs") == {"logs": []}
            one, two = rest.cluster.workers
            for worker, file in ((two, "1-0.log"), (one, "0-0.log"), (one, "1-1.log"), (one, "x.log")):
                (logs_of(rest, worker) / JOB).mkdir(exist_ok=True)
                (logs_of(rest, worker) / JOB / file).write_text("hello\n")
            found = (await rest.get(f"/jobs/{JOB}/logs"))["logs"]
            assert [(log["region"], log["attempt"], log["taskmanager-id"]) for log in found] == [
                (0, 0, one),
                (1, 0, two),
                (1, 1, one),
            ]
            assert found[0]["vertices"] == ["lines"]
            read = await rest.http.get(f"/taskmanagers/{two}/logs/{found[1]['name']}")
            assert read.text == "hello\n"
            await rest.get(f"/jobs/{'0' * 32}/logs", 404)

    do(story())


def test_what_a_job_prints_is_for_its_owner(tmp_path: Path, do: Do) -> None:
    users = tmp_path / "users.yaml"
    people = (("vera", "view"), ("sam", "submit"), ("olga", "view, operate"), ("ida", "submit"))
    users.write_text(
        "users:\n" + "".join(f"  - {{name: {who}, roles: [{may}], token: {who}}}\n" for who, may in people)
    )

    async def story() -> None:
        async with rest_cluster(tmp_path, options={"rest.users-file": str(users)}) as rest:
            sam = {"Authorization": "Bearer sam"}
            assert (await rest.http.post("/jobs", files=submission(graph("lines", "it")), headers=sam)).is_success
            for job in (JOB, "0" * 32):
                (logs_of(rest) / job).mkdir()
                (logs_of(rest) / job / "0-0.log").write_text("mine\n")
            (logs_of(rest) / "taskmanager.log").write_text("everybody's\n")
            place = f"/taskmanagers/{only_worker(rest)}"
            for who, mine, unknown in (("vera", 403, 403), ("ida", 403, 403), ("sam", 200, 403), ("olga", 200, 200)):
                token = {"Authorization": f"Bearer {who}"}
                for file, status in ((JOB, mine), ("0" * 32, unknown)):
                    for path in (f"{place}/logs/{file}_0-0.log", f"{place}/logs/{file}_0-0.log/part"):
                        answer = await rest.http.get(path, headers=token)
                        assert (answer.status_code, "mine" in answer.text) == (status, status == 200), (who, path)
                assert (await rest.http.get(f"{place}/log", headers=token)).text == "everybody's\n"

    do(story())


def test_threads_of_master_and_worker(tmp_path: Path, do: Do) -> None:
    async def story() -> None:
        async with rest_cluster(tmp_path) as rest:
            for path in (f"/taskmanagers/{only_worker(rest)}/thread-dump", "/jobmanager/thread-dump"):
                threads = {each["threadName"]: each for each in (await rest.get(path))["threadInfos"]}
                assert "test_logs.py" in threads["MainThread"]["stringifiedThreadInfo"]
                assert "task rest" in threads
                for name, thread in threads.items():  # the dashboard puts these texts together, and shows nothing else
                    assert thread["stringifiedThreadInfo"].startswith(f'"{name}"\n')
                    assert thread["stringifiedThreadInfo"].endswith("\n\n")

    do(story())


def test_a_worker_that_does_not_answer_is_told_of(tmp_path: Path, do: Do) -> None:
    """503 for one that goes while it is asked; whoever asks for a job's output has that of the others."""

    async def story() -> None:
        async with rest_cluster(tmp_path, workers=2, script=TaskScript()) as rest:
            await rest.submit(graph("lines", "it"))
            await rest.finish(JOB)
            leaving = only_worker(rest)
            (logs_of(rest) / "a.log").write_text("x\n")
            waiting: asyncio.Future[Any] = asyncio.ensure_future(
                rest.get(f"/taskmanagers/{leaving}/logs/a.log/part?offset=2&wait=30 s", 503)
            )
            while not rest.cluster.resource_manager().core._inquiries:
                await asyncio.sleep(0.01)
            await rest.cluster.terminate_task_executor(ResourceID(leaving))
            assert "has gone" in (await waiting)["errors"][0]
            assert await rest.get(f"/jobs/{JOB}/logs") == {"logs": []}

    do(story())


def test_a_frozen_worker_does_not_hold_up_the_logs_of_others(
    tmp_path: Path, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "LIST_LIMIT_S", 0.01)
    ask, frozen = MasterClient.ask_task_manager, list[str]()

    async def answer(
        client: MasterClient, worker: ResourceID, inquiry: AnyInquiry, limit_s: float = INQUIRY_LIMIT_S
    ) -> AnyAnswer:
        if worker in frozen and isinstance(inquiry, ListFiles):
            await asyncio.sleep(limit_s)
            raise NoAnswer(worker)
        return await ask(client, worker, inquiry)

    monkeypatch.setattr(MasterClient, "ask_task_manager", answer)

    async def story() -> None:
        async with rest_cluster(tmp_path, workers=2, script=TaskScript()) as rest:
            await rest.submit(graph("lines", "it"))
            await rest.finish(JOB)
            one, two = rest.cluster.workers
            for worker in (one, two):
                (logs_of(rest, worker) / JOB).mkdir()
                (logs_of(rest, worker) / JOB / "0-0.log").write_text("hello\n")
            frozen.append(one)
            async with asyncio.timeout(INQUIRY_LIMIT_S / 2):
                found = (await rest.get(f"/jobs/{JOB}/logs"))["logs"]
            assert [log["taskmanager-id"] for log in found] == [two]

    do(story())


def test_a_process_logs_to_a_file_that_does_not_grow_for_ever(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("firesteel.assembly.processlog.LINES_A_LOOK", 1)
    file = tmp_path / "log" / "jobmanager.log"
    with process_log(file, Configuration({"log.file.max-size": "1m"})):
        for number in range(100):
            logging.getLogger("firesteel.test").warning("number %d: %s", number, "x" * 100_000)
    logging.getLogger("firesteel.test").warning("too late")
    names = sorted(path.name for path in file.parent.glob("*.log"))
    assert names == [*(f"jobmanager.{number}.log" for number in range(1, 5)), "jobmanager.log"]
    assert "number 99" in file.read_text()
    assert "too late" not in file.read_text()


def test_a_process_keeps_no_former_file_where_none_is_wanted(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("firesteel.assembly.processlog.LINES_A_LOOK", 1)
    file = tmp_path / "log" / "jobmanager.log"
    with process_log(file, Configuration({"log.file.max-size": "1m", "log.file.max-count": "0"})):
        for number in range(30):
            logging.getLogger("firesteel.test").warning("number %d: %s", number, "x" * 100_000)
    assert [path.name for path in file.parent.glob("*.log")] == ["jobmanager.log"]
    assert file.stat().st_size < 1 << 20
    assert "number 29" in file.read_text()


def test_lines_are_json_where_that_is_wanted(tmp_path: Path) -> None:
    file, logger = tmp_path / "jobmanager.log", logging.getLogger("firesteel.test")
    with process_log(file, Configuration({"log.format": "JSON"})):
        logger.info("deployed %s", "it", extra=about(JobID(JOB), "lines", 0))
        logger.info("job %s", JOB, extra=about(JobID(JOB)))
        try:
            raise ValueError("two\nlines")
        except ValueError:
            logger.warning("failed", exc_info=True)
    attempt, job, failed = map(json.loads, file.read_text().splitlines())
    assert datetime.fromisoformat(attempt.pop("time")).utcoffset() == timedelta()
    assert attempt == {
        "level": "INFO",
        "logger": "firesteel.test",
        "message": "deployed it",
        "job": JOB,
        "vertex": "lines",
        "attempt": 0,
    }
    assert (job["job"], "vertex" in job, "attempt" in job) == (JOB, False, False)
    assert failed["trace"].endswith("ValueError: two\nlines")


def test_each_of_several_masters_logs_to_a_file_of_its_own(tmp_path: Path) -> None:
    """Also a command that is a master too, and keeps its own log besides."""
    wanted, own = tmp_path / "jobmanager.log", logging.getLogger("firesteel")
    with process_log(wanted, Configuration()) as first, process_log(wanted, Configuration()) as second:
        assert (first, second) == (wanted, tmp_path / "jobmanager-2.log")
        own.propagate = False
        try:
            with process_log(wanted, Configuration()) as third:
                logging.getLogger("firesteel.test").info("from a command")
        finally:
            own.propagate = True
        logging.getLogger("firesteel.test").info("from a master")
        assert "from a command" in third.read_text()
        assert "from a command" not in first.read_text()
        assert "from a master" in first.read_text()
    with process_log(wanted, Configuration()) as again:
        assert again == wanted


def test_the_masters_log_is_never_a_clients(tmp_path: Path, do: Do) -> None:
    """A client that shares the master's directory writes beside it, and later."""

    async def story() -> None:
        for name in ("jobmanager.log", "jobmanager.1.log", "firesteel-20260101-000000-7.log", "jobmanager-2.log"):
            (tmp_path / name).write_text(f"{name}\n")
        async with rest_cluster(tmp_path) as rest:
            assert (await rest.http.get("/jobmanager/log")).text == "jobmanager.log\n"
            listed = {each["name"] for each in (await rest.get("/jobmanager/logs"))["logs"]}
            assert listed == {"jobmanager.log", "jobmanager.1.log"}
            assert (await rest.http.get("/jobmanager/logs/firesteel-20260101-000000-7.log")).status_code == 404

    do(story())
