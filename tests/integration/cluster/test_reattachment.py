"""The task process of a stream is killed: its queries run on, and another process follows them."""

import asyncio
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from firesteel.adapters.spark.streams.snapshots.savepoints import verify
from firesteel.minicluster import MiniCluster
from firesteel.model.failures import FailureKind
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.model.streams import AfterSavepoint
from firesteel.model.tasks import TaskProgress
from firesteel.model.views import JobView
from tests.integration.cluster.conftest import Do, mini_cluster
from tests.integration.cluster.files import Files
from tests.integration.cluster.test_streams import (
    COPY,
    NOW,
    WAIT_S,
    Stream,
    Victims,
    until,
    until_batch,
    until_counted,
    until_it_runs_again,
    write_stream,
)
from tests.paths import paths_now

pytestmark = [pytest.mark.spark, pytest.mark.streams]


@pytest.fixture(scope="module")
def work_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reattachment")


@pytest.fixture(scope="module")
def cluster(do: Do, work_dir: Path) -> Iterator[MiniCluster]:
    settings = {
        "taskmanager.numberOfTaskSlots": "3",
        "spark.sql.shuffle.partitions": "2",
        "restart-strategy.exponential-delay.initial-backoff": "100 ms",
    }
    with mini_cluster(do, work_dir, settings) as made:
        yield made


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path / "stream")


def kill(job_id: JobID, name: str = "0-0") -> None:
    """Kill the task process of an attempt."""
    (process,) = Victims.task_process(f"{job_id}/{name}")
    process.kill()


async def until_reattached(files: Files, job_id: JobID, number: int) -> TaskProgress:
    """So many processes have been followed by another, as far as the JobMaster knows; what it knows."""
    give_up = time.monotonic() + WAIT_S
    while True:
        view = await files.cluster.client.request_job(job_id)
        assert not view.status.is_globally_terminal, view.exceptions
        for progress in view.vertices[0].progress:
            if progress.reattachments == number:
                return progress
        assert time.monotonic() < give_up, view
        await asyncio.sleep(0.1)


async def until_ended(files: Files, job_id: JobID) -> JobView:
    await files.cluster.client.request_job_result(job_id)
    return await files.cluster.client.request_job(job_id)


def test_the_queries_run_on_and_are_followed_saved_and_stopped(
    files: Files, stream: Stream, work_dir: Path, tmp_path: Path
) -> None:
    """A stateful query with foreachBatch, and one with Spark's file sink."""
    for number in range(3):
        stream.write("a", f"w{number}")
    client, path = files.cluster.client, write_stream(files, COPY)

    async def story() -> None:
        job_id = await files.submit(path, stream.parameters)
        await until_counted(files, job_id, stream)
        await until_batch(files, job_id, 2)
        runs = commits(work_dir, job_id)
        for number in range(2):
            kill(job_id)
            stream.write("a", f"x{number}")
            await until_reattached(files, job_id, number + 1)
        await until_counted(files, job_id, stream)
        found = await until_batch(files, job_id, 4)
        assert {uid: query.batch_id for uid, query in found.items()} == {"counted": 4, "raw": 4}, "a batch a file"
        await until_rows(files, job_id, sum(stream.written.values()))
        view = await client.request_job(job_id)
        assert (view.status, view.vertices[0].attempts, view.exceptions) == (JobStatus.RUNNING, 1, ())
        assert not paths_now(work_dir, f"**/checkpoints/{job_id}/*/1"), "there is no second attempt"
        assert all(file.stat().st_ino == inode for file, inode in runs.items()), "and none of the first's ran again"
        (log,) = paths_now(work_dir, f"**/logs/{job_id}/0-0.log")
        assert log.read_text().count("was killed by SIGKILL") == 2
        live = await client.take_savepoint(job_id, str(tmp_path / "live"))
        assert [query.uid for query in verify(live).queries] == ["counted", "raw"]
        stream.write("a", "later")
        await until_batch(files, job_id, 5)
        last = await client.take_savepoint(job_id, str(tmp_path / "last"), after=AfterSavepoint.STOP)
        view = await until_ended(files, job_id)
        assert (view.status, view.vertices[0].attempts) == (JobStatus.FINISHED, 1), view.exceptions
        stream.write("a", "resumed")
        again = await files.submit(path, stream.parameters, {"execution.state-recovery.path": last, **NOW})
        result = await client.request_job_result(again)
        assert result.status is JobStatus.FINISHED, result.failure

    files.do(story())
    assert stream.counted() == stream.written == stream.copied(), "each row once"


def commits(work_dir: Path, job_id: JobID) -> dict[Path, int]:
    """Files of batches that are done, with what tells a file from one that replaces it."""
    found = paths_now(work_dir, f"**/checkpoints/{job_id}/*/0/commits/[0-9]*")
    return {file: file.stat().st_ino for file in found}


async def until_rows(files: Files, job_id: JobID, rows: int) -> None:
    """The attempt's count of rows goes on where it was; Spark tells of a batch a moment after it has committed it."""
    async with asyncio.timeout(WAIT_S):
        while True:
            view = await files.cluster.client.request_job(job_id)
            counts = {query.uid: query.input_rows for each in view.vertices[0].progress for query in each.queries}
            assert all(count <= rows for count in counts.values()), counts
            if counts == {"counted": rows, "raw": rows}:
                return
            await asyncio.sleep(0.1)


FILES = """
@pipeline.source
def lines(spark: SparkSession, input: str) -> DataFrame:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    return spark.readStream.option("maxFilesPerTrigger", 1).text(input)

@pipeline.sink
def result(lines: DataFrame, output: str):
    return fs.stream_files(lines, output)
"""


def test_a_drain_by_another_process_writes_each_row_once(files: Files, stream: Stream, tmp_path: Path) -> None:
    """For it the functions are called again, in another session."""
    for number in range(3):
        stream.write("a", f"w{number}")
    client = files.cluster.client

    async def story() -> None:
        job_id = await files.submit(write_stream(files, FILES), stream.parameters)
        await until(lambda: len(list(stream.output.glob("batch-*"))) == 3, "three batches")
        kill(job_id)
        stream.write("a", "x")
        await until_reattached(files, job_id, 1)
        for number in range(3):
            stream.write("a", f"y{number}")
        await client.take_savepoint(job_id, str(tmp_path / "last"), after=AfterSavepoint.DRAIN)
        view = await until_ended(files, job_id)
        assert (view.status, view.vertices[0].attempts) == (JobStatus.FINISHED, 1), view.exceptions

    files.do(story())
    read = pyarrow.parquet.read_table([str(file) for file in stream.output.glob("batch-*.parquet")])
    assert sorted(read.column("value").to_pylist()) == sorted(stream.written.elements())


FAILS_LATER = """
@pipeline.source
def lines(spark: SparkSession, input: str) -> DataFrame:
    return spark.readStream.text(input)

@pipeline.transform
def checked(lines: DataFrame, output: str) -> DataFrame:
    @F.udf("string")
    def check(value):
        if value == "bad":
            import pathlib
            pathlib.Path(output).mkdir(exist_ok=True)
            raise ValueError("no such word")
        return value

    return lines.select(check("value").alias("value"))

@pipeline.sink
def result(checked: DataFrame):
    return checked.writeStream.format("noop")
"""


def test_a_query_that_has_failed_while_nobody_followed_it_fails_the_attempt_with_its_cause(
    files: Files, stream: Stream
) -> None:
    stream.write("good")

    async def story() -> None:
        given = {"restart-strategy.type": "none"}
        job_id = await files.submit(write_stream(files, FAILS_LATER), stream.parameters, given)
        await until_committed(files, job_id)
        (process,) = Victims.task_process(f"{job_id}/0-0")
        forks = process.parent()
        assert forks is not None
        forks.send_signal(signal.SIGSTOP)  # it is asked for the next process, and tells of the death of this one
        try:
            process.kill()
            stream.write("bad")
            await until(stream.output.exists, "the query has failed")
            await asyncio.sleep(1.0)
        finally:
            forks.send_signal(signal.SIGCONT)
        failure = (await files.cluster.client.request_job_result(job_id)).failure
        assert failure is not None
        assert (failure.message, failure.kind) == ("ValueError: no such word", FailureKind.USER)
        assert (failure.vertex, failure.location[:7]) == ("checked", "job.py:")

    files.do(story())


async def until_committed(files: Files, job_id: JobID) -> None:
    async with asyncio.timeout(WAIT_S):
        while True:
            view = await files.cluster.client.request_job(job_id)
            found = [query.batch_id for vertex in view.vertices for each in vertex.progress for query in each.queries]
            if found == [0]:
                return
            await asyncio.sleep(0.1)


LISTENING = """
def listen(spark):
    from pyspark.sql.streaming import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event): pass
        def onQueryProgress(self, event): pass
        def onQueryIdle(self, event): pass
        def onQueryTerminated(self, event): pass

    spark.streams.addListener(Listener())
    return spark
"""


@pytest.mark.parametrize(
    ("body", "settings", "why"),
    [
        (COPY, {"execution.streaming.reattachments": "0"}, "collect less into Python"),
        (COPY.replace("spark.read", "spark.newSession().read"), {}, "in a session that it had made itself"),
        (
            COPY.replace("spark.read", "listen(spark).read") + LISTENING,
            {},
            "a StreamingQueryListener of the pipeline was in that process",
        ),
    ],
    ids=["switched off", "another session", "a listener"],
)
def test_queries_that_are_not_followed_are_started_again(
    files: Files, stream: Stream, body: str, settings: dict[str, str], why: str
) -> None:
    stream.write("a", "b")
    client = files.cluster.client

    async def story() -> None:
        job_id = await files.submit(write_stream(files, body), stream.parameters, settings)
        await until_counted(files, job_id, stream)
        await until_batch(files, job_id, 0)
        kill(job_id)
        await until_it_runs_again(files, job_id)
        (failure,) = (await client.request_job(job_id)).exceptions
        assert "was killed by SIGKILL" in failure.failure.message
        assert why in failure.failure.message
        stream.write("a")
        await until_counted(files, job_id, stream)
        await client.cancel_job(job_id)
        await client.request_job_result(job_id)

    files.do(story())


def test_processes_that_die_again_and_again_fail_the_attempt(files: Files, stream: Stream) -> None:
    stream.write("a")
    client = files.cluster.client

    async def story() -> None:
        given = {"execution.streaming.reattachments": "1"}
        job_id = await files.submit(write_stream(files, COPY), stream.parameters, given)
        await until_counted(files, job_id, stream)
        await until_batch(files, job_id, 0)
        kill(job_id)
        await until_reattached(files, job_id, 1)
        kill(job_id)
        await until_it_runs_again(files, job_id)
        (failure,) = (await client.request_job(job_id)).exceptions
        assert "no other process has followed its queries: 1 were within 10 minutes" in failure.failure.message
        await client.cancel_job(job_id)
        await client.request_job_result(job_id)

    files.do(story())
