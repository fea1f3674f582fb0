"""Jobs whose regions store results in a bucket: deaths, losses, a busy server; afterwards the rows, and nothing else."""

import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from firesteel.adapters.storage.resultsprobe import IDENTITY
from firesteel.adapters.storage.s3keys import S3Keys
from firesteel.minicluster import MiniCluster
from firesteel.model.states import JobStatus
from tests.integration.cluster.files import HEADER, Files
from tests.integration.cluster.test_jobs import rows_of
from tests.integration.cluster.test_session_cluster import LIMIT_S, Session, wait_for
from tests.stack.conftest import Do, s3_settings, started, until
from tests.stack.faultyproxy import faulty_proxy
from tests.stack.test_s3_commits import keys_at

RESULTS = "shared results"
BODY = """
import os, time

def noted(directory, what):
    with open(f"{directory}/{what}", "a") as file:
        file.write(f"{os.getpid()}\\n")

@pipeline.source(parallelism=2, splits=fs.range_splits("n", 0, 4_000, 40))
def numbers(spark: SparkSession, splits: fs.RangeSplits, directory: str, context) -> DataFrame:
    noted(directory, f"numbers-{context.subtask}-{context.attempt}")
    return splits.read(spark).withColumn("k", F.col("n") % 7)

@pipeline.transform(parallelism=3, inputs={"numbers": fs.hash_by("k")})
def counts(numbers: DataFrame, directory: str, context) -> DataFrame:
    if context.subtask == 0:
        noted(directory, "counts")
        while os.path.exists(f"{directory}/hold"):
            time.sleep(0.05)
    return numbers.groupBy("k").count()

@pipeline.sink
def result(counts: DataFrame, output: str) -> None:
    fs.write_parquet(counts, output)
"""
EXPECTED = {k: len(range(k, 4_000, 7)) for k in range(7)}
RETRY = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "100 ms"}


@pytest.fixture
def keys(s3: str, do: Do) -> Iterator[S3Keys]:
    """Afterwards nothing of any result is left."""
    keys = keys_at(s3)
    yield keys
    do(until(lambda: not left_in(keys)))
    assert left_in(keys) == []
    assert keys._client.list_multipart_uploads(Bucket="firesteel").get("Uploads", []) == []


def left_in(keys: S3Keys) -> list[str]:
    """What is there, but for what tells the storage from others."""
    return [each.key for each in keys.found(f"{RESULTS}/") if each.key != f"{RESULTS}/{IDENTITY}"]


def shared_in(url: str) -> dict[str, str]:
    return {**s3_settings(url), "cluster.results-dir": f"s3://firesteel/{RESULTS}"}


@pytest.fixture(scope="module")
def cluster(do: Do, s3: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    cluster = do(started({**shared_in(s3), "cluster.work-dir": str(tmp_path_factory.mktemp("cluster"))}))
    yield cluster
    do(cluster.close())


def found(output: Path) -> dict[int, int]:
    return {row["k"]: row["count"] for row in rows_of(output)}


async def _held(files: Files, path: Path, directory: Path, keys: S3Keys) -> JobStatus:
    """Run the job; while the consumer holds, an object of what it is to read is deleted."""
    job_id = await files.submit(path, {"directory": str(directory), "output": str(directory / "out")}, RETRY)
    await until((directory / "counts").exists, LIMIT_S)
    stored = [each.key for each in keys.found(f"{RESULTS}/{job_id}/") if "subpartition=0/part-" in each.key]
    keys.delete(stored[:1])
    (directory / "hold").unlink()
    done = await files.cluster.client.request_job_result(job_id)
    assert (len(stored) > 1, done.restarts) == (True, 1), done
    return done.status


def test_an_object_that_is_deleted_has_its_producer_run_again(
    cluster: MiniCluster, do: Do, keys: S3Keys, tmp_path: Path
) -> None:
    (tmp_path / "hold").touch()
    files = Files(cluster, do, tmp_path)
    assert do(_held(files, files.write(BODY), tmp_path, keys)) is JobStatus.FINISHED
    assert found(tmp_path / "out") == EXPECTED
    again = sorted(path.name for path in tmp_path.glob("numbers-*"))
    assert again in (["numbers-0-0", "numbers-0-1", "numbers-1-0"], ["numbers-0-0", "numbers-1-0", "numbers-1-1"]), (
        "the producer that has lost it, alone"
    )


def test_a_worker_that_is_killed_costs_no_stored_result(s3: str, keys: S3Keys, tmp_path: Path) -> None:
    """Of two, with a server that is busy, and breaks connections."""
    session = Session(tmp_path)
    (tmp_path / "job.py").write_text(HEADER + BODY)
    (tmp_path / "hold").touch()
    with faulty_proxy(s3, seed=13, chance=0.02) as proxy:
        options = {**shared_in(proxy.url), "jobmanager.rpc.port": "0", "rest.port": "0"}
        given = [part for key, value in options.items() for part in ("-D", f"{key}={value}")]
        code, _, err = session.command("cluster", "start", "--taskmanagers", "2", *given)
        assert (code, err) == (0, "")
        try:
            retry = [part for key, value in RETRY.items() for part in ("-D", f"{key}={value}")]
            parameters = ("-p", f"directory={tmp_path}", "-p", f"output={tmp_path / 'out'}")
            job = session.start("run", "--master", session.master(), "job.py", *parameters, *retry)
            (attempt, *_) = wait_for(tmp_path / "counts", 1)
            workers = session.pids("taskmanager")
            (mine,) = [parent for parent in psutil.Process(int(attempt)).parents() if parent.pid in workers]
            mine.send_signal(signal.SIGKILL)
            (tmp_path / "hold").unlink()
            out, err = job.communicate(timeout=LIMIT_S)
            assert job.returncode == 0, out + err
            assert found(tmp_path / "out") == EXPECTED
            assert len((tmp_path / "counts").read_text().splitlines()) == 2
            assert sorted(path.name for path in tmp_path.glob("numbers-*")) == ["numbers-0-0", "numbers-1-0"]
            assert sum(proxy.done.values()) > 3, proxy.done
        finally:
            session.command("cluster", "stop")
