"""Jobs whose regions store results in a bucket: deaths, losses, a busy server; afterwards the rows, and nothing else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.adapters.storage.resultsprobe import IDENTITY
from firesteel.adapters.storage.s3keys import S3Keys
from firesteel.minicluster import MiniCluster
from firesteel.model.states import JobStatus
from firesteel.model.views import JobResult
from tests.integration.cluster.files import Files
from tests.integration.cluster.test_session_cluster import LIMIT_S
from tests.stack.conftest import Do, s3_settings, shared, started, until
from tests.stack.faultyproxy import FaultyProxy, faulty_proxy
from tests.stack.storedresults import BODY, EXPECTED, RETRY, found, kill_a_worker, reason_told
from tests.stack.test_s3_commits import keys_at

RESULTS = "shared results"


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
    cluster = do(shared({**shared_in(s3), "cluster.work-dir": str(tmp_path_factory.mktemp("cluster"))}))
    yield cluster
    do(cluster.close())


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
    """With a server that is busy, and breaks connections."""
    with faulty_proxy(s3, seed=13, chance=0.02) as proxy:
        kill_a_worker(tmp_path, shared_in(proxy.url))
        assert sum(proxy.done.values()) > 3, proxy.done


async def _outlived(files: Files, directory: Path, proxy: FaultyProxy) -> JobResult:
    """A job without a restart strategy: while its consumer runs the server fails all requests, until that has failed of it."""
    job_id = await files.submit(files.write(BODY), {"directory": str(directory), "output": str(directory / "out")})
    await until((directory / "counts").exists, LIMIT_S)
    proxy.chance = 1.0
    waits = r"waits? for s3://firesteel, which does not answer \(for \d+ s; http://"
    await reason_told(files.cluster, job_id, waits, JobStatus.RUNNING)
    (directory / "hold").unlink()
    again = r"^s3://firesteel does not answer \(for \d+ s; .*\); what has failed of it runs again$"
    await reason_told(files.cluster, job_id, again, JobStatus.RESTARTING)
    proxy.chance = 0.0
    return await files.cluster.client.request_job_result(job_id)


def test_a_job_outlives_a_server_that_is_away(s3: str, keys: S3Keys, do: Do, tmp_path: Path) -> None:
    (tmp_path / "hold").touch()
    with faulty_proxy(s3, seed=13, chance=0.0) as proxy:
        cluster = do(started({**shared_in(proxy.url), "cluster.work-dir": str(tmp_path / "cluster")}))
        try:
            result = do(_outlived(Files(cluster, do, tmp_path), tmp_path, proxy))
        finally:
            do(cluster.close())
    assert result.status is JobStatus.FINISHED, result.failure
    assert found(tmp_path / "out") == EXPECTED
    assert sorted(path.name for path in tmp_path.glob("numbers-*")) == ["numbers-0-0", "numbers-1-0"], (
        "what was stored is read again, and made once"
    )
