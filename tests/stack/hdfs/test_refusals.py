"""What HDFS says no to, and one that does not answer: one sentence with the way out, within seconds."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firesteel.adapters.storage.errors import Unusable
from firesteel.adapters.storage.hdfssinks import HdfsSinks
from firesteel.adapters.storage.resultsprobe import IDENTITY, ResultsUnusable, probe_results
from firesteel.adapters.storage.webhdfs import WebHdfs
from firesteel.cli import doctor
from firesteel.minicluster import MiniCluster
from firesteel.model.failures import FailureInfo
from firesteel.model.options import Configuration
from firesteel.model.views import JobResult
from tests.integration.cluster.files import Files
from tests.network.processes import cluster as running
from tests.sparkjvms import quick_start
from tests.stack.conftest import Do, started
from tests.stack.hadoop import Hdfs
from tests.stack.hdfs.conftest import hdfs_settings
from tests.stack.test_s3_hosts import REAL, exit_code
from tests.stack.test_s3_sinks import PIPELINE


@pytest.fixture
def wrong(do: Do, storage: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    """A cluster of a user who may write nothing but `/open`, as this process is meanwhile."""
    client = storage.client()
    client.make_directory("/open")
    client._asked("PUT", "/open", "SETPERMISSION", permission="777")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HADOOP_USER_NAME", "guest")
        cluster = do(started({**hdfs_settings(storage), "cluster.work-dir": str(tmp_path_factory.mktemp("cluster"))}))
        yield cluster
        do(cluster.close())


def failure(files: Files, **parameters: str) -> FailureInfo:
    result: JobResult = files.do(files.run(files.write(PIPELINE), parameters))
    assert result.failure is not None
    assert "\n" not in result.failure.message
    return result.failure


def test_who_may_not_is_told_who_and_where(wrong: MiniCluster, do: Do, tmp_path: Path, storage: Hdfs) -> None:
    files, closed = Files(wrong, do, tmp_path), storage.uri("/closed/x")
    told = failure(files, output=closed, mode="append").message
    assert f"write_parquet: {storage.uri('/closed/.firesteel-staging')}" in told
    assert 'says AccessControlException: Permission denied: user=guest, access=WRITE, inode="/":' in told
    assert told.endswith(": grant it, or set HADOOP_USER_NAME to who may")
    result = do(files.run(files.write(PIPELINE), {"output": storage.uri("/open/x"), "mode": "append"}))
    assert result.failure is None, "by Spark and by us, as the same user"
    found = storage.client().listed("/open")
    assert [each.name for each in found] == ["x"]


def test_an_address_where_nobody_is_or_somebody_else(do: Do, storage: Hdfs) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        cases: list[tuple[Any, str, type[OSError]]] = [
            (
                closed.getsockname()[1],
                "does not answer ([Errno 111] Connection refused); is fs.hdfs.webhdfs-address right?",
                OSError,
            ),
            (silent.getsockname()[1], "does not answer (timed out); is fs.hdfs.webhdfs-address right?", OSError),
            (
                storage.authority.rpartition(":")[2],
                "answers 404, and not as WebHDFS: is fs.hdfs.webhdfs-address",
                Unusable,
            ),
        ]
        for port, says, kind in cases:
            begun = time.monotonic()
            client = WebHdfs(storage.authority, (f"http://127.0.0.1:{port}",), "root")
            store, target = HdfsSinks(client), storage.uri("/x/y")
            with pytest.raises(kind) as caught:
                store.prepare(target, store.staging(target, "job", "0-0", "0"))
            assert says in str(caught.value), str(caught.value)
            assert str(caught.value).startswith(f"{target}: http://127.0.0.1:{port} ")
            assert time.monotonic() - begun < 15
            client._pool.close()


def stored_at(storage: Hdfs, where: str, **other: str) -> Configuration:
    return Configuration({**hdfs_settings(storage), "cluster.results-dir": where, **other})


def refused(config: Configuration) -> str:
    begun = time.monotonic()
    with pytest.raises(ResultsUnusable) as caught:
        probe_results(config, "taskmanager tm", os.environ)
    assert time.monotonic() - begun < 20
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_workers_that_reach_one_hdfs_find_one_identity(storage: Hdfs) -> None:
    names = ("/probed/of it/x", "/probed//of it/x/", "/probed/other")
    first, same, elsewhere = (
        probe_results(stored_at(storage, storage.uri(name)), "taskmanager tm", {}) for name in names
    )
    assert first == same
    assert first.where == storage.uri("/probed/of it/x")
    assert first.identity != elsewhere.identity
    assert [each.name for each in storage.client().listed("/probed/of it/x")] == [IDENTITY], "the probe is gone"


def test_a_place_for_results_that_can_not_be_used_is_told(storage: Hdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    """With process, place and way out, within seconds."""
    storage.client().write("/a file", b"")
    where, ends = storage.uri("/x"), "; mend that, or set cluster.results-dir to what all workers reach"
    begins = f"taskmanager tm can't use {where} (cluster.results-dir) for stored results: {where}: "
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        for port, says in (
            (closed.getsockname()[1], "[Errno 111] Connection refused"),
            (silent.getsockname()[1], "timed out"),
        ):
            address = f"127.0.0.1:{port}"
            told = refused(stored_at(storage, where, **{"fs.hdfs.webhdfs-address": address}))
            asked = f"http://{address} does not answer ({says}); is fs.hdfs.webhdfs-address right?"
            assert told == f"{begins}{asked}{ends}"
            told = refused(stored_at(storage, f"hdfs://{address}/x"))
            assert f"hdfs://{address}/x: {address} does not answer Spark's client ({says}); is that the" in told
            assert told.endswith(f"as fs.defaultFS has it?{ends}")
    told = refused(stored_at(storage, f"hdfs://{storage.address}/x"))
    assert f"hdfs://{storage.address}/x: {storage.address} is a web server; is that the NameNode's address" in told
    told = refused(stored_at(storage, storage.uri("/a file/x")))
    assert told.endswith(f"/a file (is not a directory): name another path{ends}")
    monkeypatch.setenv("HADOOP_USER_NAME", "guest")
    told = refused(stored_at(storage, storage.uri("/closed/x")))
    assert "says AccessControlException: Permission denied: user=guest, access=WRITE" in told
    assert told.endswith(f": grant it, or set HADOOP_USER_NAME to who may{ends}")
    assert [each.name for each in storage.client().listed("/x")] == [IDENTITY]


def test_doctor_asks_workers_and_spark(storage: Hdfs) -> None:
    place = storage.uri("/looked at")
    of_worker, of_spark = doctor.check_storages(stored_at(storage, place))
    assert (of_worker.subject, of_worker.verdict) == ("results, for workers", doctor.Verdict.OK)
    assert (of_spark.subject, of_spark.verdict) == ("results, for Spark", doctor.Verdict.OK), of_spark
    _, of_spark = doctor.check_storages(stored_at(storage, place, **{"spark.hadoop.fs.hdfs.impl": "no.such.Client"}))
    assert of_spark.verdict is doctor.Verdict.WRONG
    assert place in of_spark.message
    assert of_spark.remedy == "see docs/sinks.md: HADOOP_CONF_DIR, spark.hadoop.*"
    assert [each.name for each in storage.client().listed("/looked at")] == [IDENTITY]


def test_workers_that_can_not_use_the_place_are_refused_before_they_offer_slots(storage: Hdfs, tmp_path: Path) -> None:
    """A NameNode that hangs; and one that only the worker's own client can use, not its Spark."""
    place = storage.uri("/of workers")
    options = {**hdfs_settings(storage), **quick_start(), "cluster.results-dir": place}

    async def story() -> None:
        async with running(tmp_path, options) as it:
            storage.signal_namenode(signal.SIGSTOP)
            try:
                begun = time.monotonic()
                hung = await it.start_worker("hung", *REAL)
                assert await exit_code(hung) == 3, it.log("hung")
                assert time.monotonic() - begun < 45
            finally:
                storage.signal_namenode(signal.SIGCONT)
            told = f"taskmanager hung can't use {place} (cluster.results-dir) for stored results: {place}: http://"
            assert told in it.log("hung")
            assert "does not answer (timed out); is fs.hdfs.webhdfs-address right?; mend that" in it.log("hung")
            misled = await it.start_worker("misled", *REAL, **{"spark.hadoop.fs.hdfs.impl": "no.such.Client"})
            assert await exit_code(misled) == 3, it.log("misled")
            told = f"Spark of this worker can't be used to store results in {place} (cluster.results-dir): "
            assert told in it.log("misled")
            assert (await it.overview()).task_managers == 0
            await it.start_worker("good", *REAL)
            await it.until_slots(2)

    asyncio.run(story())
    assert [each.name for each in storage.client().listed("/of workers")] == [IDENTITY]
