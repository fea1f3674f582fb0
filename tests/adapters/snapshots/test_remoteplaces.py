"""Savepoints in a bucket and in HDFS: whole or not there, compared when they are read, and deleted with care."""

import contextlib
import errno
import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from firesteel.adapters.spark.streams.snapshots import remoteplace
from firesteel.adapters.spark.streams.snapshots.claims import take
from firesteel.adapters.spark.streams.snapshots.errors import (
    CheckpointMissing,
    NoSavepoint,
    SavepointClaimed,
    SavepointDamaged,
    SavepointGivenUp,
    SavepointShared,
    StorageFailed,
    TargetTaken,
    TargetUnwritable,
)
from firesteel.adapters.spark.streams.snapshots.manifest import MANIFEST
from firesteel.adapters.spark.streams.snapshots.places import SavepointPlace
from firesteel.adapters.spark.streams.snapshots.points import copy_point, last_committed
from firesteel.adapters.spark.streams.snapshots.remoteplace import RemotePlace
from firesteel.adapters.spark.streams.snapshots.savepoints import (
    dispose,
    read_manifest,
    restore,
    seal,
    verify,
    write_savepoint,
)
from firesteel.model.ids import JobID
from firesteel.testing.power import PowerCut
from tests.adapters.snapshots.checkpoints import FakeCheckpoint, tree
from tests.adapters.snapshots.storages import OTHER, ROOT, Storage, nth_upload
from tests.adapters.snapshots.test_savepoints import HEADER


def test_what_is_written_is_restored_elsewhere(storage: Storage, saved_queries: dict[str, str], tmp_path: Path) -> None:
    manifest = write_savepoint(storage.at(), saved_queries, HEADER)
    assert manifest.is_sealed, "what is moved is compared"
    assert manifest == read_manifest(storage.at()) == verify(storage.at()) == seal(storage.at())
    listed = {f"{query.directory}/{file.name}" for query in manifest.queries for file in query.files}
    assert {f"{ROOT}/{name}" for name in (*listed, MANIFEST)} == set(storage.names()), "and nothing else is left"
    copy_point(saved_queries["a/b ü"], str(tmp_path / "copy"), link=False)
    shutil.rmtree(tmp_path / "job")
    query = restore(storage.at(), "a/b ü", str(tmp_path / "deep/restored"))
    assert query.point.batch == 1 == last_committed(str(tmp_path / "deep/restored"))
    assert tree(tmp_path / "deep/restored") == tree(tmp_path / "copy")
    assert os.listdir(tmp_path / "deep") == ["restored"]
    with pytest.raises(TargetTaken):
        restore(storage.at(), "result", str(tmp_path / "copy"))


def test_files_of_many_requests_are_whole(
    storage: Storage, saved_queries: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remoteplace, "RANGE_BYTES", 300)
    (Path(saved_queries["result"]) / "sources/0/empty").touch()
    write_savepoint(storage.at(), saved_queries, HEADER)
    verify(storage.at())
    for uid, checkpoint in saved_queries.items():
        copy_point(checkpoint, str(tmp_path / "copy" / uid), link=False)
        restore(storage.at(), uid, str(tmp_path / "restored" / uid), link=False)
    assert tree(tmp_path / "restored") == tree(tmp_path / "copy")


# ── whole or not there ───────────────────────────────────────────────────────────────────────
def requests_of(fake: Storage, work: Callable[[SavepointPlace], object]) -> int:
    """How many it makes. Nothing is left of it."""
    fake.arm()
    work(fake.at())
    count: int = fake.faults.requests
    with contextlib.suppress(NoSavepoint):
        dispose(fake.at())
    assert fake.names() == []
    return count


@pytest.mark.parametrize("done", [False, True])
def test_a_death_at_any_request_leaves_a_whole_one_or_none(
    fake: Storage, saved_queries: dict[str, str], done: bool
) -> None:
    del saved_queries["a/b ü"]
    seen = set()
    for number in range(requests_of(fake, lambda place: write_savepoint(place, saved_queries, HEADER))):
        fake.arm(cut_at=number, done=done)
        with pytest.raises(PowerCut):
            write_savepoint(fake.at(), saved_queries, HEADER)
        fake.arm()
        try:
            verify(fake.at())
            left = [ROOT]
        except NoSavepoint:
            left = []
        seen.add(len(left))
        write_savepoint(fake.at(OTHER), saved_queries, HEADER)
        verify(fake.at(OTHER))
        dispose(fake.at(OTHER))
        write_savepoint(fake.at(OTHER, later=True), saved_queries, HEADER)
        assert set(fake.names()) == fake.savepoints(OTHER, *left), f"what was begun is cleared, after request {number}"
        for name in (OTHER, *left):
            dispose(fake.at(name))
    assert seen == {0, 1}


@pytest.mark.parametrize("done", [False, True])
def test_a_request_that_fails_leaves_nothing_or_is_made_again(
    fake: Storage, saved_queries: dict[str, str], done: bool
) -> None:
    del saved_queries["a/b ü"]
    count = requests_of(fake, lambda place: write_savepoint(place, saved_queries, HEADER))
    written = 0
    for number in range(count):
        fake.arm(fail_at=frozenset({number}), done=done)
        try:
            write_savepoint(fake.at(), saved_queries, HEADER)
        except StorageFailed:
            assert fake.names() == []
            continue
        written += 1
        fake.arm()
        verify(fake.at())
        assert {name for name in fake.names() if ".firesteel-partial-" not in name} == fake.savepoints(ROOT)
        dispose(fake.at())
        for name in fake.names():
            fake.delete(name)
    assert written >= count - 2, "only who finds nobody at first does not ask again"


def test_a_storage_that_ends_in_the_midst_is_told(fake: Storage, saved_queries: dict[str, str]) -> None:
    count = requests_of(fake, lambda place: write_savepoint(place, saved_queries, HEADER))
    fake.arm(fail_at=frozenset(range(count // 2, 10_000)))
    with pytest.raises(StorageFailed, match=f"savepoint {fake.uri()} can't be reached: {fake.failure}"):
        write_savepoint(fake.at(), saved_queries, HEADER)
    fake.arm()
    with pytest.raises(NoSavepoint):
        read_manifest(fake.at())


def test_one_that_is_given_up_is_taken_back(storage: Storage, saved_queries: dict[str, str], tmp_path: Path) -> None:
    for answers in range(6):
        asked = iter([True] * answers)
        with pytest.raises(SavepointGivenUp, match="it took too long"):
            write_savepoint(storage.at(), saved_queries, HEADER, is_wanted=lambda asked=asked: next(asked, False))  # type: ignore[misc]
        assert storage.names() == []
    assert sorted(os.listdir(tmp_path / "job/result")) == ["0"]


def test_it_is_asked_whether_it_is_wanted_before_it_gets_its_name(fake: Storage, saved_queries: dict[str, str]) -> None:
    files = len(write_savepoint(fake.at(), saved_queries, HEADER).files)
    dispose(fake.at())
    wanted = [True]
    fake.before(wanted.clear, nth_upload(files))
    with pytest.raises(SavepointGivenUp, match="it took too long"):
        write_savepoint(fake.at(), saved_queries, HEADER, is_wanted=lambda: bool(wanted))
    assert fake.names() == []


def test_of_two_that_write_one_savepoint_one_does(fake: Storage, saved_queries: dict[str, str]) -> None:
    """A worker is taken for dead while it uploads, and another one gets its order."""
    newer = FakeCheckpoint(Path(saved_queries["result"]).parent / "1").commit(7)
    fake.before(lambda: write_savepoint(fake.at(), {"result": str(newer.root)}, HEADER), fake.gives_name)
    with pytest.raises(TargetTaken):
        write_savepoint(fake.at(), saved_queries, HEADER)
    assert verify(fake.at()).queries[0].point.batch == 6
    assert set(fake.names()) == fake.savepoints(ROOT)


@pytest.mark.parametrize("number", [1, 5])
def test_who_comes_too_late_for_what_was_cleared_leaves_no_savepoint(
    fake: Storage, saved_queries: dict[str, str], number: int
) -> None:
    fake.before(
        lambda: write_savepoint(fake.at(OTHER, later=True), saved_queries, HEADER),
        nth_upload(number),
    )
    with pytest.raises(SavepointGivenUp, match="what there was of it was deleted"):
        write_savepoint(fake.at(), saved_queries, HEADER)
    assert set(fake.names()) == fake.savepoints(OTHER)


def test_checkpoints_that_are_elsewhere_are_told(
    storage: Storage, saved_queries: dict[str, str], tmp_path: Path
) -> None:
    for missing in ({"c": str(tmp_path / "nowhere/0")}, {**saved_queries, "c": str(tmp_path / "nowhere/0")}):
        with pytest.raises(CheckpointMissing, match="nowhere/0 is not here"):
            write_savepoint(storage.at(), missing, HEADER)
    assert storage.names() == []


# ── compared ─────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda storage, name: storage.delete(name), "is missing"),
        (lambda storage, name: storage.write(name, b"short"), "has 5 bytes instead of"),
        (lambda storage, name: storage.write(name, bytes(reversed(storage.read(name)))), "is not what was written"),
    ],
)
def test_what_was_harmed_is_told_and_not_restored(
    storage: Storage, saved_queries: dict[str, str], tmp_path: Path, harm: Callable[[Storage, str], object], told: str
) -> None:
    directory = write_savepoint(storage.at(), saved_queries, HEADER).queries[0].directory
    harm(storage, f"{ROOT}/{directory}/offsets/4")
    with pytest.raises(SavepointDamaged, match=f"offsets/4 {told}"):
        verify(storage.at())
    with pytest.raises(SavepointDamaged, match=f"offsets/4 {told}"):
        restore(storage.at(), "result", str(tmp_path / "restored/0"))
    assert os.listdir(tmp_path / "restored") == []
    restore(storage.at(), "a/b ü", str(tmp_path / "restored/0"))


def test_one_that_was_copied_from_a_directory_is_one(
    storage: Storage, saved_queries: dict[str, str], tmp_path: Path
) -> None:
    """With tools of others, as are those that are copied from there into a directory."""
    write_savepoint(str(tmp_path / "savepoint"), saved_queries, HEADER)
    for name, data in tree(tmp_path / "savepoint").items():
        storage.write(f"{ROOT}/{name}", data)
    assert not verify(storage.at()).is_sealed
    assert seal(storage.at()) == read_manifest(storage.at()) == verify(storage.at())
    assert not [name for name in storage.names() if ".firesteel-partial-" in name]
    restore(storage.at(), "result", str(tmp_path / "restored"))
    for name in storage.names():
        (tmp_path / "back" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "back" / name).write_bytes(storage.read(name))
    verify(str(tmp_path / "back" / ROOT))
    restore(str(tmp_path / "back" / ROOT), "result", str(tmp_path / "again"))
    assert tree(tmp_path / "again") == tree(tmp_path / "restored")


def test_schemas_named_by_absolute_paths_are_those_of_the_restored(storage: Storage, tmp_path: Path) -> None:
    query = FakeCheckpoint(tmp_path / "job/a/0").commit(2)
    schema = query.root / "state/0/_stateSchema/default/0_u"
    schema.parent.mkdir(parents=True)
    schema.write_text("schema")
    (query.root / "state/0/_metadata/v2").mkdir()
    for number, scheme in enumerate(("file:", "")):
        stores = [{"storeName": "default", "numPartitions": 2, "stateSchemaFilePaths": [f"{scheme}{schema}"]}]
        (query.root / "state/0/_metadata/v2/0").write_text("v2\n" + json.dumps({"stateStoreInfo": stores}))
        place = storage.at(f"{ROOT}{number}")
        write_savepoint(place, {"a": str(query.root)}, HEADER)
        target = tmp_path / f"restored{number}"
        restore(place, "a", str(target))
        text = (target / "state/0/_metadata/v2/0").read_text()
        assert f'"{scheme}{target}/state/0/_stateSchema/default/0_u"' in text


def test_a_disk_without_room_is_no_fault_of_the_storage(
    fake: Storage, saved_queries: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_savepoint(fake.at(), saved_queries, HEADER)

    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(RemotePlace, "_receive", full)
    with pytest.raises(TargetUnwritable, match=r"restored/0 could not be written \(\[Errno 28\] No space left"):
        restore(fake.at(), "result", str(tmp_path / "restored/0"))
    assert os.listdir(tmp_path / "restored") == []


# ── whose ────────────────────────────────────────────────────────────────────────────────────
def test_of_many_that_claim_it_at_once_one_has_it(storage: Storage, saved_queries: dict[str, str]) -> None:
    write_savepoint(storage.at(), saved_queries, HEADER)
    jobs = [JobID(f"{number:032x}") for number in range(8)]
    barrier, won = threading.Barrier(len(jobs)), list[JobID]()

    def claim(job_id: JobID) -> None:
        barrier.wait()
        with contextlib.suppress(SavepointClaimed):
            take(storage.at(), job_id, owns=True)
            won.append(job_id)

    threads = [threading.Thread(target=claim, args=(each,)) for each in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    storage.at().give_back()
    take(storage.at(), jobs[-1], owns=True)
    with pytest.raises(SavepointClaimed):
        take(storage.at(), jobs[0], owns=True)
    dispose(storage.at())
    assert storage.names() == []


def test_files_of_others_are_not_disposed_of(storage: Storage, saved_queries: dict[str, str]) -> None:
    write_savepoint(storage.at(), saved_queries, HEADER)
    storage.write(f"{ROOT}/notes.txt", b"mine")
    before = storage.names()
    with pytest.raises(SavepointShared, match=r"holds notes\.txt"):
        dispose(storage.at())
    assert storage.names() == before
    storage.delete(f"{ROOT}/notes.txt")
    dispose(storage.at())
    assert storage.names() == []
    with pytest.raises(NoSavepoint):
        dispose(storage.at())


@pytest.mark.parametrize("done", [False, True])
def test_a_disposal_that_is_interrupted_leaves_no_half_a_savepoint(
    fake: Storage, saved_queries: dict[str, str], done: bool
) -> None:
    del saved_queries["a/b ü"]
    write_savepoint(fake.at(), saved_queries, HEADER)
    for number in range(requests_of(fake, dispose)):
        write_savepoint(fake.at(), saved_queries, HEADER)
        fake.arm(cut_at=number, done=done)
        with pytest.raises(PowerCut):
            dispose(fake.at())
        fake.arm()
        with contextlib.suppress(NoSavepoint):
            verify(fake.at())
            dispose(fake.at())
        write_savepoint(fake.at(OTHER, later=True), saved_queries, HEADER)
        assert set(fake.names()) == fake.savepoints(OTHER)
        dispose(fake.at(OTHER))
