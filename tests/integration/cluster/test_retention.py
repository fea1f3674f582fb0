"""What stays of a stream that has ended for good, and streams that go on from there; with a real Spark."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.adapters.spark.streams.snapshots.listing import is_fence
from firesteel.adapters.spark.streams.snapshots.savepoints import verify
from firesteel.minicluster import MiniCluster
from firesteel.model.ids import JobID
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult
from tests.integration.cluster.conftest import Do, mini_cluster
from tests.integration.cluster.files import Files
from tests.integration.cluster.test_streams import COPY, NOW, Stream, until, until_batch, until_counted, write_stream

pytestmark = [pytest.mark.spark, pytest.mark.streams]

DIR, RETENTION = "execution.checkpointing.dir", "execution.checkpointing.externalized-checkpoint-retention"
RESTARTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "2",
    "restart-strategy.fixed-delay.delay": "100 ms",
}
FAILS = COPY.replace(
    "        batch.write",
    """        from pathlib import Path
        if Path(output).with_name("poison").exists():
            raise RuntimeError("it is poisoned")
        batch.write""",
)
"""The stateful query fails as long as there is such a file."""


@pytest.fixture(scope="module")
def cluster(do: Do, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    settings = {"taskmanager.numberOfTaskSlots": "3", "spark.sql.shuffle.partitions": "2"}
    with mini_cluster(do, tmp_path_factory.mktemp("retention"), settings) as made:
        yield made


class Retained:
    """Jobs of one pipeline, with checkpoints in a directory that workers share."""

    def __init__(self, files: Files, directory: Path) -> None:
        self.files, self.client, self.shared = files, files.cluster.client, directory / "shared"
        self.stream, self.poison = Stream(directory / "stream"), directory / "stream" / "poison"
        self.path = write_stream(files, FAILS)
        self.settings = {DIR: str(self.shared), **RESTARTS}

    async def begin(self, **more: str) -> JobID:
        """A job that has counted what there is."""
        job_id = await self.files.submit(self.path, self.stream.parameters, {**self.settings, **more})
        await until_counted(self.files, job_id, self.stream)
        await until_batch(self.files, job_id, 0)
        return job_id

    async def fail(self, **more: str) -> JobResult:
        """It fails for good, in a batch of its stateful query that the other one may have done."""
        job_id = await self.begin(**more)
        self.poison.touch()
        self.stream.write("a", "poisoned")
        return await self.client.request_job_result(job_id)

    async def cancel(self, **more: str) -> JobResult:
        job_id = await self.begin(**more)
        await self.client.cancel_job(job_id)
        return await self.client.request_job_result(job_id)

    def left(self, job_id: JobID) -> list[Path]:
        return sorted((self.shared / job_id).glob("*"))

    async def stays(self, result: JobResult) -> None:
        """It is a savepoint, and all that is left of the job."""
        retained = Path(result.retained)
        assert retained.parent == self.shared / result.job_id
        await until(lambda: self.left(result.job_id) == [retained], "more is left, or nothing")
        manifest = verify(result.retained)
        assert sorted(query.uid for query in manifest.queries) == ["counted", "raw"]
        assert not [path for path in retained.glob("queries/*/offsets/*") if is_fence(path)]
        view = (await self.client.request_job(result.job_id)).checkpoints
        assert view is not None
        last = view.history.latest_completed
        assert last is not None
        assert (last.retained, view.history.retained) == (result.retained, (last,))

    async def go_on(self, retained: str) -> None:
        """Another job reads the rest, and ends as one would have that nothing had happened to."""
        given = {**self.settings, **NOW, "execution.state-recovery.path": retained}
        result = await self.files.run(self.path, self.stream.parameters, given)
        assert result.status is JobStatus.FINISHED, result.failure
        assert self.stream.counted() == self.stream.written == self.stream.copied()
        assert not result.retained
        await until(lambda: not (self.shared / result.job_id).exists(), "of a job that has finished nothing stays")


@pytest.fixture
def jobs(files: Files, tmp_path: Path) -> Retained:
    made = Retained(files, tmp_path)
    made.stream.write("a", "b")
    return made


@pytest.mark.timeout(900)
def test_a_job_that_has_failed_is_gone_on_from(jobs: Retained) -> None:
    async def story() -> None:
        result = await jobs.fail()
        assert result.status is JobStatus.FAILED
        await jobs.stays(result)
        jobs.poison.unlink()
        jobs.stream.write("c", "a")
        await jobs.go_on(result.retained)
        await jobs.client.dispose_savepoint(result.retained)
        assert not (jobs.shared / result.job_id).exists()

    jobs.files.do(story())


@pytest.mark.timeout(900)
def test_a_query_that_retains_one_batch_is_gone_on_from_in_mid_batch(jobs: Retained) -> None:
    """By the attempts that follow, and by another job."""
    one = {"spark.sql.streaming.minBatchesToRetain": "1"}

    async def story() -> None:
        job_id = await jobs.begin(**one)
        for batch, word in enumerate("cde", start=1):
            jobs.stream.write(word)
            await until_counted(jobs.files, job_id, jobs.stream)
            await until_batch(jobs.files, job_id, batch)
        jobs.poison.touch()
        jobs.stream.write("a", "poisoned")
        result = await jobs.client.request_job_result(job_id)
        assert result.restarts == 2, "as often as it may"
        await jobs.stays(result)
        jobs.poison.unlink()
        jobs.stream.write("c", "a")
        await jobs.go_on(result.retained)

    jobs.files.do(story())


@pytest.mark.timeout(900)
def test_what_stays_of_a_job_that_was_cancelled(jobs: Retained) -> None:
    async def story() -> None:
        result = await jobs.cancel(**{RETENTION: "RETAIN_ON_CANCELLATION"})
        assert result.status is JobStatus.CANCELED
        await jobs.stays(result)
        jobs.stream.write("b", "c")
        await jobs.go_on(result.retained)

    jobs.files.do(story())


@pytest.mark.timeout(900)
def test_nothing_stays_that_is_not_wanted(jobs: Retained) -> None:
    async def story() -> None:
        cancelled = await jobs.cancel()
        jobs.stream.output = jobs.stream.output.with_name("other")  # Spark's file sink takes no second query
        failed = await jobs.fail(**{RETENTION: "NO_EXTERNALIZED_CHECKPOINTS"})
        assert (cancelled.status, failed.status) == (JobStatus.CANCELED, JobStatus.FAILED)
        assert (cancelled.retained, failed.retained) == ("", "")
        await until(lambda: not any(map(jobs.left, (cancelled.job_id, failed.job_id))), "checkpoints are left")

    jobs.files.do(story())
