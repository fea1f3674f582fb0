"""Savepoints of a real stream in a real HDFS: taken while it runs, by its end, gone on from in another cluster, by commands."""

import asyncio
from collections import Counter
from pathlib import Path

from firesteel.adapters.spark.streams.snapshots.errors import NoSavepoint
from firesteel.adapters.spark.streams.snapshots.places import place_at
from firesteel.adapters.spark.streams.snapshots.savepoints import read_manifest, verify
from firesteel.adapters.storage.s3settings import hadoop_settings
from firesteel.model.options import Configuration
from firesteel.model.states import JobStatus
from firesteel.model.streams import AfterSavepoint
from tests.integration.cluster import test_branches as branches
from tests.integration.cluster.conftest import mini_cluster
from tests.integration.cluster.files import Files
from tests.integration.cluster.test_session_cluster import Session
from tests.integration.cluster.test_streams import COPY, NOW, Stream, until_batch, until_counted, write_stream
from tests.network.processes import until
from tests.stack.conftest import Do
from tests.stack.hadoop import Hdfs
from tests.stack.hdfs.conftest import hdfs_settings

SAVED = "/saved streams"


def options(storage: Hdfs, home: Path) -> dict[str, str]:
    """Of a cluster that shares nothing with another one but the HDFS."""
    home.mkdir()
    return {
        **hdfs_settings(storage),
        "taskmanager.numberOfTaskSlots": "3",
        "spark.sql.shuffle.partitions": "2",
        "execution.checkpointing.savepoint-dir": storage.uri(SAVED),
        "execution.checkpointing.dir": str(home / "checkpoints"),
    }


def test_a_stream_goes_on_in_another_cluster(do: Do, storage: Hdfs, tmp_path: Path) -> None:
    settings = hadoop_settings(Configuration(hdfs_settings(storage)), {})
    stream, aside = Stream(tmp_path / "stream"), Stream(tmp_path / "aside")
    stream.write("a", "b")
    with mini_cluster(do, tmp_path / "one", options(storage, tmp_path / "one")) as first:
        files = Files(first, do, tmp_path)
        path = write_stream(files, COPY)

        async def begun() -> tuple[str, str]:
            job_id = await files.submit(path, stream.parameters)
            await until_counted(files, job_id, stream)
            await until_batch(files, job_id, 0)
            live = await first.client.take_savepoint(job_id)
            stream.write("a", "c")
            await until_counted(files, job_id, stream)
            await until_batch(files, job_id, 1)
            cancelled = await first.client.take_savepoint(
                job_id, storage.uri(f"{SAVED}/last"), after=AfterSavepoint.CANCEL
            )
            assert (await first.client.request_job_result(job_id)).status is JobStatus.CANCELED
            return live, cancelled

        live, cancelled = do(begun())
    for saved in (live, cancelled):
        assert saved.startswith(storage.uri(f"{SAVED}/"))
        assert verify(place_at(saved, settings)).is_sealed
    stream.write("d", "a")
    with mini_cluster(do, tmp_path / "two", options(storage, tmp_path / "two")) as second:
        files = Files(second, do, tmp_path)

        def is_gone() -> bool:
            try:
                read_manifest(place_at(cancelled, settings))
            except NoSavepoint:
                return True
            return False

        async def gone_on() -> None:
            given = {"execution.state-recovery.path": cancelled, "execution.state-recovery.claim-mode": "CLAIM", **NOW}
            result = await files.run(path, stream.parameters, given)
            assert result.status is JobStatus.FINISHED, result.failure
            assert stream.counted() == stream.written == stream.copied(), "all rows, once"
            await until(lambda: asyncio.to_thread(is_gone))
            earlier = {"execution.state-recovery.path": live, **NOW}
            result = await files.run(path, {**stream.parameters, "output": str(aside.output)}, earlier)
            assert result.status is JobStatus.FINISHED, result.failure
            assert aside.counted() == stream.written
            assert aside.copied() == stream.written - Counter("ab"), "a new output begins behind the savepoint"
            verify(place_at(live, settings))

        do(gone_on())
    left = [each.name for each in storage.client().listed(SAVED)]
    assert sorted(left) == sorted(["last", live.rpartition("/")[2]])
    assert storage.client().listed(f"{SAVED}/last") == []


def test_by_commands(storage: Hdfs, tmp_path: Path) -> None:
    session = Session(tmp_path)
    (session.scratch / "conf").mkdir()
    (session.scratch / "conf/config.yaml").write_text(f"fs.hdfs.webhdfs-address: {storage.address}\n")
    with branches.cluster_of(session):
        _by_commands(branches.Stream(session), storage)


def _by_commands(stream: branches.Stream, storage: Hdfs) -> None:
    top = "/by commands"
    old, new = (
        body.replace("return fs.stream_files(rows, output)", branches.BY_SPARK)
        for body in (branches.ROWS, branches.FILTERED)
    )
    stream.write(("a", 1), ("c", 1))
    job = stream.begun(old)
    stream.until_committed(job)
    stream.file("new.py", new)
    saved_to = storage.uri(f"{top}/branches")
    branch = stream.ran("branch", job, "new.py", "--param", "output=aside", "--savepoint-dir", saved_to)
    stream.write(("a", 2), ("c", 2))
    rows = stream.compared(job, branch, until_rows=2)
    assert (rows["equal"], rows["only_first"], rows["only_second"]) == (1, 1, 0), "since they parted"
    stream.ran("cancel", branch)

    saved = stream.ran("savepoint", job, storage.uri(f"{top}/saved"))
    assert f"{saved} is what was written: " in stream.ran("savepoint", "--verify", saved)
    harmed = f"{saved}/queries/0-result/commits/0".removeprefix(storage.uri(""))
    storage.client().write(harmed, storage.client().read(harmed)[::-1])
    told = stream.ran("savepoint", "--verify", saved, code=1)
    assert told == "queries/0-result/commits/0 is not what was written\n"
    stream.ran("savepoint", "--dispose", saved)
    assert storage.client().listed(f"{top}/saved") == []
    assert "no savepoint of firesteel: it has no savepoint.json" in stream.ran("savepoint", "--dispose", saved, code=2)

    stopped = ""
    while not stopped:  # the JobMaster may not have heard of all of them yet
        stopped = stream.session.command("stop", job, "-p", storage.uri(f"{top}/saved"))[1].strip()
    stream.write(("d", 3))
    again = stream.ran(
        "submit", "old.py", "--param", "input=in", "--param", "output=out", "-s", stopped, "--claim-mode", "CLAIM"
    )
    stream.until_read("out", Counter(stream.written))
    assert storage.client().status(f"{stopped}/claim/job.json".removeprefix(storage.uri(""))) is not None
    stream.ran("stop", again, "-p", storage.uri(f"{top}/last"))
    stream.until(
        lambda: storage.client().listed(f"{top}/saved") == [], "what was claimed goes when there is something newer"
    )
