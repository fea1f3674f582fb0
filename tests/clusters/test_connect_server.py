"""A Connect server that others have started: used, never stopped, and nothing of a dead worker runs on there."""

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import psutil
import pytest

from firesteel.adapters.blob.local import LocalBlobStore
from firesteel.adapters.spark.clusters.masters import read_master, server_address
from firesteel.adapters.spark.clusters.sessions import session_of
from firesteel.adapters.spark.exchange.partitions import StoredResults
from firesteel.adapters.spark.session.channel import open_channel
from firesteel.adapters.spark.task.sessionhand import SessionHand
from firesteel.adapters.spark.wire import SessionName
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from firesteel.model.ids import DataSetID
from firesteel.model.options import Configuration
from tests.clusters.conftest import SMALL
from tests.clusters.work import begun, counting_job, rows_staged
from tests.integration.spark.jobs import JobMaker, Runner, deployment, run, settled
from tools.standalone import ConnectServer

TOKEN = "a token of theirs"
TASKS = 3_000
GONE_S = 10.0
"""After its session is closed; within this time nothing of a dead worker runs any more."""


@pytest.fixture(scope="module")
def server(scratch: Path) -> Iterator[ConnectServer]:
    server = ConnectServer(scratch / "server", token=TOKEN)
    yield server
    server.close()


@pytest.fixture(scope="module")
def url(server: ConnectServer) -> str:
    return f"{server.url}/;token={TOKEN.replace(' ', '%20')}"


@pytest.fixture
def hand(url: str) -> Iterator[SessionHand]:
    endpoint = server_address(read_master(url))
    with open_channel(endpoint) as channel:
        yield SessionHand(channel, endpoint)


def test_results_that_a_worker_with_a_spark_of_its_own_has_stored_are_read_there(url: str, tmp_path: Path) -> None:
    """And what is stored there is Parquet: executors elsewhere know no class of ours. A token goes without TLS to "localhost"."""
    from pyspark.sql.connect.session import SparkSession

    theirs, there = ConnectServer(tmp_path / "server", classes=True), StoredResults(jvm_cores=0)
    try:
        local, spark = (
            SparkSession.builder.remote(each).create() for each in (theirs.url, url.replace("127.0.0.1", "localhost"))
        )
        stored = [
            results.store(made.range(number, number + 5), str(tmp_path / str(number)), DataSetID("d"), 0)
            for results, made, number in ((StoredResults(), local, 0), (there, spark, 5))
        ]
        assert {file.suffix for file in tmp_path.rglob("part-*")} == {".rows", ".parquet"}
        frame = there.read(spark, stored, range(1), tmp_path / "read")
        assert sorted(row.id for row in frame.collect()) == list(range(10))
        there.store(frame, str(tmp_path / "again"), DataSetID("d"), 0)
        assert {file.suffix for file in (tmp_path / "again").rglob("part-*")} == {".parquet"}
        for session in (local, spark):
            session.client.release_session()
            session.client.close()
    finally:
        theirs.close()


def is_closed(hand: SessionHand, session: SessionName) -> bool:
    """A server refuses a session of a name that was closed."""
    import pyspark.sql.connect.proto as pb2

    try:
        hand.execute(session, pb2.Relation(range=pb2.Range(start=0, end=1, step=1)))
    except grpc.RpcError as error:
        return "SESSION_CLOSED" in str(error)
    return False


def test_a_job_runs_there_and_its_session_alone_is_closed(
    server: ConnectServer, url: str, hand: SessionHand, blobs: LocalBlobStore, do: Runner, tmp_path: Path
) -> None:
    async def story() -> SessionName:
        configuration = {**SMALL, "taskmanager.spark.master": url, "spark.sql.shuffle.partitions": "3"}
        backend = SparkTaskBackend(Configuration(configuration), tmp_path / "work", blobs)
        await backend.start()
        try:
            job = counting_job(JobMaker(blobs, tmp_path), tmp_path)
            assert rows_staged(await run(backend, job)) == 4
            await settled(backend)
            (application,) = backend.applications()
            assert application.master == server.url
            assert application.application.startswith("local-"), "Spark's own id of it"
            return session_of(deployment(job).attempt, "tester")
        finally:
            await backend.close()

    others = SessionName("somebody", "00000000-0000-0000-0000-000000000001")
    assert not is_closed(hand, others), "opened by this"
    assert is_closed(hand, do(story()))
    assert not is_closed(hand, others)
    assert psutil.pid_exists(server.process.pid)


def test_nothing_of_a_killed_worker_runs_on(url: str, hand: SessionHand, do: Runner, tmp_path: Path) -> None:
    """Ten seconds after it was killed no session of its is left, and ten more later no task has begun."""
    log = tmp_path / "worker.log"
    with open(log, "wb") as file:
        command = [sys.executable, "-m", "tests.clusters.workerprocess", url, str(tmp_path), f"{TASKS}"]
        worker = subprocess.Popen(command, stdout=file, stderr=file)
    do(begun(tmp_path))
    killed = time.time()
    worker.kill()
    worker.wait()
    log_of_guard = tmp_path / "work" / "logs" / "sessionguard.log"
    do(until_it_says(log_of_guard, "is closed"))
    closed = time.time()
    assert closed - killed < GONE_S
    found = re.search(r"session (\S+) of (\S+) is closed", log_of_guard.read_text())
    assert found is not None
    session = SessionName(found[2], found[1])
    assert not hand.status(session).operation_statuses
    assert is_closed(hand, session)
    do(asyncio.sleep(GONE_S + 2))
    began = [float(line.split()[1]) for line in (tmp_path / "mark").read_text().splitlines()]
    assert began, log.read_text()
    assert len(began) < TASKS, "it was cut off"
    assert max(began) < closed + GONE_S, "a task has begun later"
    assert "the worker is gone: closing 1 sessions" in log_of_guard.read_text()


async def until_it_says(log: Path, text: str) -> None:
    async with asyncio.timeout(300):
        while not (log.exists() and text in log.read_text()):
            await asyncio.sleep(0.05)
