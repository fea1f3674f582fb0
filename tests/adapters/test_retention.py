"""The last checkpoint of a job that is over: a savepoint that nothing of the job can reach any more."""

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from firesteel.adapters.spark.streams import retention
from firesteel.adapters.spark.streams.retention import retain, retain_late
from firesteel.adapters.spark.streams.snapshots import points
from firesteel.adapters.spark.streams.snapshots.directoryplace import DirectoryPlace
from firesteel.adapters.spark.streams.snapshots.errors import TargetUnwritable
from firesteel.adapters.spark.streams.snapshots.listing import is_fence
from firesteel.adapters.spark.streams.snapshots.manifest import SavepointHeader
from firesteel.adapters.spark.streams.snapshots.placing import pins_beside
from firesteel.adapters.spark.streams.snapshots.points import last_committed
from firesteel.adapters.spark.streams.snapshots.savepoints import (
    dispose,
    read_manifest,
    restore,
    verify,
    write_savepoint,
)
from firesteel.adapters.spark.streams.snapshots.savepoints import query_of as saved_query
from firesteel.adapters.spark.streams.usednotes import KEPT, note_used
from firesteel.adapters.spark.worker.inheritance import DeadWorkers
from firesteel.adapters.spark.worker.workdirs import WorkDirectory, open_own
from firesteel.model.branches import Branch, branch_text
from firesteel.model.ids import JobID
from firesteel.model.jobgraph import JobGraph
from firesteel.model.options.streams import BRANCH
from firesteel.model.streams import ClaimedSavepoint, retained_name
from firesteel.runtime.ports import TaskFailedError
from tests.adapters.snapshots.checkpoints import FakeCheckpoint
from tests.adapters.test_checkpoints import STREAM, deployed, directories, query_of

JOB = STREAM.job_id
RETENTION = "execution.checkpointing.externalized-checkpoint-retention"


def begun(tmp_path: Path, options: Mapping[str, str] | None = None, batches: int = 3) -> FakeCheckpoint:
    """The query `result` of a job, in its second attempt; `other` has committed nothing."""
    made = directories(tmp_path, **(options or {}))
    query_of(made.prepare(STREAM, deployed(0))["result"]).commit()
    directory = made.prepare(STREAM, deployed(1))["result"]
    query = FakeCheckpoint(Path(directory), batch=0)
    return query.commit(batches - 1)


def place(tmp_path: Path, ended_ms: int = 0) -> str:
    return str(tmp_path / "shared" / JOB / retained_name(4, ended_ms or round(time.time() * 1_000)))


def left(tmp_path: Path) -> list[str]:
    job = tmp_path / "shared" / JOB
    return sorted(os.listdir(job)) if job.is_dir() else []


def starting(savepoint: str) -> JobGraph:
    configuration = {"execution.state-recovery.path": savepoint}
    return msgspec.structs.replace(STREAM, job_id=JobID("f" * 32), configuration=configuration)


def test_it_is_a_savepoint_of_the_newest_attempts_and_all_that_is_left(tmp_path: Path) -> None:
    begun(tmp_path)
    location = place(tmp_path)
    directories(tmp_path).retain(JOB, location)
    assert left(tmp_path) == [Path(location).name]
    manifest = verify(location)
    found = {each.uid: (each.attempt, each.point.batch) for each in manifest.queries}
    assert (manifest.job_id, found) == (JOB, {"result": (1, 2), "other": (1, -1)})
    directories(tmp_path).retain(JOB, location)
    directories(tmp_path).release(JOB, is_over=True)
    assert directories(tmp_path).discard([f"checkpoints:{JOB}:"]) == []
    assert verify(location) == manifest, "who deletes the job's checkpoints leaves it"
    dispose(location)
    assert not (tmp_path / "shared" / JOB).exists()


def test_a_zombie_can_not_advance_it_and_plans_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = begun(tmp_path)
    query.plan(3)
    location, kept = place(tmp_path), tmp_path / "zombie"
    monkeypatch.setattr(retention, "delete_attempts", lambda job: os.rename(query.root, kept))
    retain(tmp_path, JOB, location)
    assert is_fence(kept / "offsets/4")
    zombie = FakeCheckpoint(kept, batch=2)
    zombie.commit()
    started = Path(directories(tmp_path).prepare(starting(location), deployed(0))["result"])
    assert last_committed(str(started)) == 2
    assert (started / "offsets/3").read_text() == (kept / "offsets/3").read_text(), "planned, so run as it was"
    assert not (started / "offsets/4").exists()


def test_a_worker_that_comes_later_finds_it_done(tmp_path: Path) -> None:
    """It may have begun an attempt, cut off from the master, after that."""
    begun(tmp_path)
    location = place(tmp_path)
    retain(tmp_path, JOB, location)
    before = read_manifest(location)
    begun(tmp_path)
    directories(tmp_path / "another").retain(JOB, location)
    assert (read_manifest(location), left(tmp_path)) == (before, [Path(location).name])


def test_one_of_two_that_do_it_at_once_succeeds_for_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(tmp_path)
    location, write = place(tmp_path), write_savepoint

    def faster(*arguments: object, **given: object) -> object:
        monkeypatch.setattr(retention, "write_savepoint", write)
        retain(tmp_path, JOB, location)
        return write(*arguments, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(retention, "write_savepoint", faster)
    retain(tmp_path, JOB, location)
    verify(location)
    assert left(tmp_path) == [Path(location).name]


def test_what_can_not_be_saved_now_is_tried_again_and_deleted_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(tmp_path)
    location = place(tmp_path)
    with monkeypatch.context() as patch:

        def full(target: str, *arguments: object, **given: object) -> None:
            raise TargetUnwritable(target, OSError("the disk is full"))

        patch.setattr(retention, "write_savepoint", full)
        with pytest.raises(OSError, match=r"can't be put to .* yet: .*the disk is full"):
            retain(tmp_path, JOB, location)
    assert left(tmp_path) == ["other", "result"]
    retain(tmp_path, JOB, location)
    verify(location)


def test_what_can_not_be_saved_at_all_stays_as_it_is(tmp_path: Path) -> None:
    query = begun(tmp_path, batches=4)
    (query.root / "offsets/3").unlink()
    location = place(tmp_path)
    made = directories(tmp_path)
    made.retain(JOB, location)
    made.release(JOB, is_over=True)
    assert left(tmp_path) == [KEPT, "other", "result"]
    assert last_committed(str(query.root)) == 3


def test_checkpoints_that_are_elsewhere_are_not_taken_for_what_stays(tmp_path: Path) -> None:
    """Workers that have them in other places than their master says: the first one's are no others'."""
    for worker in ("one", "two"):
        begun(tmp_path / worker)
    location = place(tmp_path)
    retain(tmp_path / "one", JOB, location)
    (tmp_path / "two/shared" / JOB / "other").rename(tmp_path / "two/shared" / JOB / "third")
    retain(tmp_path / "two", JOB, location)
    assert left(tmp_path / "one") == []
    assert left(tmp_path / "two") == [KEPT, "result", "third"]


def test_where_nobody_knows_how_the_job_has_ended_it_stays(tmp_path: Path) -> None:
    begun(tmp_path)
    directories(tmp_path).retain(JOB, None)
    (name,) = left(tmp_path)
    verify(str(tmp_path / "shared" / JOB / name))
    assert name.startswith("chk-0-")


@pytest.mark.parametrize(
    "options", [{RETENTION: "NO_EXTERNALIZED_CHECKPOINTS"}, {"execution.checkpointing.dir": ""}], ids=["none", "own"]
)
def test_it_does_not_where_none_is_to_stay_or_nobody_else_could_find_it(
    tmp_path: Path, options: dict[str, str]
) -> None:
    begun(tmp_path, options)
    made = directories(tmp_path, **options)
    made.retain(JOB, None)
    made.release(JOB, is_over=True)
    assert left(tmp_path) == []
    assert not (tmp_path / "checkpoints" / JOB).exists()


def test_what_a_dead_worker_has_noted_stays_too(tmp_path: Path) -> None:
    begun(tmp_path)
    for name in ("heir", "dead"):
        note_used(tmp_path / name, JOB, tmp_path / "shared", keeps=True)
    own = open_own(tmp_path / "heir", "heir", "cluster")
    assert own is not None
    heir = DeadWorkers(own, "dead")
    dead = open_own(tmp_path / "dead", "dead", "cluster")
    assert isinstance(dead, WorkDirectory)
    dead.close()
    assert JOB in asyncio.run(heir.look())
    asyncio.run(heir.release(JOB, retains=True))
    (name,) = left(tmp_path)
    assert name.startswith("chk-0-")
    heir.close()


def test_a_job_that_had_no_worker_at_its_end_is_gone_on_from_all_the_same(tmp_path: Path) -> None:
    begun(tmp_path)
    location = place(tmp_path)
    started = directories(tmp_path / "another").prepare(
        msgspec.structs.replace(
            starting(location),
            configuration={
                "execution.state-recovery.path": location,
                "execution.checkpointing.dir": str(tmp_path / "shared"),
            },
        ),
        deployed(0),
    )
    assert last_committed(started["result"]) == 2
    assert left(tmp_path) == [Path(location).name]


def waiting(tmp_path: Path, **options: str) -> str:
    """The savepoint that a job has started from whose region `elsewhere` never gets a slot."""
    savepoint, old = str(tmp_path / "savepoint"), tmp_path / "old"
    running = {uid: str(FakeCheckpoint(old / uid).commit(5).root) for uid in ("result", "elsewhere")}
    (old / "out/_spark_metadata").mkdir(parents=True)
    for batch in range(5):
        (old / f"out/_spark_metadata/{batch}").write_text("v1")
    header = SavepointHeader(
        job_id="0" * 32, job_name="old", spark_version="4.3.0", created_ms=0, fingerprints={"elsewhere": "{}"}
    )
    write_savepoint(savepoint, running, header, outputs={"elsewhere": str(old / "out")})
    configuration = {"execution.state-recovery.path": savepoint, **options}
    started = directories(tmp_path).prepare(msgspec.structs.replace(STREAM, configuration=configuration), deployed(0))
    FakeCheckpoint(Path(started["result"]), batch=4).commit()
    return savepoint


def test_a_query_that_never_began_stays_as_its_savepoint_has_it(tmp_path: Path) -> None:
    savepoint = waiting(tmp_path, **{"execution.state-recovery.claim-mode": "CLAIM"})
    location, made = place(tmp_path), directories(tmp_path)
    made.retain(JOB, location)
    assert left(tmp_path) == [Path(location).name]
    found = {each.uid: each for each in verify(location).queries}
    assert {uid: each.point.batch for uid, each in found.items()} == {"result": 5, "other": -1, "elsewhere": 4}
    saved = found["elsewhere"]
    assert (saved.fingerprint, saved.attempt, len(saved.log_files)) == ("{}", -1, 5)
    claimed = ClaimedSavepoint(job_id=JOB, location=savepoint, newer=location, sinks=("result", "other", "elsewhere"))
    assert made.discard([claimed.reference()]) == []
    assert not Path(savepoint).exists()
    assert restore(location, "elsewhere", str(tmp_path / "next")).point.query_id == saved.point.query_id != ""


def test_a_query_of_a_branch_that_never_began_has_an_id_of_its_own(tmp_path: Path) -> None:
    savepoint, location = waiting(tmp_path, **{BRANCH.key: branch_text(Branch(of=JobID("1" * 32)))}), place(tmp_path)
    retain(tmp_path, JOB, location)
    ids = [saved_query(each, "elsewhere").point.query_id for each in (savepoint, location)]
    assert "" != ids[0] != ids[1] != ""


def test_what_lacks_a_query_is_not_told_for_whole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    savepoint, location = Path(waiting(tmp_path)), place(tmp_path)
    savepoint.rename(tmp_path / "moved")
    retain(tmp_path, JOB, location)
    told = rf"queries of job {JOB} have never begun \(elsewhere\), and their state in savepoint {savepoint}"
    assert re.search(told, caplog.text)
    assert left(tmp_path) == [KEPT, "other", "result"]
    with pytest.raises(TaskFailedError, match=told):
        directories(tmp_path).prepare(starting(location), deployed(0))
    (tmp_path / "moved").rename(savepoint)
    started = directories(tmp_path).prepare(starting(location), deployed(0))
    assert last_committed(started["result"]) == 5
    assert left(tmp_path) == [Path(location).name]


def ended_long_ago(tmp_path: Path) -> str:
    """Where the last checkpoint of a job is to stay that ended an hour ago, when there was no worker."""
    begun(tmp_path)
    ended_ms = round(time.time() * 1_000) - 3_600_000
    for path in (tmp_path / "shared" / JOB).rglob("*"):
        os.utime(path, (ended_ms / 1_000 - 60, ended_ms / 1_000 - 60))
    return place(tmp_path, ended_ms)


def test_one_that_could_not_be_saved_late_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = ended_long_ago(tmp_path)
    with monkeypatch.context() as patch:

        def full(place: DirectoryPlace, *arguments: object) -> None:
            raise OSError("the disk is full")

        patch.setattr(DirectoryPlace, "publish", full)
        with pytest.raises(OSError, match="the disk is full"):
            retain_late(location)
    started = directories(tmp_path).prepare(starting(location), deployed(0))
    assert last_committed(started["result"]) == 2


def test_of_two_that_save_it_late_at_once_both_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One finds it begun by the other, which holds files fast meanwhile."""
    location, found = ended_long_ago(tmp_path), list[dict[str, str]]()

    @contextlib.contextmanager
    def holding(source: Path) -> Iterator[Path | None]:
        with pins_beside(source) as held:
            monkeypatch.setattr(points, "pins_beside", pins_beside)
            if not found:
                found.append(directories(tmp_path).prepare(starting(location), deployed(0)))
            yield held

    monkeypatch.setattr(points, "pins_beside", holding)
    retain_late(location)
    assert [last_committed(each["result"]) for each in found] == [2]
    assert left(tmp_path) == [Path(location).name]
    verify(location)


def test_a_later_job_of_the_same_id_is_left_alone(tmp_path: Path) -> None:
    """Its checkpoints are not those that were to stay."""
    begun(tmp_path)
    hour_ago = round((time.time() - 3_600) * 1_000)
    location = place(tmp_path, hour_ago)
    retain_late(location)
    retain_late(str(tmp_path / "shared" / JOB / "elsewhere"))
    assert left(tmp_path) == ["other", "result"]
    with pytest.raises(TaskFailedError, match="is no savepoint"):
        directories(tmp_path).prepare(starting(location), deployed(0))
    retain(tmp_path, JOB, place(tmp_path))
    assert len(left(tmp_path)) == 1
