"""What HDFS says no to, and one that does not answer: one sentence with the way out, within seconds."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firesteel.adapters.storage.errors import Unusable
from firesteel.adapters.storage.hdfssinks import HdfsSinks
from firesteel.adapters.storage.webhdfs import WebHdfs
from firesteel.minicluster import MiniCluster
from firesteel.model.failures import FailureInfo
from firesteel.model.views import JobResult
from tests.integration.cluster.files import Files
from tests.stack.conftest import Do, started
from tests.stack.hadoop import Hdfs
from tests.stack.hdfs.conftest import hdfs_settings
from tests.stack.test_s3_sinks import PIPELINE


@pytest.fixture(scope="module")
def wrong(do: Do, storage: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    """A cluster of a user who may write nothing but `/open`."""
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
