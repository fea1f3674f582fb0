"""Savepoints of real streams in a bucket: taken while they run, gone on from in another cluster, by commands, killed in the midst."""

import asyncio
import contextlib
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.adapters.spark.streams.snapshots.errors import NoSavepoint
from firesteel.adapters.spark.streams.snapshots.places import place_at
from firesteel.adapters.spark.streams.snapshots.savepoints import read_manifest, verify
from firesteel.adapters.storage.s3keys import S3Keys
from firesteel.adapters.storage.s3settings import S3Access
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.model.streams import AfterSavepoint
from firesteel.pipeline.build import BuildRequest, build_file
from firesteel.runtime.client import SavepointFailed
from tests.adapters.snapshots.buckets import names, settings
from tests.durable.s3 import s3_server
from tests.integration.cluster import test_branches as branches
from tests.integration.cluster.conftest import Do, mini_cluster
from tests.integration.cluster.files import HEADER, Files
from tests.integration.cluster.test_session_cluster import Session
from tests.integration.cluster.test_streams import (
    COPY,
    NOW,
    Stream,
    until_batch,
    until_counted,
    write_stream,
)
from tests.network.processes import Cluster, cluster, until
from tests.sparkjvms import quick_start

pytestmark = [pytest.mark.spark, pytest.mark.streams, pytest.mark.timeout(1_800)]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3")) as url:
        yield url


@pytest.fixture
def keys(s3: str) -> Iterator[S3Keys]:
    found = S3Keys("firesteel", S3Access.of(settings(s3)))
    yield found
    found.delete(names(found))


def options(s3: str, home: Path) -> dict[str, str]:
    """Of a cluster that shares nothing with another one but the bucket."""
    home.mkdir()
    return {
        "taskmanager.numberOfTaskSlots": "3",
        "spark.sql.shuffle.partitions": "2",
        "execution.checkpointing.savepoint-dir": "s3://firesteel/sp",
        "execution.checkpointing.dir": str(home / "checkpoints"),
        "s3.endpoint": s3,
        "s3.access-key": "key",
        "s3.secret-key": "secret",
    }


def test_a_stream_goes_on_in_another_cluster(do: Do, s3: str, keys: S3Keys, tmp_path: Path) -> None:
    stream, aside = Stream(tmp_path / "stream"), Stream(tmp_path / "aside")
    stream.write("a", "b")
    with mini_cluster(do, tmp_path / "one", options(s3, tmp_path / "one")) as first:
        files = Files(first, do, tmp_path)
        path = write_stream(files, COPY)

        async def begun() -> tuple[str, str]:
            job_id = await files.submit(path, stream.parameters)
            await until_counted(files, job_id, stream)
            await until_batch(files, job_id, 0)
            with pytest.raises(SavepointFailed, match="says NoSuchBucket: there is no such bucket: make it"):
                await first.client.take_savepoint(job_id, "s3://nowhere/sp")
            live = await first.client.take_savepoint(job_id)
            stream.write("a", "c")
            await until_counted(files, job_id, stream)
            await until_batch(files, job_id, 1)
            stopped = await first.client.take_savepoint(job_id, "s3a://firesteel/sp", after=AfterSavepoint.STOP)
            assert (await first.client.request_job_result(job_id)).status is JobStatus.FINISHED
            return live, stopped

        live, stopped = do(begun())
    for saved in (live, stopped):
        assert verify(place_at(saved, settings(s3))).is_sealed
    assert not [key for key in names(keys) if ".firesteel-partial-" in key]
    stream.write("d", "a")
    with mini_cluster(do, tmp_path / "two", options(s3, tmp_path / "two")) as second:
        files = Files(second, do, tmp_path)

        async def gone_on() -> None:
            given = {"execution.state-recovery.path": stopped, "execution.state-recovery.claim-mode": "CLAIM", **NOW}
            result = await files.run(path, stream.parameters, given)
            assert result.status is JobStatus.FINISHED, result.failure
            assert stream.counted() == stream.written == stream.copied(), "all rows, once"
            await until(lambda: asyncio.to_thread(is_gone, stopped, s3))
            earlier = {"execution.state-recovery.path": live, **NOW}
            result = await files.run(path, {**stream.parameters, "output": str(aside.output)}, earlier)
            assert result.status is JobStatus.FINISHED, result.failure
            assert aside.counted() == stream.written
            assert aside.copied() == stream.written - Counter("ab"), "a new output begins behind the savepoint"
            verify(place_at(live, settings(s3)))
            harmed = next(key for key in names(keys) if "/offsets/0" in key)
            keys.write(harmed, keys.get(harmed).data[::-1])
            refused = await files.run(path, {**stream.parameters, "output": str(tmp_path / "third")}, earlier)
            assert refused.failure is not None
            assert "offsets/0 is not what was written" in refused.failure.message

        do(gone_on())
    assert {key.split("/")[1] for key in names(keys)} == {live.rpartition("/")[2]}


def is_gone(saved: str, s3: str) -> bool:
    try:
        read_manifest(place_at(saved, settings(s3)))
    except NoSavepoint:
        return True
    return False


def test_by_commands(s3: str, keys: S3Keys, tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.environment |= {"AWS_ENDPOINT_URL": s3, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    with branches.cluster_of(session):
        _by_commands(branches.Stream(session), keys)


def _by_commands(stream: branches.Stream, keys: S3Keys) -> None:
    old, new = (
        body.replace("return fs.stream_files(rows, output)", branches.BY_SPARK)
        for body in (branches.ROWS, branches.FILTERED)
    )
    stream.write(("a", 1), ("c", 1))
    job = stream.begun(old)
    stream.until_committed(job)
    stream.file("new.py", new)
    branch = stream.ran(
        "branch", job, "new.py", "--param", "output=aside", "--savepoint-dir", "s3://firesteel/branches"
    )
    stream.write(("a", 2), ("c", 2))
    rows = stream.compared(job, branch, until_rows=2)
    assert (rows["equal"], rows["only_first"], rows["only_second"]) == (1, 1, 0), "since they parted"
    stream.ran("cancel", branch)

    saved = stream.ran("savepoint", job, "s3://firesteel/saved")
    assert f"{saved} is what was written: " in stream.ran("savepoint", "--verify", saved)
    harmed = next(key for key in names(keys) if key.startswith("saved/") and "/commits/" in key)
    keys.write(harmed, keys.get(harmed).data[::-1])
    told = stream.ran("savepoint", "--verify", saved, code=1)
    assert told == f"{harmed.partition('/')[2].partition('/')[2]} is not what was written\n"
    stream.ran("savepoint", "--dispose", saved)
    assert not list(keys.found("saved/"))
    assert "no savepoint of firesteel: it has no savepoint.json" in stream.ran("savepoint", "--dispose", saved, code=2)
    refused = stream.ran("savepoint", job, "gs://bucket/saved", code=1)
    assert "savepoints that, s3://BUCKET/PATH or hdfs://HOST:PORT/PATH" in refused

    refused = stream.ran("stop", job, "-p", "s3://nowhere/saved", code=1)
    assert "says NoSuchBucket: there is no such bucket: make it" in refused
    stream.write(("b", 3))
    stream.until_read("out", Counter(stream.written))  # its queries run again
    stopped = ""
    while not stopped:  # the JobMaster may not have heard of all of them yet
        stopped = stream.session.command("stop", job, "-p", "s3a://firesteel/saved")[1].strip()
    assert stopped.startswith("s3a://firesteel/saved/savepoint-")
    stream.write(("d", 3))
    again = stream.ran(
        "submit", "old.py", "--param", "input=in", "--param", "output=out", "-s", stopped, "--claim-mode", "CLAIM"
    )
    stream.until_read("out", Counter(stream.written))
    assert [key for key in names(keys) if key.endswith("/claim/job.json")]
    stream.ran("stop", again, "-p", "s3://firesteel/last")
    stream.until(lambda: not list(keys.found("saved/")), "what was claimed goes when there is something newer")


DYING = """
import os, signal, sys
from firesteel.adapters.storage.s3keys import S3Keys
from firesteel.cli.main import main

upload, done = S3Keys.upload, []

def dying(self, name, source):
    upload(self, name, source)
    done.append(name)
    if len(done) > 5:
        os.kill(os.getpid(), signal.SIGKILL)

S3Keys.upload = dying
sys.exit(main())
"""


async def submitted(it: Cluster, stream: Stream) -> JobID:
    file, built_in = it.directory / "job.py", it.directory / "built"
    file.write_text(HEADER.replace('"test"', '"test", mode="streaming"') + COPY)
    built_in.mkdir()
    request = BuildRequest(
        file=str(file), job_id=JobID(uuid.uuid4().hex), parameters=stream.parameters, output_dir=str(built_in)
    )
    built = await asyncio.to_thread(build_file, request)
    return await it.client.submit_job(built.graph, built.artifact_paths())


def test_a_worker_that_is_killed_while_it_uploads_leaves_no_savepoint(s3: str, keys: S3Keys, tmp_path: Path) -> None:
    """Its job goes on at another one, and the next savepoint is whole."""
    stream = Stream(tmp_path / "stream")
    stream.write("a", "b")
    (tmp_path / "dying.py").write_text(DYING)

    async def counted() -> bool:
        return await asyncio.to_thread(stream.counted) == stream.written

    async def story() -> None:
        given = {**options(s3, tmp_path / "home"), **quick_start()}
        async with cluster(tmp_path, given) as it:
            await it.start_worker("dying", str(tmp_path / "dying.py"), "taskmanager")
            await it.until_slots(3)
            job_id = await submitted(it, stream)
            await until(counted)
            with pytest.raises(SavepointFailed, match="the job is RESTARTING"):
                await it.client.take_savepoint(job_id)
            left = names(keys)
            assert [key for key in left if "/queries-" in key]
            assert not [key for key in left if key.endswith("savepoint.json")]
            await it.start_worker("other", "-m", "firesteel", "taskmanager")
            stream.write("a", "c")
            await until(counted)
            location = ""
            while not location:
                with contextlib.suppress(SavepointFailed):  # not all of its queries run again yet
                    location = await it.client.take_savepoint(job_id)
            verify(place_at(location, settings(s3)))
            await it.client.cancel_job(job_id)
            assert (await it.client.request_job_result(job_id)).status is JobStatus.CANCELED
            assert stream.counted() == stream.written

    asyncio.run(story())
