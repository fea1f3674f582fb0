"""Two jobs that would have a query of one id: the one that runs does not notice."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.minicluster import MiniCluster
from firesteel.model.failures import FailureKind
from firesteel.model.states import JobStatus
from firesteel.model.streams import AfterSavepoint
from tests.integration.cluster.conftest import Do, mini_cluster
from tests.integration.cluster.files import Files
from tests.integration.cluster.test_streams import COPY, NOW, Stream, until_batch, until_counted, write_stream

pytestmark = [pytest.mark.spark, pytest.mark.streams]


@pytest.fixture(scope="module")
def cluster(do: Do, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    settings = {"taskmanager.numberOfTaskSlots": "3", "spark.sql.shuffle.partitions": "2"}
    with mini_cluster(do, tmp_path_factory.mktemp("ids"), settings) as made:
        yield made


def test_a_savepoint_of_a_job_that_runs_takes_nothing_from_it(files: Files, tmp_path: Path) -> None:
    """Spark would stop the query that runs when another one with its id begins."""
    stream = Stream(tmp_path / "stream")
    stream.write("a")
    client, path = files.cluster.client, write_stream(files, COPY)

    async def story() -> None:
        job_id = await files.submit(path, stream.parameters)
        await until_counted(files, job_id, stream)
        await until_batch(files, job_id, 0)
        live = await client.take_savepoint(job_id, str(tmp_path / "live"))
        given = {"execution.state-recovery.path": live, "restart-strategy.type": "none"}
        elsewhere = {**stream.parameters, "output": str(tmp_path / "elsewhere")}
        refused = await files.run(path, elsewhere, given)
        assert refused.failure is not None
        assert refused.failure.kind is FailureKind.NON_RECOVERABLE
        assert f"job {job_id} has not ended, and its query counted is the one that savepoint" in refused.failure.message
        apart = {**given, "execution.checkpointing.dir": str(tmp_path / "apart")}
        refused = await files.run(path, elsewhere, apart)
        assert refused.failure is not None
        assert "can't start: another query with its id runs in the same Spark" in refused.failure.message
        stream.write("b")
        await until_counted(files, job_id, stream)
        view = await client.request_job(job_id)
        assert (view.status, view.vertices[0].attempts) == (JobStatus.RUNNING, 1), view.exceptions
        await client.cancel_job(job_id)
        await client.request_job_result(job_id)
        again = await files.run(path, elsewhere, {**given, **NOW})
        assert again.status is JobStatus.FINISHED, again.failure

    files.do(story())


def test_of_two_jobs_that_start_from_a_savepoint_at_once_one_runs(files: Files, tmp_path: Path) -> None:
    """Each in an output of its own: what one has written is never the other's."""
    stream = Stream(tmp_path / "stream")
    stream.write("a")
    client, path = files.cluster.client, write_stream(files, COPY)

    async def story() -> None:
        job_id = await files.submit(path, stream.parameters)
        await until_counted(files, job_id, stream)
        await until_batch(files, job_id, 0)
        saved = await client.take_savepoint(job_id, str(tmp_path / "saved"), after=AfterSavepoint.STOP)
        await client.request_job_result(job_id)
        given = {"execution.state-recovery.path": saved, "restart-strategy.type": "none"}
        outputs = [{**stream.parameters, "output": str(tmp_path / name)} for name in ("one", "other")]
        jobs = await asyncio.gather(*(files.submit(path, each, given) for each in outputs))
        results = [asyncio.ensure_future(client.request_job_result(each)) for each in jobs]
        done, running = await asyncio.wait(results, return_when=asyncio.FIRST_COMPLETED)
        assert (len(done), len(running)) == (1, 1)
        (loser,) = done
        winner = jobs[1 - results.index(loser)]
        failure = loser.result().failure
        assert failure is not None
        assert failure.kind is FailureKind.NON_RECOVERABLE
        assert f"job {winner} has not ended, and its query" in failure.message
        stream.write("b")
        own = Stream(tmp_path / "own")
        own.output, own.written = tmp_path / ("one", "other")[jobs.index(winner)], stream.written
        await until_counted(files, winner, own)
        view = await client.request_job(winner)
        assert (view.status, view.vertices[0].attempts) == (JobStatus.RUNNING, 1), view.exceptions
        await client.cancel_job(winner)
        await client.request_job_result(winner)
        assert not (tmp_path / ("other", "one")[jobs.index(winner)]).exists(), "it has written nothing"

    files.do(story())
