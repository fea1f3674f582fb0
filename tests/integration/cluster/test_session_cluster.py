"""A session cluster as its user has it: `firesteel cluster start`, `run --master`, a worker killed, `stop`."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import psutil
import pytest

import firesteel as fs
from firesteel.client import ClusterClient
from firesteel.client.http import HttpClusterClient
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.pipeline.build import BuildRequest, build_file
from tests.environments import environment, tarred
from tests.integration.cluster.files import HEADER
from tests.integration.cluster.test_jobs import EXAMPLES, rows_of, write_tree
from tests.paths import paths_now
from tests.sparkjvms import quick_start_arguments

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
LIMIT_S = 400

HELD = """
@pipeline.source
def numbers(spark: SparkSession, directory: str) -> DataFrame:
    import os, time
    with open(f"{directory}/attempts", "a") as file:
        file.write(f"{os.getpid()}\\n")
    while os.path.exists(f"{directory}/hold"):
        time.sleep(0.05)
    return spark.range(10)

@pipeline.sink
def result(numbers: DataFrame, output: str) -> None:
    fs.write_parquet(numbers, output)
"""


SMALL = """
@pipeline.source
def numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count)

@pipeline.result
def total(numbers: DataFrame) -> DataFrame:
    return numbers.agg(F.count("*"), F.sum("id"))
"""
SMALL_JOBS, CLIENTS = 40, 16
HEARTBEAT_TIMEOUT = "2 h"
"""Longer than any test: whoever is found to be gone is so without it."""


TALKS = """
@pipeline.source
def numbers(spark: SparkSession, count: int) -> DataFrame:
    print(f"{count} numbers, password=hunter2")
    return spark.range(count)

@pipeline.result
def result(numbers: DataFrame) -> DataFrame:
    return numbers
"""

SPELLS = """
@F.udf("string")
def word(number):
    import spelled
    return spelled.WORD

@pipeline.source
def words(spark: SparkSession, directory: str, context) -> DataFrame:
    import os, signal, spelled
    found = spark.range(1).select(word("id").alias("word"))
    if context.attempt == 0:
        assert found.collect()[0].word == spelled.WORD
        with open(f"{directory}/worker", "w") as file:
            file.write(f"{os.getpid()}\\n")
        while True:
            signal.pause()
    return found

@pipeline.result
def out(words: DataFrame) -> DataFrame:
    return words
"""

EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)


class Session:
    """A cluster of processes, and commands of somebody who works in `scratch`."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.environment = {**os.environ, "TMPDIR": str(scratch / "tmp"), "XDG_STATE_HOME": str(scratch / "state")}
        self.environment.pop("FIRESTEEL_CLIENT_DIR", None)
        (scratch / "tmp").mkdir()

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "firesteel", *arguments],
            env=self.environment,
            cwd=self.scratch,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def command(self, *arguments: str) -> tuple[int, str, str]:
        with self.start(*arguments) as process:
            out, err = process.communicate(timeout=LIMIT_S)
        return process.returncode, out, err

    def records(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(
            (self.scratch / "state" / "firesteel" / "cluster" / "processes.json").read_text()
        )
        return found

    def pids(self, role: str) -> list[int]:
        return [int(str(record["pid"])) for record in self.records() if record["role"] == role]

    def master(self) -> str:
        """HOST:PORT of its REST endpoint."""
        return str(self.records()[0]["where"]).rpartition("//")[2]

    def until_workers(self, count: int) -> None:
        """Wait until there are so many, with two slots each; both who tell of them say the same."""
        told: object = None
        with httpx.Client(base_url=f"http://{self.master()}", timeout=LIMIT_S) as http:
            until_s = time.monotonic() + LIMIT_S
            while time.monotonic() < until_s:
                overview = http.get("/overview").json()
                workers = http.get("/taskmanagers").json()["taskmanagers"]
                told = (overview["taskmanagers"], overview["slots-total"], [each["slotsNumber"] for each in workers])
                if told == (count, 2 * count, [2] * count):
                    return
                time.sleep(0.01)
        raise AssertionError(f"{told} after {LIMIT_S} s")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    made = Session(tmp_path)
    longest = f"heartbeat.timeout={HEARTBEAT_TIMEOUT}"
    settings = ("jobmanager.rpc.port=0", "rest.port=0", longest)
    definitions = [*quick_start_arguments(), *(part for each in settings for part in ("-D", each))]
    code, _, err = made.command("cluster", "start", "--taskmanagers", "2", *definitions)
    assert (code, err) == (0, "")
    yield made
    made.command("cluster", "stop")


def wait_for(file: Path, lines: int) -> list[str]:
    until_s = time.monotonic() + LIMIT_S
    while time.monotonic() < until_s:
        if file.exists() and len(found := file.read_text().splitlines()) >= lines:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{file} has no {lines} lines")


async def many_small_jobs(session: Session) -> None:
    """Of several clients at once: each has the rows of its own job, and nothing but results is left."""
    (session.scratch / "small.py").write_text(HEADER + SMALL)
    (session.scratch / "built").mkdir()
    file, output = session.scratch / "small.py", session.scratch / "built"
    request = BuildRequest(file=str(file), job_id=JobID("0" * 32), parameters={"count": "1"}, output_dir=str(output))
    built = build_file(request)
    counts = iter(range(1, SMALL_JOBS + 1))

    async def work(client: HttpClusterClient) -> None:
        for count in counts:
            job_id = JobID(uuid.uuid4().hex)
            graph = msgspec.structs.replace(built.graph, job_id=job_id, parameters={"count": str(count)})
            await client.submit_job(graph, built.artifact_paths())
            assert (await client.request_job_result(job_id)).status is JobStatus.FINISHED
            assert fs.ResultRows(await client.fetch_result(job_id)).values() == [[count], [sum(range(count))]]

    async with asyncio.timeout(LIMIT_S), HttpClusterClient([f"http://{session.master()}"]) as client:
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(work(client))
        files = session.scratch / "state" / "firesteel" / "cluster"
        while paths_now(files, "work/*/attempts/*/*") or paths_now(files, "work/*/partitions/*"):
            await asyncio.sleep(0.1)
        overview = await client.request_cluster_overview()
        while overview.slots_free < overview.slots_total:
            await asyncio.sleep(0.1)
            overview = await client.request_cluster_overview()
        while len(paths_now(files, "jobs/*/blobs/*")) > SMALL_JOBS:  # the rows that jobs have returned stay
            await asyncio.sleep(0.1)


def check_clients_of_programs(session: Session) -> None:
    """The example of docs/client.md; and a file that is uploaded, built by a worker, and whose output is read."""
    example = EXAMPLE.findall((EXAMPLES.parent / "docs" / "client.md").read_text())[0]
    (session.scratch / "example.py").write_text(example.replace("localhost:8081", session.master()))
    run = [sys.executable, "example.py"]
    done = subprocess.run(
        run, env=session.environment, cwd=session.scratch, text=True, capture_output=True, timeout=LIMIT_S, check=False
    )
    assert "FINISHED [0, 1, 4]" in done.stdout.splitlines(), done.stderr
    http = httpx.Client(base_url=f"http://{session.master()}", timeout=LIMIT_S)
    with ClusterClient(session.master()) as cluster, http:
        jar = http.post("/jars/upload", files={"jarfile": ("talks.py", HEADER + TALKS)})
        body = {"programArgsList": ["count=4"]}
        job_id = http.post(f"{jar.json()['filename']}/run", json=body).json()["jobid"]
        assert cluster.wait(job_id, timeout_s=LIMIT_S).status.value == "FINISHED"
        assert cluster.rows(job_id).values() == [[0, 1, 2, 3]]
        (log,) = cluster.logs(job_id)
        assert cluster.log_lines(log).text == "4 numbers, password=******\n"
        threads = http.get(f"/taskmanagers/{log.taskmanager_id}/thread-dump").json()["threadInfos"]
        assert "MainThread" in [thread["threadName"] for thread in threads]
        assert f"taskmanager {log.taskmanager_id} in " in http.get(f"/taskmanagers/{log.taskmanager_id}/log").text
        assert "REST endpoint at" in http.get("/jobmanager/log").text


def check_a_late_worker(session: Session) -> None:
    """It is there as soon as it says that it serves, and gone when it is told to stop."""
    place = session.scratch / "state" / "firesteel" / "cluster"
    rpc_port = str(session.records()[0]["where"]).partition(",")[0].rpartition(":")[2]
    options = {"jobmanager.rpc.port": rpc_port, "cluster.work-dir": place / "work", "taskmanager.resource-id": "late"}
    late = session.start("taskmanager", *(part for key, value in options.items() for part in ("-D", f"{key}={value}")))
    assert late.stdout is not None
    assert late.stdout.readline() == "started taskmanager late\n"
    session.until_workers(2)
    late.terminate()
    session.until_workers(1)
    late.communicate(timeout=LIMIT_S)
    assert late.returncode == 0


def test_jobs_of_a_session_cluster_and_a_worker_that_is_killed(session: Session, tmp_path: Path) -> None:
    asyncio.run(many_small_jobs(session))
    expected = write_tree(tmp_path / "texts")
    run = ("run", "--master", session.master())
    word_count = session.start(*run, str(EXAMPLES / "wordcount.py"), "-p", "input=texts", "-p", "output=counted")

    (tmp_path / "held.py").write_text(HEADER + HELD)
    (tmp_path / "hold").touch()
    options = ("-p", f"directory={tmp_path}", "-p", "output=out", "-D", "restart-strategy.type=fixed-delay")
    held = session.start(*run, "held.py", *options)
    (attempt,) = wait_for(tmp_path / "attempts", 1)
    assert word_count.communicate(timeout=LIMIT_S)[1].count("FINISHED")
    assert word_count.returncode == 0
    assert {row["word"]: row["count"] for row in rows_of(tmp_path / "counted")} == dict(expected)
    check_clients_of_programs(session)

    workers = session.pids("taskmanager")
    (mine,) = [parent for parent in psutil.Process(int(attempt)).parents() if parent.pid in workers]
    below = mine.children(recursive=True)
    mine.send_signal(signal.SIGKILL)
    session.until_workers(1)
    assert not psutil.wait_procs(below, timeout=300)[1], "its JVM and task processes go with it"
    (tmp_path / "hold").unlink()
    out, err = held.communicate(timeout=LIMIT_S)
    assert held.returncode == 0, out + err
    assert len(rows_of(tmp_path / "out")) == 10
    assert len(wait_for(tmp_path / "attempts", 2)) == 2

    check_a_late_worker(session)
    code, out, _ = session.command("cluster", "status")
    assert (code, out.count("is gone")) == (1, 1)
    left = [psutil.Process(pid) for pid in (*session.pids("jobmanager"), *workers) if psutil.pid_exists(pid)]
    below = [child for process in left for child in process.children(recursive=True)]
    assert session.command("cluster", "stop")[:2] == (0, "stopped\n")
    assert not psutil.wait_procs([*left, *below], timeout=300)[1]
    assert not (tmp_path / "state" / "firesteel" / "cluster" / "work").exists()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_job_takes_its_environment_to_another_worker(session: Session, tmp_path: Path) -> None:
    archive = tarred(environment(tmp_path / "env", "own"), tmp_path / "env.tar.gz")
    (tmp_path / "words.py").write_text(HEADER + SPELLS)
    own = ("--archives", f"{archive}#env", "-pyexec", "env/bin/python", "-D", "restart-strategy.type=fixed-delay")
    run = session.start("run", "--master", session.master(), "words.py", "-p", f"directory={tmp_path}", "--json", *own)
    (attempt,) = wait_for(tmp_path / "worker", 1)
    workers = session.pids("taskmanager")
    (mine,) = [parent for parent in psutil.Process(int(attempt)).parents() if parent.pid in workers]
    mine.send_signal(signal.SIGKILL)
    out, err = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 0, out + err
    assert json.loads(out)["returned"][0]["records"] == [{"word": "own"}]
