"""Savepoints that jobs have claimed: one job at a time, disposed of or given back by that job only."""

import os
import threading
from pathlib import Path

import msgspec
import pytest

from firesteel.adapters.spark.streams.checkpoints import CheckpointDirectories
from firesteel.adapters.spark.streams.snapshots.claims import settle, take
from firesteel.adapters.spark.streams.snapshots.errors import SavepointClaimed
from firesteel.adapters.spark.streams.snapshots.manifest import SavepointHeader
from firesteel.adapters.spark.streams.snapshots.points import last_committed
from firesteel.adapters.spark.streams.snapshots.savepoints import dispose, seal, verify, write_savepoint
from firesteel.model.failures import FailureKind
from firesteel.model.ids import JobID
from firesteel.model.options import Configuration
from firesteel.model.streams import ClaimedSavepoint
from firesteel.runtime.ports import TaskFailedError
from tests.adapters.snapshots.checkpoints import FakeCheckpoint
from tests.adapters.test_checkpoints import STREAM, deployed, directories

HEADER = SavepointHeader(job_id="0" * 32, job_name="old", spark_version="4.3.0", created_ms=0)
MINE, OTHERS = JobID("a" * 32), JobID("b" * 32)


def saved(tmp_path: Path, name: str = "savepoint") -> Path:
    running = FakeCheckpoint(tmp_path / f"running-{name}").commit(3)
    write_savepoint(str(tmp_path / name), {"result": str(running.root)}, HEADER)
    return tmp_path / name


def of(savepoint: Path, job_id: JobID = MINE, *, back: bool = False, newer: str = "") -> ClaimedSavepoint:
    return ClaimedSavepoint(job_id=job_id, location=str(savepoint), is_given_back=back, newer=newer)


def test_one_job_has_it_and_no_other_begins_from_it(tmp_path: Path) -> None:
    savepoint = saved(tmp_path)
    take(str(savepoint), OTHERS, owns=False)
    assert not (savepoint / "claim").exists()
    for _ in range(2):
        take(str(savepoint), MINE, owns=True)
    for owns in (True, False):
        with pytest.raises(SavepointClaimed, match=f"was claimed by job {MINE}, which disposes of it"):
            take(str(savepoint), OTHERS, owns=owns)
    take(savepoint.as_uri(), MINE, owns=False)
    seal(str(savepoint))
    verify(str(savepoint))
    assert [name for name in os.listdir(savepoint) if name.startswith(".")] == []


def test_of_many_that_claim_it_at_once_one_has_it(tmp_path: Path) -> None:
    savepoint = saved(tmp_path)
    jobs = [JobID(f"{number:032x}") for number in range(8)]
    barrier, won = threading.Barrier(len(jobs)), list[JobID]()

    def claim(job_id: JobID) -> None:
        barrier.wait()
        try:
            take(str(savepoint), job_id, owns=True)
            won.append(job_id)
        except SavepointClaimed:
            pass

    threads = [threading.Thread(target=claim, args=(each,)) for each in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    settle(of(savepoint, won[0]))
    assert not savepoint.exists()


def test_it_goes_when_its_job_needs_it_no_more(tmp_path: Path) -> None:
    savepoint = saved(tmp_path)
    take(str(savepoint), MINE, owns=True)
    settle(of(savepoint, OTHERS))
    assert savepoint.exists()
    for _ in range(2):
        settle(of(savepoint))
        assert not savepoint.exists()


def test_one_that_nobody_has_claimed_stays(tmp_path: Path) -> None:
    """Where a savepoint was that a job has claimed and disposed of another one may be by now."""
    savepoint = saved(tmp_path)
    settle(of(savepoint))
    settle(of(savepoint, back=True))
    verify(str(savepoint))


def test_it_is_given_back_where_nothing_newer_is_there(tmp_path: Path) -> None:
    savepoint, newer = saved(tmp_path), tmp_path / "chk-1-ff"
    for given in (of(savepoint, back=True), of(savepoint, newer=str(newer))):
        take(str(savepoint), MINE, owns=True)
        settle(given)
        take(str(savepoint), OTHERS, owns=True)
        settle(of(savepoint, OTHERS, back=True))
    verify(str(savepoint))
    assert [name for name in os.listdir(savepoint) if name not in ("savepoint.json", "queries")] == []
    take(str(savepoint), MINE, owns=True)
    saved(tmp_path, newer.name)
    settle(of(savepoint, newer=str(newer)))
    assert not savepoint.exists()


def test_it_is_given_back_where_the_newer_one_lacks_a_query_that_the_job_has(tmp_path: Path) -> None:
    running = {uid: str(FakeCheckpoint(tmp_path / uid).commit(3).root) for uid in ("result", "other", "removed")}
    write_savepoint(str(tmp_path / "savepoint"), running, HEADER)
    write_savepoint(str(tmp_path / "part"), {"result": running["result"]}, HEADER)
    write_savepoint(str(tmp_path / "all"), {uid: running[uid] for uid in ("result", "other")}, HEADER)
    claimed = of(tmp_path / "savepoint", newer=str(tmp_path / "part"))
    for given in (claimed, msgspec.structs.replace(claimed, sinks=("result", "other", "new"))):
        take(claimed.location, MINE, owns=True)
        settle(given)
        take(claimed.location, OTHERS, owns=True)
        settle(of(tmp_path / "savepoint", OTHERS, back=True))
    take(claimed.location, MINE, owns=True)
    settle(msgspec.structs.replace(claimed, newer=str(tmp_path / "all"), sinks=("result", "other", "new")))
    assert not (tmp_path / "savepoint").exists()


def test_files_of_others_are_not_deleted_with_it(tmp_path: Path) -> None:
    savepoint = saved(tmp_path)
    take(str(savepoint), MINE, owns=True)
    (savepoint / "notes.txt").touch()
    settle(of(savepoint))
    assert (savepoint / "notes.txt").exists()
    assert not (savepoint / "claim").exists()


def test_whoever_operates_the_cluster_may_dispose_of_it_all_the_same(tmp_path: Path) -> None:
    savepoint = saved(tmp_path)
    take(str(savepoint), MINE, owns=True)
    dispose(str(savepoint))
    assert not savepoint.exists()
    settle(of(savepoint))


def test_a_job_claims_it_when_its_first_attempt_begins(tmp_path: Path) -> None:
    savepoint, made = saved(tmp_path), directories(tmp_path)
    configuration = {"execution.state-recovery.path": str(savepoint), "execution.state-recovery.claim-mode": "CLAIM"}
    mine, others = (
        msgspec.structs.replace(STREAM, job_id=each, configuration=configuration) for each in (MINE, OTHERS)
    )
    made.prepare(mine, deployed(0))
    with pytest.raises(TaskFailedError, match=f"was claimed by job {MINE}") as raised:
        made.prepare(others, deployed(0))
    assert raised.value.failure.kind is FailureKind.NON_RECOVERABLE
    assert raised.value.failure.unbegun
    settle(of(savepoint))
    assert last_committed(made.prepare(mine, deployed(1))["result"]) == 2


def test_it_is_one_of_the_locations_that_a_worker_deletes(tmp_path: Path) -> None:
    savepoint = saved(tmp_path)
    take(str(savepoint), MINE, owns=True)
    directories = CheckpointDirectories(Configuration({}), "", tmp_path / "work")
    assert directories.discard(["/elsewhere", of(savepoint).reference()]) == ["/elsewhere"]
    assert not savepoint.exists()
