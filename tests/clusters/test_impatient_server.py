"""A Connect server that closes sessions after 15 s of silence, and stops their streams."""

import asyncio
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from firesteel.adapters.spark.children.guard import SessionGuard
from firesteel.adapters.spark.clusters.masters import read_master, server_address
from firesteel.adapters.spark.session.channel import open_channel
from firesteel.adapters.spark.task.sessionhand import SessionHand
from firesteel.adapters.spark.wire import GuardAction, SessionName
from firesteel.minicluster import MiniCluster
from firesteel.model.options import Configuration
from firesteel.model.states import JobStatus
from firesteel.model.streams import AfterSavepoint
from tests.clusters.conftest import SMALL
from tests.integration.cluster.conftest import Do
from tests.integration.cluster.files import Files
from tests.integration.cluster.test_reattachment import kill, until_reattached
from tests.integration.cluster.test_streams import COPY, Stream, until_batch, until_counted, write_stream
from tools.standalone import ConnectServer

PATIENCE_S = 15
SETTINGS = (
    f"spark.connect.session.manager.defaultSessionTimeout={PATIENCE_S}s",
    "spark.connect.session.manager.maintenanceInterval=1s",
    "spark.sql.shuffle.partitions=2",
)


@pytest.fixture(scope="module")
def server(scratch: Path) -> Iterator[ConnectServer]:
    server = ConnectServer(scratch / "impatient", SETTINGS)
    yield server
    server.close()


def is_open(hand: SessionHand, session: SessionName) -> bool:
    try:
        hand.setting(session, "spark.app.name")
    except grpc.RpcError as error:
        return "SESSION_CLOSED" not in str(error)
    return True


def test_a_session_that_the_worker_holds_is_kept_through_silence(server: ConnectServer, do: Do, tmp_path: Path) -> None:
    endpoint = server_address(read_master(server.url))
    held, other = (SessionName("tester", str(uuid.uuid4())) for _ in range(2))
    with open_channel(endpoint) as channel:
        hand = SessionHand(channel, endpoint)
        guard = SessionGuard(endpoint, tmp_path / "guard.log")
        guard.start()
        try:
            guard.order(GuardAction.HOLD, held)
            assert is_open(hand, held)
            assert is_open(hand, other)
            time.sleep(2 * PATIENCE_S + 5)
            assert (is_open(hand, held), is_open(hand, other)) == (True, False), (tmp_path / "guard.log").read_text()
        finally:
            do(guard.close())


def test_a_stream_whose_task_process_was_killed_runs_a_minute_later(
    server: ConnectServer, do: Do, tmp_path: Path
) -> None:
    """In the same session and the same attempt, followed by another process."""
    stream = Stream(tmp_path / "stream")
    stream.write("a", "b")

    async def story(files: Files) -> None:
        client = files.cluster.client
        job_id = await files.submit(write_stream(files, COPY), stream.parameters)
        await until_counted(files, job_id, stream)
        await until_batch(files, job_id, 0)
        kill(job_id)
        await until_reattached(files, job_id, 1)
        await asyncio.sleep(60.0)
        stream.write("a", "a minute later")
        await until_counted(files, job_id, stream)
        await until_batch(files, job_id, 1)
        view = await client.request_job(job_id)
        assert (view.status, view.vertices[0].attempts) == (JobStatus.RUNNING, 1), view.exceptions
        await client.take_savepoint(job_id, str(tmp_path / "last"), after=AfterSavepoint.STOP)
        assert (await client.request_job_result(job_id)).status is JobStatus.FINISHED
        assert (await client.request_job(job_id)).vertices[0].attempts == 1

    work = {"cluster.work-dir": str(tmp_path / "work"), "taskmanager.spark.master": server.url}
    cluster = MiniCluster(Configuration({**SMALL, **work}))
    do(cluster.start())
    try:
        do(story(Files(cluster, do, tmp_path)))
    finally:
        do(cluster.close())
    assert stream.counted() == stream.written == stream.copied(), "each row once"
