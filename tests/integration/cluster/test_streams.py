"""Streaming jobs on a mini cluster with a real Spark: followed, restarted from what they have committed, cancelled."""

import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psutil
import pyarrow.parquet
import pytest

from firesteel.adapters.spark.streams.snapshots.savepoints import verify
from firesteel.minicluster import MiniCluster
from firesteel.model.failures import FailureKind
from firesteel.model.ids import JobID
from firesteel.model.states import ExecutionState, JobStatus
from firesteel.model.streams import AfterSavepoint, QueryProgress
from firesteel.runtime.client import SavepointFailed
from tests.integration.cluster.conftest import Do, mini_cluster
from tests.integration.cluster.files import HEADER, Files
from tests.paths import paths_now
from tests.processes import jvms

pytestmark = [pytest.mark.spark, pytest.mark.streams]
EXAMPLES = Path(__file__).parents[3] / "examples"
NOW = {"execution.streaming.trigger": "available-now"}
WAIT_S = 300.0

COPY = """
@pipeline.source
def lines(spark: SparkSession, input: str) -> DataFrame:
    return spark.readStream.option("maxFilesPerTrigger", 1).text(input)

@pipeline.transform
def counts(lines: DataFrame) -> DataFrame:
    return lines.groupBy("value").count()

@pipeline.sink(uid="raw")
def copied(lines: DataFrame, output: str):
    return lines.writeStream.format("parquet").option("path", output + "/copied")

@pipeline.sink
def counted(counts: DataFrame, output: str):
    def replace(batch, batch_id):
        batch.write.mode("overwrite").parquet(output + "/counted")
    return counts.writeStream.outputMode("complete").foreachBatch(replace)
"""
"""A dataset with two sinks, one of them stateful."""


@pytest.fixture(scope="module")
def work_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("streams")


@pytest.fixture(scope="module")
def cluster(do: Do, work_dir: Path) -> Iterator[MiniCluster]:
    """With a slot for each of a job's regions, and state in few parts."""
    settings = {"taskmanager.numberOfTaskSlots": "3", "spark.sql.shuffle.partitions": "2"}
    with mini_cluster(do, work_dir, settings) as made:
        yield made


class Stream:
    """Input and output directories of a streaming job."""

    def __init__(self, directory: Path) -> None:
        self.input, self.output = directory / "in", directory / "out"
        self.input.mkdir(parents=True)
        self.written: Counter[str] = Counter()
        self._files = 0

    @property
    def parameters(self) -> dict[str, str]:
        return {"input": str(self.input), "output": str(self.output)}

    def write(self, *words: str) -> None:
        """Add a file; it is there whole, or not at all."""
        self._files += 1
        hidden = self.input / f".{self._files}"
        hidden.write_text("\n".join(words) + "\n")
        hidden.rename(self.input / f"{self._files:04}.txt")
        self.written.update(words)

    def copied(self) -> Counter[str]:
        """Words of the file sink, as Spark's log of it says: what else is there is being written, or was never committed."""
        log = self.output / "copied" / "_spark_metadata"
        lines = [line for file in log.glob("[0-9]*") for line in file.read_text().splitlines()[1:]]
        files = {unquote(urlsplit(json.loads(line)["path"]).path) for line in lines}
        return Counter(word for file in files for word in pyarrow.parquet.read_table(file)["value"].to_pylist())

    def counted(self) -> Counter[str]:
        try:
            rows = pyarrow.parquet.read_table(self.output / "counted").to_pylist()
        except (FileNotFoundError, OSError):
            return Counter()
        return Counter({row["value"]: row["count"] for row in rows})


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path / "stream")


async def until(is_so: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < give_up, what
        await asyncio.sleep(0.1)


async def queries_of(files: Files, job_id: JobID) -> dict[str, QueryProgress]:
    view = await files.cluster.client.request_job(job_id)
    return {query.uid: query for each in view.vertices[0].progress for query in each.queries}


async def until_batch(files: Files, job_id: JobID, batch_id: int) -> dict[str, QueryProgress]:
    """Both queries of COPY have committed that batch, as far as the JobMaster knows; what it knows."""
    give_up = time.monotonic() + WAIT_S
    while True:
        found = await queries_of(files, job_id)
        if found.keys() == {"counted", "raw"} and all(query.batch_id >= batch_id for query in found.values()):
            return found
        assert time.monotonic() < give_up, found
        await asyncio.sleep(0.1)


async def until_counted(files: Files, job_id: JobID, stream: Stream) -> None:
    give_up = time.monotonic() + WAIT_S
    while stream.counted() != stream.written:
        view = await files.cluster.client.request_job(job_id)
        assert not view.status.is_globally_terminal, view.exceptions
        assert time.monotonic() < give_up, (stream.counted(), view)
        await asyncio.sleep(0.1)


async def until_it_runs_again(files: Files, job_id: JobID) -> None:
    """In its second attempt, as far as the JobMaster knows: Spark may have written on for a moment without the first."""
    async with asyncio.timeout(WAIT_S):
        while True:
            view = await files.cluster.client.request_job(job_id)
            vertex = view.vertices[0]
            if (view.status, vertex.status, vertex.attempts) == (JobStatus.RUNNING, ExecutionState.RUNNING, 2):
                return
            await asyncio.sleep(0.1)


def write_stream(files: Files, body: str) -> Path:
    path = files.write("")
    path.write_text(HEADER.replace('"test"', '"test", mode="streaming"') + body)
    return path


def test_a_stream_of_what_is_there_ends(files: Files, stream: Stream) -> None:
    stream.write("a", "b", "a")
    stream.write("c", "a")
    result = files.do(files.run(write_stream(files, COPY), stream.parameters, NOW))
    assert result.status is JobStatus.FINISHED, result.failure
    assert stream.counted() == stream.written == stream.copied()


def test_the_example(files: Files, stream: Stream) -> None:
    stream.write("to be or", "not to be")
    result = files.do(files.run(EXAMPLES / "streaming_wordcount.py", stream.parameters, NOW))
    assert result.status is JobStatus.FINISHED, result.failure
    rows = pyarrow.parquet.read_table(stream.output).to_pylist()
    assert {row["word"]: row["count"] for row in rows} == {"to": 2, "be": 2, "or": 1, "not": 1}


def test_a_stream_is_followed_and_cancelled(files: Files, stream: Stream, work_dir: Path) -> None:
    stream.write("a", "b")

    async def story() -> None:
        job_id = await files.submit(write_stream(files, COPY), stream.parameters)
        await until_counted(files, job_id, stream)
        stream.write("a")
        await until_counted(files, job_id, stream)
        counted = (await until_batch(files, job_id, 1))["counted"]
        give_up = time.monotonic() + WAIT_S
        while counted.input_rows < 3:  # Spark tells of a batch a moment after it has committed it
            assert time.monotonic() < give_up, counted
            await asyncio.sleep(0.1)
            counted = (await queries_of(files, job_id))["counted"]
        assert (counted.input_rows, counted.state_rows) == (3, 2)
        assert counted.state_bytes > 0
        assert counted.batch_duration_ms >= 0, "none where it was idle since"
        assert paths_now(work_dir, f"**/checkpoints/{job_id}/raw/0/commits/0")
        await files.cluster.client.cancel_job(job_id)
        result = await files.cluster.client.request_job_result(job_id)
        assert result.status is JobStatus.CANCELED
        stream.write("never")
        await asyncio.sleep(2.0)
        assert "never" not in stream.counted(), "its queries are stopped"
        await until(lambda: not paths_now(work_dir, f"**/checkpoints/{job_id}"), "checkpoints are left")

    files.do(story())


FAILING = """
@pipeline.source
def numbers(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").option("rowsPerSecond", 10).load()

@F.udf("bigint")
def broken(value):
    raise ValueError("no such number")

@pipeline.sink
def result(numbers: DataFrame):
    return numbers.select(broken("value")).writeStream.format("noop")
"""


def test_the_cause_of_a_failed_query_is_the_users(files: Files) -> None:
    result = files.do(files.run(write_stream(files, FAILING), configuration={"restart-strategy.type": "none"}))
    assert result.status is JobStatus.FAILED
    assert result.failure is not None
    assert result.failure.message == "ValueError: no such number"
    assert (result.failure.vertex, result.failure.kind) == ("result", FailureKind.USER)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return lines.writeStream.format('noop').start()", "sink result has started a query itself"),
        ("fs.write_parquet(lines, '/nowhere')", "fs.write_[*] writes a batch"),
        ("lines.writeStream.format('noop')", "returned nothing"),
    ],
)
def test_what_is_no_streaming_sink(files: Files, stream: Stream, body: str, words: str) -> None:
    pipeline = COPY.partition("@pipeline.transform")[0] + f"@pipeline.sink\ndef result(lines):\n    {body}\n"
    result = files.do(files.run(write_stream(files, pipeline), {"input": str(stream.input)}))
    assert result.failure is not None
    assert result.failure.kind is FailureKind.NON_RECOVERABLE
    assert words.replace("[*]", "*") in result.failure.message


@pytest.mark.parametrize(
    ("source", "sink", "words"),
    [
        ("readStream", "fs.write_parquet(lines, '/nowhere')", "source lines reads a stream"),
        ("read", "return lines.writeStream", "sink result writes a stream"),
    ],
)
def test_no_stream_in_a_batch_pipeline(files: Files, stream: Stream, source: str, sink: str, words: str) -> None:
    body = (
        f"@pipeline.source\ndef lines(spark, input: str):\n    return spark.{source}.text(input)\n"
        f"@pipeline.sink\ndef result(lines):\n    {sink}\n"
    )
    result = files.do(files.run(files.write(body), {"input": str(stream.input)}))
    assert result.failure is not None
    assert words in result.failure.message


class Victims:
    """What can be killed of a cluster in this process."""

    @staticmethod
    def task_process(name: str) -> list[psutil.Process]:
        found = []
        for process in psutil.Process().children(recursive=True):
            try:
                if process.cwd().endswith(name):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    @staticmethod
    def jvm(work_dir: Path) -> list[psutil.Process]:
        """Of the cluster that works below this directory: other tests have theirs in this process."""
        return [each for each in jvms() if str(work_dir) in " ".join(each.cmdline())]


@pytest.fixture
def own_files(do: Do, tmp_path: Path) -> Iterator[Files]:
    """A cluster of the test's own: something is killed in it."""
    fast = {"restart-strategy.exponential-delay.initial-backoff": "100 ms", "spark.sql.shuffle.partitions": "2"}
    with mini_cluster(do, tmp_path / "work", fast) as made:
        yield Files(made, do, tmp_path)


def test_what_was_committed_is_gone_on_from(own_files: Files, stream: Stream) -> None:
    files = own_files
    for number in range(5):
        stream.write("a", f"w{number}")

    async def story() -> None:
        job_id = await files.submit(write_stream(files, COPY), stream.parameters)
        await until_counted(files, job_id, stream)
        killed = Victims.jvm(files.scratch / "work")
        assert killed
        for process in killed:
            process.send_signal(signal.SIGKILL)
        for number in range(3):
            stream.write("a", f"x{number}")
        await until_counted(files, job_id, stream)
        await until_it_runs_again(files, job_id)
        await until(lambda: stream.copied() == stream.written, "the other sink has come as far")
        found = await until_batch(files, job_id, 7)
        assert found["counted"].batch_id == 7, "a batch a file: none was run again under another number"
        await files.cluster.client.cancel_job(job_id)
        await files.cluster.client.request_job_result(job_id)

    files.do(story())
    assert stream.copied() == stream.written, "each row once, also those of batches in flight"
    assert os.listdir(stream.output / "copied" / "_spark_metadata")


@pytest.mark.parametrize("after", [AfterSavepoint.STOP, AfterSavepoint.DRAIN, AfterSavepoint.CANCEL])
def test_a_job_that_ends_with_a_savepoint_is_gone_on_from_by_another(
    files: Files, stream: Stream, tmp_path: Path, after: AfterSavepoint
) -> None:
    for number in range(3):
        stream.write("a", f"w{number}")
    client, path = files.cluster.client, write_stream(files, COPY)

    async def story() -> None:
        job_id = await files.submit(path, stream.parameters)
        await until_counted(files, job_id, stream)
        await until_batch(files, job_id, 2)
        live = await client.take_savepoint(job_id, str(tmp_path / "live"))
        view = await client.request_job(job_id)
        assert view.status is JobStatus.RUNNING, "it goes on"
        stream.write("a", "later")
        await until_counted(files, job_id, stream)
        last = await client.take_savepoint(job_id, str(tmp_path / "last"), after=after)
        result = await client.request_job_result(job_id)
        ends = JobStatus.CANCELED if after is AfterSavepoint.CANCEL else JobStatus.FINISHED
        assert result.status is ends, result.failure
        assert [query.uid for query in verify(live).queries] == ["counted", "raw"]
        assert verify(last).job_id == job_id
        stream.write("a", "resumed")
        again = await files.submit(path, stream.parameters, {"execution.state-recovery.path": last, **NOW})
        result = await client.request_job_result(again)
        assert result.status is JobStatus.FINISHED, result.failure
        assert stream.counted() == stream.written, "the state of the job before, and what came since"
        with pytest.raises(SavepointFailed, match="is FINISHED"):
            await client.take_savepoint(again, str(tmp_path / "last"))
        await client.dispose_savepoint(live)
        assert not Path(live).exists()
        with pytest.raises(SavepointFailed, match="is no savepoint of firesteel"):
            await client.dispose_savepoint(live)

    files.do(story())


def test_a_job_whose_last_savepoint_fails_goes_on(files: Files, stream: Stream, tmp_path: Path) -> None:
    stream.write("a")
    client = files.cluster.client
    (tmp_path / "file").write_text("no directory")

    async def story() -> None:
        job_id = await files.submit(write_stream(files, COPY), stream.parameters)
        await until_counted(files, job_id, stream)
        await until_batch(files, job_id, 0)
        with pytest.raises(SavepointFailed, match="could not be written"):
            await client.take_savepoint(job_id, str(tmp_path / "file"), after=AfterSavepoint.STOP)
        stream.write("b")
        await until_counted(files, job_id, stream)
        assert (await client.request_job(job_id)).status is JobStatus.RUNNING
        await client.cancel_job(job_id)
        await client.request_job_result(job_id)

    files.do(story())


def test_state_that_no_sink_claims(files: Files, stream: Stream, tmp_path: Path) -> None:
    stream.write("a", "b")
    client = files.cluster.client
    renamed = COPY.replace('uid="raw"', 'uid="other"')

    async def story() -> None:
        job_id = await files.submit(write_stream(files, COPY), stream.parameters)
        await until_counted(files, job_id, stream)
        await until_batch(files, job_id, 0)
        saved = await client.take_savepoint(job_id, str(tmp_path / "saved"), after=AfterSavepoint.STOP)
        path = write_stream(files, renamed)
        given = {"execution.state-recovery.path": saved, **NOW}
        parameters = {**stream.parameters, "output": str(tmp_path / "elsewhere")}
        result = await files.run(path, parameters, given)
        assert result.failure is not None
        assert result.failure.kind is FailureKind.NON_RECOVERABLE
        assert (
            "has state of raw, and no sink of the pipeline has that uid (it has counted, other)"
            in result.failure.message
        )
        allowed = {**given, "execution.state-recovery.ignore-unclaimed-state": "true"}
        stream.write("a")
        result = await files.run(path, parameters, allowed)
        assert result.status is JobStatus.FINISHED, result.failure

    files.do(story())
    rows = pyarrow.parquet.read_table(tmp_path / "elsewhere/counted").to_pylist()
    assert {row["value"]: row["count"] for row in rows} == {"a": 2, "b": 1}
