"""A NameNode that goes away, hangs or is in safe mode while a job with stored results and a sink there runs: it costs time, and
nothing else. The job has no restart strategy."""

import asyncio
import io
import re
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from firesteel.adapters.spark.worker import sinkoutput
from firesteel.adapters.storage.hdfssinks import HdfsSinks
from firesteel.adapters.storage.resultsprobe import IDENTITY
from firesteel.adapters.storage.sinks import commit_sink
from firesteel.minicluster import MiniCluster
from firesteel.model.states import JobStatus
from firesteel.model.tasks import Committed, SinkCommit
from firesteel.model.views import JobResult
from tests.integration.cluster.files import Files
from tests.stack.conftest import Do, started, until
from tests.stack.hadoop import Hdfs, hdfs
from tests.stack.hdfs.conftest import hdfs_settings
from tests.stack.storedresults import BODY, EXPECTED, OUTAGE_LIMIT_S, reason_told

RESULTS, OUTPUT = "/results of outages", "/outages"
AWAY: dict[str, tuple[Callable[[Hdfs], None], Callable[[Hdfs], None], str]] = {
    "killed": (Hdfs.kill_namenode, Hdfs.start_namenode, r"does not answer \(\[Errno 111\] Connection refused\)"),
    "hung": (
        lambda storage: storage.signal_namenode(signal.SIGSTOP),
        lambda storage: storage.signal_namenode(signal.SIGCONT),
        r"does not answer \(timed out\)",
    ),
    "in safe mode": (
        lambda storage: storage.set_safe_mode("enter"),
        lambda storage: storage.set_safe_mode("leave"),
        "says SafeModeException: Cannot create directory /",
    ),
}
"""How it goes, how it comes back, and what is said meanwhile."""


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Hdfs]:
    """Of one test, which starts processes of it."""
    with hdfs(tmp_path / "hdfs") as made:
        yield made


@pytest.fixture
def cluster(do: Do, storage: Hdfs, tmp_path: Path) -> Iterator[MiniCluster]:
    options = {**hdfs_settings(storage), "cluster.results-dir": storage.uri(RESULTS)}
    cluster = do(started({**options, "cluster.work-dir": str(tmp_path / "cluster")}))
    yield cluster
    do(cluster.close())


@pytest.fixture
def files(cluster: MiniCluster, do: Do, storage: Hdfs, tmp_path: Path) -> Iterator[Files]:
    """Afterwards nothing of a job is left but its rows."""
    yield Files(cluster, do, tmp_path)
    do(until(lambda: not left(storage), OUTAGE_LIMIT_S))
    assert left(storage) == []


def left(storage: Hdfs) -> list[str]:
    stored = [each.name for each in storage.client().listed(RESULTS) if each.name != IDENTITY]
    return stored + [each.name for each in storage.client().listed(OUTPUT) if each.name != "out"]


def rows(storage: Hdfs) -> dict[int, int]:
    store, target = HdfsSinks(storage.client()), storage.uri(f"{OUTPUT}/out")
    tables = [pyarrow.parquet.read_table(io.BytesIO(store.read(target, name))) for name in store.files(target)]
    found = [(row["k"], row["count"]) for table in tables for row in table.to_pylist()]
    assert len(found) == len(dict(found)), "each row once"
    return dict(found)


async def outlived(files: Files, storage: Hdfs, away: str) -> tuple[JobResult, int]:
    """A job whose consumer runs when it begins; it ends when the consumer has failed of it. And its restarts by then."""
    go, come_back, why = AWAY[away]
    place, directory = re.escape(f"hdfs://{storage.authority}"), files.scratch
    parameters = {"directory": str(directory), "output": storage.uri(f"{OUTPUT}/out")}
    job_id = await files.submit(files.write(BODY), parameters)
    await until((directory / "counts").exists, OUTAGE_LIMIT_S)
    await asyncio.to_thread(go, storage)
    try:
        waits = rf"waits? for {place}, which does not answer \(for \d+ s; http://\S+ {why}"
        await reason_told(files.cluster, job_id, waits, JobStatus.RUNNING)
        (directory / "hold").unlink()
        again = rf"{place} does not answer \(for \d+ s; http://\S+ {why}.*\); what has failed of it runs again"
        restarts = (await reason_told(files.cluster, job_id, again, JobStatus.RESTARTING)).restarts
    finally:
        await asyncio.to_thread(come_back, storage)
    return await files.cluster.client.request_job_result(job_id), restarts


@pytest.mark.parametrize("away", AWAY)
def test_a_job_outlives_it(away: str, files: Files, do: Do, storage: Hdfs) -> None:
    (files.scratch / "hold").touch()
    result, restarts = do(outlived(files, storage, away))
    assert result.status is JobStatus.FINISHED, result.failure
    assert restarts >= 1
    assert rows(storage) == EXPECTED
    assert sorted(path.name for path in files.scratch.glob("numbers-*")) == ["numbers-0-0", "numbers-1-0"], (
        "what was stored is read again, and made once"
    )


@pytest.mark.parametrize("away", ["killed", "hung"])
def test_a_commit_outlives_it(away: str, files: Files, do: Do, storage: Hdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    go, come_back, why = AWAY[away]

    def held(commit: SinkCommit, settings: dict[str, str]) -> Committed:
        begun.set()
        go_on.wait(OUTAGE_LIMIT_S)
        return commit_sink(commit, settings)

    async def story() -> JobResult:
        parameters = {"directory": str(files.scratch), "output": storage.uri(f"{OUTPUT}/out")}
        job_id = await files.submit(files.write(BODY), parameters)
        await until(begun.is_set, OUTAGE_LIMIT_S)
        await asyncio.to_thread(go, storage)
        try:
            go_on.set()
            pattern = rf"result can't be committed yet \(hdfs://{storage.authority}/\S* http://\S+ {why}"
            await reason_told(files.cluster, job_id, pattern, JobStatus.RUNNING)
        finally:
            await asyncio.to_thread(come_back, storage)
        return await files.cluster.client.request_job_result(job_id)

    monkeypatch.setattr(sinkoutput, "commit_sink", held)
    result = do(story())
    assert result.status is JobStatus.FINISHED, result.failure
    assert rows(storage) == EXPECTED
