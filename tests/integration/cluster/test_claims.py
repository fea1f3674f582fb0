"""A savepoint that a job has claimed: it goes with the first checkpoint, and stays as long as it is the only way back."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.adapters.spark.streams.snapshots.savepoints import verify
from firesteel.minicluster import MiniCluster
from firesteel.model.failures import FailureKind
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
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

pytestmark = [pytest.mark.spark, pytest.mark.streams]
CLAIM = {"execution.state-recovery.claim-mode": "CLAIM"}
RETAIN = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}
TWO = """
@pipeline.source
def left(spark: SparkSession, input: str) -> DataFrame:
    return spark.readStream.text(input)

@pipeline.source
def right(spark: SparkSession, input: str) -> DataFrame:
    return spark.readStream.text(input)

def counts(frame: DataFrame, place: str):
    def replace(batch, batch_id):
        batch.write.mode("overwrite").parquet(place)
    return frame.groupBy("value").count().writeStream.outputMode("complete").foreachBatch(replace)

@pipeline.sink
def first(left: DataFrame, output: str):
    return counts(left, output + "/first")

@pipeline.sink
def second(right: DataFrame, output: str):
    return counts(right, output + "/counted")
"""
"""Two regions with a stateful query each."""


@pytest.fixture(scope="module")
def cluster(do: Do, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    home = tmp_path_factory.mktemp("claims")
    settings = {"taskmanager.numberOfTaskSlots": "3", "spark.sql.shuffle.partitions": "2"}
    settings |= {"execution.checkpointing.dir": str(home / "checkpoints")}
    settings |= {"restart-strategy.exponential-delay.initial-backoff": "100 ms"}
    with mini_cluster(do, home, settings) as made:
        yield made


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream(tmp_path / "stream")


async def stopped(files: Files, stream: Stream, path: Path, place: Path) -> str:
    """The savepoint of a job that was stopped with it."""
    job_id = await files.submit(path, stream.parameters)
    await until_counted(files, job_id, stream)
    await until_batch(files, job_id, 0)
    location = await files.cluster.client.take_savepoint(job_id, str(place))
    await files.cluster.client.cancel_job(job_id)
    await files.cluster.client.request_job_result(job_id)
    return location


def test_it_goes_with_the_first_checkpoint_and_the_job_goes_on_without(
    files: Files, stream: Stream, tmp_path: Path
) -> None:
    stream.write("a", "b")
    client, path = files.cluster.client, write_stream(files, COPY)

    async def story() -> None:
        saved = await stopped(files, stream, path, tmp_path / "saved")
        given = {"execution.state-recovery.path": saved, "execution.streaming.reattachments": "0", **CLAIM}
        job_id = await files.submit(path, stream.parameters, given)
        stream.write("a", "c")
        await until_counted(files, job_id, stream)
        await until_batch(files, job_id, 1)
        verify(saved)
        apart = {"execution.checkpointing.dir": str(tmp_path / "apart")}
        second = await files.run(path, {**stream.parameters, "output": str(tmp_path / "other")}, given | apart)
        assert second.failure is not None
        assert second.failure.kind is FailureKind.NON_RECOVERABLE
        assert f"was claimed by job {job_id}, which disposes of it" in second.failure.message
        verify(saved)
        await client.take_checkpoint(job_id)
        await until(lambda: not Path(saved).exists(), "it is disposed of")
        killed = Victims.task_process(f"{job_id}/0-0")
        assert killed
        for process in killed:
            process.send_signal(signal.SIGKILL)
        stream.write("d")
        await until_it_runs_again(files, job_id)
        await until_counted(files, job_id, stream)
        await client.cancel_job(job_id)
        await client.request_job_result(job_id)

    files.do(story())


def test_a_job_that_has_no_checkpoint_gives_it_back(files: Files, stream: Stream, tmp_path: Path) -> None:
    stream.write("a", "b")
    client, path = files.cluster.client, write_stream(files, COPY)

    async def story() -> None:
        saved = await stopped(files, stream, path, tmp_path / "saved")
        given = {"execution.state-recovery.path": saved, **CLAIM}
        cancelled = await files.submit(path, stream.parameters, given)
        await until((Path(saved) / "claim").exists, "it is claimed")
        await client.cancel_job(cancelled)
        await client.request_job_result(cancelled)
        await until(lambda: not (Path(saved) / "claim").exists(), "it is given back")
        verify(saved)
        stream.write("a", "c")
        finished = await files.run(path, stream.parameters, {**given, **NOW})
        assert finished.status is JobStatus.FINISHED, finished.failure
        assert stream.counted() == stream.written
        await until(lambda: not Path(saved).exists(), "a job that has finished needs no way back")

    files.do(story())


def test_what_stays_of_a_failed_job_is_claimed_as_well(files: Files, stream: Stream, tmp_path: Path) -> None:
    """And replaces the savepoint that the failed job had claimed."""
    stream.write("a", "b")
    path = write_stream(files, COPY)

    async def story() -> None:
        saved = await stopped(files, stream, path, tmp_path / "saved")
        stream.write("broken")
        write_stream(
            files,
            COPY.replace('groupBy("value")', "where(F.expr(\"raise_error('broken')\").isNull())" + '.groupBy("value")'),
        )
        given = {"execution.state-recovery.path": saved, "restart-strategy.type": "none", **CLAIM}
        given |= {"execution.state-recovery.ignore-changed-plan": "true"}
        failed = await files.run(path, stream.parameters, given)
        assert failed.status is JobStatus.FAILED
        assert failed.retained
        await until(lambda: not Path(saved).exists(), "the retained checkpoint is in its place")
        verify(failed.retained)
        write_stream(files, COPY)
        given |= {"execution.state-recovery.path": failed.retained, **NOW}
        finished = await files.run(path, stream.parameters, given)
        assert finished.status is JobStatus.FINISHED, finished.failure
        assert stream.counted() == stream.written
        await until(lambda: not Path(failed.retained).exists(), "and goes in its turn")

    files.do(story())


async def begun(files: Files, job_id: JobID) -> list[str]:
    """uids of the queries that have committed a batch."""
    view = await files.cluster.client.request_job(job_id)
    told = [query for vertex in view.vertices for each in vertex.progress for query in each.queries]
    return sorted(query.uid for query in told if query.batch_id >= 0)


async def until_begun(files: Files, job_id: JobID, count: int) -> None:
    async with asyncio.timeout(WAIT_S):
        while len(await begun(files, job_id)) < count:
            await asyncio.sleep(0.1)


def test_state_of_a_query_that_never_got_a_slot_outlives_the_savepoint(
    files: Files, stream: Stream, tmp_path: Path
) -> None:
    stream.write("a", "b")
    client, path = files.cluster.client, write_stream(files, TWO)

    async def story() -> None:
        saving = await files.submit(path, stream.parameters)
        await until_begun(files, saving, 2)
        saved = await client.take_savepoint(saving, str(tmp_path / "saved"))
        await client.cancel_job(saving)
        await client.request_job_result(saving)
        others = await files.submit(path, {**stream.parameters, "output": str(tmp_path / "others")})
        await until_begun(files, others, 2)
        given = {"execution.state-recovery.path": saved, **CLAIM, **RETAIN}
        job_id = await files.submit(path, stream.parameters, given)
        await until_begun(files, job_id, 1)
        verify(saved)
        await client.cancel_job(job_id)
        result = await client.request_job_result(job_id)
        await until(lambda: not Path(saved).exists(), "what stays is in its place")
        assert sorted(query.uid for query in verify(result.retained).queries) == ["first", "second"]
        await client.cancel_job(others)
        await client.request_job_result(others)
        stream.write("a", "c")
        given = {"execution.state-recovery.path": result.retained, **NOW}
        finished = await files.run(path, stream.parameters, given)
        assert finished.status is JobStatus.FINISHED, finished.failure
        assert stream.counted() == stream.written

    files.do(story())
