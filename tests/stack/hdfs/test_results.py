"""Jobs whose regions store results in HDFS: deaths and losses; afterwards the rows, and nothing else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from firesteel.adapters.storage.hdfsdirectories import HdfsDirectories
from firesteel.adapters.storage.resultsprobe import IDENTITY
from firesteel.minicluster import MiniCluster
from firesteel.model.states import JobStatus
from tests.integration.cluster.files import Files
from tests.integration.cluster.test_command import Command, wait_until
from tests.integration.cluster.test_session_cluster import LIMIT_S
from tests.stack.conftest import Do, shared, until
from tests.stack.hadoop import Hdfs
from tests.stack.hdfs.conftest import hdfs_settings
from tests.stack.storedresults import BODY, EXPECTED, RETRY, found, kill_a_worker

RESULTS = "/shared results"


def shared_in(storage: Hdfs) -> dict[str, str]:
    return {**hdfs_settings(storage), "cluster.results-dir": storage.uri(RESULTS)}


def left_in(storage: Hdfs) -> list[str]:
    """What is there, but for what tells the storage from others; also directories that are empty."""
    return [each.name for each in storage.client().listed(RESULTS) if each.name != IDENTITY]


@pytest.fixture
def nothing_left(storage: Hdfs, do: Do) -> Iterator[None]:
    """Afterwards, of any result."""
    yield
    do(until(lambda: not left_in(storage)))
    assert left_in(storage) == []


@pytest.fixture(scope="module")
def cluster(do: Do, storage: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    cluster = do(shared({**shared_in(storage), "cluster.work-dir": str(tmp_path_factory.mktemp("cluster"))}))
    yield cluster
    do(cluster.close())


async def _held(files: Files, path: Path, directory: Path, storage: Hdfs) -> tuple[JobStatus, int]:
    """Run the job; while the consumer holds, a file of what it is to read is deleted."""
    job_id = await files.submit(path, {"directory": str(directory), "output": str(directory / "out")}, RETRY)
    await until((directory / "counts").exists, LIMIT_S)
    top = f"{RESULTS}/{job_id}"
    stored = [name for name in HdfsDirectories(storage.client()).files(storage.uri(top)) if "subpartition=0/" in name]
    assert storage.client().delete(f"{top}/{stored[0]}", recursive=False)
    (directory / "hold").unlink()
    done = await files.cluster.client.request_job_result(job_id)
    return done.status, done.restarts


@pytest.mark.usefixtures("nothing_left")
def test_a_file_that_is_deleted_has_its_producer_run_again(
    cluster: MiniCluster, do: Do, storage: Hdfs, tmp_path: Path
) -> None:
    (tmp_path / "hold").touch()
    files = Files(cluster, do, tmp_path)
    assert do(_held(files, files.write(BODY), tmp_path, storage)) == (JobStatus.FINISHED, 1)
    assert found(tmp_path / "out") == EXPECTED
    again = sorted(path.name for path in tmp_path.glob("numbers-*"))
    assert again in (["numbers-0-0", "numbers-0-1", "numbers-1-0"], ["numbers-0-0", "numbers-1-0", "numbers-1-1"]), (
        "the producer that has lost it, alone"
    )


@pytest.mark.usefixtures("nothing_left")
def test_a_worker_that_is_killed_costs_no_stored_result(storage: Hdfs, tmp_path: Path) -> None:
    kill_a_worker(tmp_path, shared_in(storage))


@pytest.mark.usefixtures("nothing_left")
def test_a_whole_run_that_is_killed_leaves_nothing(storage: Hdfs, tmp_path: Path) -> None:
    command = Command(tmp_path)
    (tmp_path / "hold").touch()
    settings = [text for name, value in shared_in(storage).items() for text in ("-D", f"{name}={value}")]
    process = command.start(BODY, "--param", f"directory={tmp_path}", *settings)
    wait_until((tmp_path / "counts").exists, LIMIT_S)
    assert left_in(storage), "the results are there"
    process.kill()
    process.communicate()
    command.assert_gone()
