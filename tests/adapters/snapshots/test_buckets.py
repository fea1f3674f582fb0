"""Savepoints in a bucket: there with their manifest and not before, compared when they are read, and deleted with care."""

import errno
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from firesteel.adapters.spark.streams.snapshots import bucketplace
from firesteel.adapters.spark.streams.snapshots.bucketplace import BucketPlace
from firesteel.adapters.spark.streams.snapshots.errors import (
    CheckpointMissing,
    NoSavepoint,
    SavepointDamaged,
    SavepointGivenUp,
    SavepointShared,
    StorageFailed,
    TargetTaken,
    TargetUnwritable,
)
from firesteel.adapters.spark.streams.snapshots.manifest import MANIFEST
from firesteel.adapters.spark.streams.snapshots.points import copy_point, last_committed
from firesteel.adapters.spark.streams.snapshots.savepoints import (
    dispose,
    read_manifest,
    restore,
    seal,
    verify,
    write_savepoint,
)
from firesteel.adapters.storage.keys import Keys
from firesteel.testing.power import PowerCut
from tests.adapters.snapshots.buckets import ROOT, URI, at, names
from tests.adapters.snapshots.checkpoints import FakeCheckpoint, tree
from tests.adapters.snapshots.test_savepoints import HEADER
from tests.integration.storage.fakekeys import FakeKeys


def test_what_is_written_is_restored_elsewhere(keys: Keys, saved_queries: dict[str, str], tmp_path: Path) -> None:
    manifest = write_savepoint(at(keys), saved_queries, HEADER)
    assert manifest.is_sealed, "what is moved is compared"
    assert manifest == read_manifest(at(keys)) == verify(at(keys, URI.replace("s3:", "s3a:"))) == seal(at(keys))
    listed = {f"{query.directory}/{file.name}" for query in manifest.queries for file in query.files}
    assert {f"{ROOT}/{name}" for name in (*listed, MANIFEST)} == set(names(keys)), "and nothing else is left"
    copy_point(saved_queries["a/b ü"], str(tmp_path / "copy"), link=False)
    shutil.rmtree(tmp_path / "job")
    query = restore(at(keys), "a/b ü", str(tmp_path / "deep/restored"))
    assert query.point.batch == 1 == last_committed(str(tmp_path / "deep/restored"))
    assert tree(tmp_path / "deep/restored") == tree(tmp_path / "copy")
    assert os.listdir(tmp_path / "deep") == ["restored"]
    with pytest.raises(TargetTaken):
        restore(at(keys), "result", str(tmp_path / "copy"))


def test_files_of_many_requests_are_whole(
    keys: Keys, saved_queries: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucketplace, "RANGE_BYTES", 300)
    (Path(saved_queries["result"]) / "sources/0/empty").touch()
    write_savepoint(at(keys), saved_queries, HEADER)
    verify(at(keys))
    for uid, checkpoint in saved_queries.items():
        copy_point(checkpoint, str(tmp_path / "copy" / uid), link=False)
        restore(at(keys), uid, str(tmp_path / "restored" / uid), link=False)
    assert tree(tmp_path / "restored") == tree(tmp_path / "copy")


# ── whole or not there ───────────────────────────────────────────────────────────────────────
LATER_S = bucketplace.LEFT_AFTER_S + 1


def later(keys: Keys, location: str) -> BucketPlace:
    """So much later that nobody can be at work on what was begun before."""
    return BucketPlace(location, keys, clock=lambda: time.time() + LATER_S, wait=lambda seconds: None)


def requests_of(saved_queries: dict[str, str], work: Callable[[FakeKeys], object]) -> int:
    keys = FakeKeys()
    work(keys)
    return keys.requests


def files_of(keys: FakeKeys, *locations: str) -> set[str]:
    """What belongs to the savepoints there."""
    found = set()
    for location in locations:
        root = location.removeprefix("s3://firesteel/")
        found |= {
            f"{root}/{name}" for name in (MANIFEST, *(each.name for each in read_manifest(at(keys, location)).files))
        }
    return found


@pytest.mark.parametrize("done", [False, True])
def test_a_death_at_any_request_leaves_a_whole_one_or_none(saved_queries: dict[str, str], done: bool) -> None:
    del saved_queries["a/b ü"]
    next_to_it = "s3://firesteel/sp/savepoint-012345-2"
    count = requests_of(saved_queries, lambda keys: write_savepoint(at(keys), saved_queries, HEADER))
    seen = set()
    for number in range(count):
        keys = FakeKeys(cut_at=number, done=done)
        with pytest.raises(PowerCut):
            write_savepoint(at(keys), saved_queries, HEADER)
        keys.restart()
        try:
            verify(at(keys))
            left = [URI]
        except NoSavepoint:
            left = []
        seen.add(len(left))
        write_savepoint(at(keys, next_to_it), saved_queries, HEADER)
        verify(at(keys, next_to_it))
        dispose(at(keys, next_to_it))
        write_savepoint(later(keys, next_to_it), saved_queries, HEADER)
        assert set(keys.contents) == files_of(keys, next_to_it, *left), (
            f"what was begun is cleared, after request {number}"
        )
    assert seen == {0, 1}


@pytest.mark.parametrize("done", [False, True])
def test_a_request_that_fails_leaves_nothing_or_is_made_again(saved_queries: dict[str, str], done: bool) -> None:
    del saved_queries["a/b ü"]
    count = requests_of(saved_queries, lambda keys: write_savepoint(at(keys), saved_queries, HEADER))
    written = 0
    for number in range(count):
        keys = FakeKeys(fail_at=frozenset({number}), done=done)
        try:
            write_savepoint(at(keys), saved_queries, HEADER)
        except StorageFailed:
            assert keys.contents == {}
            continue
        written += 1
        verify(at(keys))
        kept = {key for key in keys.contents if ".firesteel-partial-" not in key}
        assert kept == files_of(keys, URI)
    assert written >= count - 2, "only who finds nobody at first does not ask again"


def test_a_storage_that_ends_in_the_midst_is_told(saved_queries: dict[str, str]) -> None:
    count = requests_of(saved_queries, lambda keys: write_savepoint(at(keys), saved_queries, HEADER))
    keys = FakeKeys(fail_at=frozenset(range(count // 2, 10_000)))
    with pytest.raises(StorageFailed, match=f"savepoint {URI} can't be reached: 503 SlowDown"):
        write_savepoint(at(keys), saved_queries, HEADER)
    keys.restart()
    with pytest.raises(NoSavepoint):
        read_manifest(at(keys))


def test_one_that_is_given_up_is_taken_back(keys: Keys, saved_queries: dict[str, str], tmp_path: Path) -> None:
    asked = iter([True] * 5)
    with pytest.raises(SavepointGivenUp, match="it took too long"):
        write_savepoint(at(keys), saved_queries, HEADER, is_wanted=lambda: next(asked, False))
    assert names(keys) == []
    assert sorted(os.listdir(tmp_path / "job/result")) == ["0"]


def test_of_two_that_write_one_savepoint_one_does(saved_queries: dict[str, str]) -> None:
    """A worker is taken for dead while it uploads, and another one gets its order."""
    keys = FakeKeys()
    newer = FakeCheckpoint(Path(saved_queries["result"]).parent / "1").commit(7)

    def other(what: str) -> None:
        if what == f"put {ROOT}/{MANIFEST}":
            keys.before = lambda what: None
            write_savepoint(at(keys), {"result": str(newer.root)}, HEADER)

    keys.before = other
    with pytest.raises(TargetTaken):
        write_savepoint(at(keys), saved_queries, HEADER)
    assert verify(at(keys)).queries[0].point.batch == 6
    assert set(keys.contents) == files_of(keys, URI)


def test_who_comes_too_late_for_what_was_cleared_leaves_no_savepoint(saved_queries: dict[str, str]) -> None:
    keys = FakeKeys()
    uploads = 0

    def other(what: str) -> None:
        nonlocal uploads
        uploads += what.startswith("upload")
        if uploads == 5:
            keys.before = lambda what: None
            write_savepoint(later(keys, "s3://firesteel/sp/other"), saved_queries, HEADER)

    keys.before = other
    with pytest.raises(SavepointGivenUp, match="what there was of it was deleted"):
        write_savepoint(at(keys), saved_queries, HEADER)
    assert set(keys.contents) == files_of(keys, "s3://firesteel/sp/other")


def test_what_stays_of_others_keeps_nobody_from_a_savepoint(
    keys: Keys, saved_queries: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    keys.write("sp/.firesteel-partial-strange", b"no note")
    write_savepoint(at(keys), saved_queries, HEADER)
    verify(at(keys))
    assert "what is left of other savepoints beside" in caplog.text


def test_a_note_is_followed_in_its_own_place_only(saved_queries: dict[str, str]) -> None:
    keys = FakeKeys()
    write_savepoint(at(keys), saved_queries, HEADER)
    strange = {name: f'{{"begun_ms":0,"savepoint":"{name}","directory":"queries"}}' for name in ("x/y", "..", "")}
    for number, note in enumerate(strange.values()):
        keys.write(f"sp/.firesteel-partial-{number}", note.encode())
    others = ["sp/x/y/queries/file", "x/y/queries/file", "queries/file", "sp/queries/file"]
    for name in others:
        keys.write(name, b"of others")
    write_savepoint(later(keys, "s3://firesteel/sp/other"), saved_queries, HEADER)
    assert set(others) <= set(keys.contents)
    verify(at(keys))


def test_in_a_bucket_itself(keys: Keys, saved_queries: dict[str, str]) -> None:
    place = at(keys, "s3a://firesteel/savepoint-1")
    write_savepoint(place, saved_queries, HEADER)
    with pytest.raises(TargetTaken):
        write_savepoint(at(keys, "s3://firesteel/savepoint-1"), saved_queries, HEADER)
    dispose(place)
    assert names(keys) == []


def test_checkpoints_that_are_elsewhere_are_told(keys: Keys, saved_queries: dict[str, str], tmp_path: Path) -> None:
    for missing in ({"c": str(tmp_path / "nowhere/0")}, {**saved_queries, "c": str(tmp_path / "nowhere/0")}):
        with pytest.raises(CheckpointMissing, match="nowhere/0 is not here"):
            write_savepoint(at(keys), missing, HEADER)
    assert names(keys) == []


# ── compared ─────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda keys, key: keys.delete([key]), "is missing"),
        (lambda keys, key: keys.write(key, b"short"), "has 5 bytes instead of"),
        (lambda keys, key: keys.write(key, bytes(reversed(keys.get(key).data))), "is not what was written"),
    ],
)
def test_what_was_harmed_is_told_and_not_restored(
    keys: Keys, saved_queries: dict[str, str], tmp_path: Path, harm: Callable[[Keys, str], object], told: str
) -> None:
    directory = write_savepoint(at(keys), saved_queries, HEADER).queries[0].directory
    harm(keys, f"{ROOT}/{directory}/offsets/4")
    with pytest.raises(SavepointDamaged, match=f"offsets/4 {told}"):
        verify(at(keys))
    with pytest.raises(SavepointDamaged, match=f"offsets/4 {told}"):
        restore(at(keys), "result", str(tmp_path / "restored/0"))
    assert os.listdir(tmp_path / "restored") == []
    restore(at(keys), "a/b ü", str(tmp_path / "restored/0"))


def test_one_that_was_copied_from_a_directory_is_one(keys: Keys, saved_queries: dict[str, str], tmp_path: Path) -> None:
    """With tools of others, as are those that are copied from a bucket into a directory."""
    write_savepoint(str(tmp_path / "savepoint"), saved_queries, HEADER)
    for name, data in tree(tmp_path / "savepoint").items():
        keys.write(f"{ROOT}/{name}", data)
    assert not verify(at(keys)).is_sealed
    assert seal(at(keys)) == read_manifest(at(keys)) == verify(at(keys))
    restore(at(keys), "result", str(tmp_path / "restored"))
    for key in names(keys):
        (tmp_path / "back" / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "back" / key).write_bytes(keys.get(key).data)
    verify(str(tmp_path / "back" / ROOT))
    restore(str(tmp_path / "back" / ROOT), "result", str(tmp_path / "again"))
    assert tree(tmp_path / "again") == tree(tmp_path / "restored")


def test_schemas_named_by_absolute_paths_are_those_of_the_restored(keys: Keys, tmp_path: Path) -> None:
    query = FakeCheckpoint(tmp_path / "job/a/0").commit(2)
    schema = query.root / "state/0/_stateSchema/default/0_u"
    schema.parent.mkdir(parents=True)
    schema.write_text("schema")
    (query.root / "state/0/_metadata/v2").mkdir()
    for scheme in ("file:", ""):
        stores = [{"storeName": "default", "numPartitions": 2, "stateSchemaFilePaths": [f"{scheme}{schema}"]}]
        (query.root / "state/0/_metadata/v2/0").write_text("v2\n" + json.dumps({"stateStoreInfo": stores}))
        place = at(keys, f"{URI}{scheme[:4]}")
        write_savepoint(place, {"a": str(query.root)}, HEADER)
        target = tmp_path / f"restored{scheme[:4]}"
        restore(place, "a", str(target))
        text = (target / "state/0/_metadata/v2/0").read_text()
        assert f'"{scheme}{target}/state/0/_stateSchema/default/0_u"' in text


def test_a_disk_without_room_is_no_fault_of_the_storage(
    saved_queries: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = FakeKeys()
    write_savepoint(at(keys), saved_queries, HEADER)

    def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(BucketPlace, "_receive", full)
    with pytest.raises(TargetUnwritable, match=r"restored/0 could not be written \(\[Errno 28\] No space left"):
        restore(at(keys), "result", str(tmp_path / "restored/0"))
    assert os.listdir(tmp_path / "restored") == []


# ── deleted ──────────────────────────────────────────────────────────────────────────────────
def test_files_of_others_are_not_disposed_of(keys: Keys, saved_queries: dict[str, str]) -> None:
    write_savepoint(at(keys), saved_queries, HEADER)
    keys.write(f"{ROOT}/notes.txt", b"mine")
    keys.write(f"{ROOT}/", b"")  # a directory, to some tools
    before = names(keys)
    with pytest.raises(SavepointShared, match=r"holds notes\.txt"):
        dispose(at(keys))
    assert names(keys) == before
    keys.delete([f"{ROOT}/notes.txt"])
    dispose(at(keys))
    assert names(keys) == [f"{ROOT}/"]
    with pytest.raises(NoSavepoint):
        dispose(at(keys))


@pytest.mark.parametrize("done", [False, True])
def test_a_disposal_that_is_interrupted_leaves_no_half_a_savepoint(saved_queries: dict[str, str], done: bool) -> None:
    del saved_queries["a/b ü"]
    made = FakeKeys()
    write_savepoint(at(made), saved_queries, HEADER)
    whole, made.requests = dict(made.contents), 0
    dispose(at(made))
    for number in range(made.requests):
        keys = FakeKeys(dict(whole), cut_at=number, done=done)
        with pytest.raises(PowerCut):
            dispose(at(keys))
        keys.restart()
        try:
            verify(at(keys))
            dispose(at(keys))
        except NoSavepoint:
            pass
        write_savepoint(later(keys, "s3://firesteel/sp/other"), saved_queries, HEADER)
        assert set(keys.contents) == files_of(keys, "s3://firesteel/sp/other")
