"""Copies of points, and what happens to them when retention, a full disk or a death comes between."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from firesteel.adapters.spark.streams.snapshots import placing, points
from firesteel.adapters.spark.streams.snapshots.errors import (
    CheckpointDamaged,
    CheckpointMissing,
    CheckpointUnknown,
    NothingCommitted,
    SnapshotOvertaken,
    StorageUnsupported,
    TargetTaken,
)
from firesteel.adapters.spark.streams.snapshots.listing import Listing
from firesteel.adapters.spark.streams.snapshots.partials import PREFIX
from firesteel.adapters.spark.streams.snapshots.pointfiles import PointFacts, PointFile, point_files
from firesteel.adapters.spark.streams.snapshots.points import committed_point, copy_point, last_committed
from firesteel.adapters.spark.streams.snapshots.storefiles import LineageOf
from tests.adapters.snapshots.checkpoints import FakeCheckpoint, tree


@pytest.fixture
def query(tmp_path: Path) -> FakeCheckpoint:
    return FakeCheckpoint(tmp_path / "checkpoint").commit(8)


def versions(copy: Path) -> set[str]:
    return {path.name for path in (copy / "state/0/0").glob("*.zip")}


def test_the_last_committed_batch(query: FakeCheckpoint, tmp_path: Path) -> None:
    assert last_committed(str(query.root)) == 7
    query.plan(8)
    assert last_committed(query.root.as_uri()) == 7
    assert last_committed(str(tmp_path / "nothing")) is None


def test_a_point_is_what_a_checkpoint_records(query: FakeCheckpoint) -> None:
    point = committed_point(str(query.root))
    assert (point.batch, point.query_id) == (7, query.query_id)
    assert point.settings["spark.sql.shuffle.partitions"] == "2"
    assert point == committed_point(str(query.root), 7)
    assert len(point.commit_sha256) == 64


@pytest.mark.parametrize("link", [True, False])
def test_a_copy_has_what_its_batch_needs_and_nothing_of_later_ones(
    query: FakeCheckpoint, tmp_path: Path, link: bool
) -> None:
    query.plan(8)
    query.work(8)
    before = tree(query.root)
    made = copy_point(str(query.root), str(tmp_path / "copies/copy"), link=link)
    copy = tmp_path / "copies/copy"
    assert tree(query.root) == before
    assert (made.point.batch, made.directory, made.attempts) == (7, str(copy), 1)
    assert versions(copy) == {"8.zip"}
    assert len(list((copy / "state/0/0/SSTs").iterdir())) == 1
    assert sorted(os.listdir(copy / "offsets"), key=int) == [str(number) for number in range(8)]
    assert sorted(os.listdir(copy / "sources/0")) == ["5.compact", "6", "7"]
    assert (copy / "state/0/0/_metadata/schema").exists()
    found = tree(copy)
    assert all(before[name] == content for name, content in found.items())
    assert made.files == len(found)
    assert made.size_bytes == sum(map(len, found.values()))
    linked = {name for name in found if os.stat(copy / name).st_ino == os.stat(query.root / name).st_ino}
    assert len(linked) == made.linked
    assert linked == ({name for name in found if name != "metadata"} if link else set())
    assert os.listdir(tmp_path / "copies") == ["copy"]


def test_an_older_point_that_is_still_there(query: FakeCheckpoint, tmp_path: Path) -> None:
    assert copy_point(str(query.root), str(tmp_path / "copy"), 3).point.batch == 3
    assert versions(tmp_path / "copy") == {"4.zip"}
    assert sorted(os.listdir(tmp_path / "copy/sources/0")) == ["2.compact", "3"]
    with pytest.raises(NothingCommitted):
        copy_point(str(query.root), str(tmp_path / "other"), 8)


def test_a_log_of_files_is_cut_where_the_batch_ends_it(query: FakeCheckpoint, tmp_path: Path) -> None:
    """It has grown once more than there were batches: the query was stopped while it planned."""
    path = query.root / "offsets/7"
    path.write_text(path.read_text().replace('{"logOffset":7}', '{"logOffset":9}'))
    for name in ("8.compact", "9", "10"):
        (query.root / "sources/0" / name).write_text("v1\n")
    copy_point(str(query.root), str(tmp_path / "copy"))
    assert sorted(os.listdir(tmp_path / "copy/sources/0")) == ["8.compact", "9"]


def test_what_a_source_of_others_writes_is_copied(query: FakeCheckpoint, tmp_path: Path) -> None:
    path = query.root / "offsets/7"
    path.write_text(path.read_text() + '\n{"mine":1}')
    (query.root / "sources/1/deep").mkdir(parents=True)
    (query.root / "sources/1/deep/file").write_text("theirs")
    copy_point(str(query.root), str(tmp_path / "copy"))
    copied = tmp_path / "copy/sources/1/deep/file"
    assert copied.read_text() == "theirs"
    assert os.stat(copied).st_nlink == 1


def test_a_branch_gets_an_id_of_its_own(query: FakeCheckpoint, tmp_path: Path) -> None:
    made = copy_point(str(query.root), str(tmp_path / "copy"), query_id="another")
    assert made.point.query_id == "another"
    assert json.loads((query.root / "metadata").read_text())["id"] == query.query_id


def test_schemas_named_by_absolute_paths_are_those_of_the_copy(query: FakeCheckpoint, tmp_path: Path) -> None:
    paths: list[str] = []
    stores = [{"storeName": "default", "numPartitions": 2, "stateSchemaFilePaths": paths}]
    for batch in (0, 5, 8):
        (query.root / "state/0/_stateSchema/default").mkdir(parents=True, exist_ok=True)
        (query.root / f"state/0/_stateSchema/default/{batch}_u").write_text("schema")
        paths.append(f"file:{query.root}/state/0/_stateSchema/default/{batch}_u")
        (query.root / "state/0/_metadata/v2").mkdir(exist_ok=True)
        (query.root / f"state/0/_metadata/v2/{batch}").write_text("v2\n" + json.dumps({"stateStoreInfo": stores}))
    copy = tmp_path / "copy"
    copy_point(str(query.root), str(copy))
    assert sorted(os.listdir(copy / "state/0/_metadata/v2")) == ["0", "5"]
    named = json.loads((copy / "state/0/_metadata/v2/5").read_text()[3:])["stateStoreInfo"][0]["stateSchemaFilePaths"]
    assert named == [f"file:{copy}/state/0/_stateSchema/default/{batch}_u" for batch in (0, 5)]
    assert (copy / "state/0/_stateSchema/default/5_u").exists()


def test_what_there_is_nothing_to_copy_of(tmp_path: Path, query: FakeCheckpoint) -> None:
    with pytest.raises(NothingCommitted, match="no committed batch yet"):
        copy_point(str(tmp_path / "nothing"), str(tmp_path / "copy"))
    with pytest.raises(StorageUnsupported, match="s3a://bucket/x"):
        copy_point("s3a://bucket/x", str(tmp_path / "copy"))
    with pytest.raises(StorageUnsupported):
        copy_point("relative", str(tmp_path / "copy"))
    with pytest.raises(TargetTaken):
        copy_point(str(query.root), str(query.root))
    (query.root / "offsets/7").write_text("v9\n{}")
    with pytest.raises(CheckpointUnknown, match="offsets/7"):
        copy_point(str(query.root), str(tmp_path / "copy"))
    assert sorted(os.listdir(tmp_path)) == ["checkpoint"]


@pytest.mark.parametrize("link", [True, False])
def test_a_copy_that_was_overtaken_begins_again_at_a_newer_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: bool
) -> None:
    query = FakeCheckpoint(tmp_path / "checkpoint", retention=2).commit(5)
    between(monkeypatch, lambda time: query.commit(4) if time == 1 else None)
    made = copy_point(str(query.root), str(tmp_path / "copy"), link=link)
    assert (made.point.batch, made.attempts) == (8, 2)
    assert versions(tmp_path / "copy") == {"9.zip"}
    assert sorted(os.listdir(tmp_path)) == ["checkpoint", "copy"]


def test_a_copy_that_is_always_overtaken_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = FakeCheckpoint(tmp_path / "checkpoint", retention=2).commit(5)
    between(monkeypatch, lambda _: query.commit(4))
    with pytest.raises(SnapshotOvertaken, match="minBatchesToRetain") as told:
        copy_point(str(query.root), str(tmp_path / "copy"))
    assert told.value.attempts == 3
    assert sorted(os.listdir(tmp_path)) == ["checkpoint"]


def test_a_certain_batch_is_not_replaced_by_a_newer_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = FakeCheckpoint(tmp_path / "checkpoint", retention=2).commit(5)
    between(monkeypatch, lambda _: query.commit(4))
    with pytest.raises(SnapshotOvertaken) as told:
        copy_point(str(query.root), str(tmp_path / "copy"), 4)
    assert (told.value.attempts, told.value.batch) == (1, 4)


def test_files_that_are_held_may_be_deleted_before_they_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = FakeCheckpoint(tmp_path / "checkpoint", retention=2).commit(5)
    finish = placing.Placing.finish
    monkeypatch.setattr(placing.Placing, "finish", lambda self: (query.commit(4), finish(self))[1])
    made = copy_point(str(query.root), str(tmp_path / "copy"), link=False)
    assert (made.point.batch, made.attempts, made.linked) == (4, 1, 0)


def test_without_links_what_was_deleted_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = FakeCheckpoint(tmp_path / "checkpoint", retention=2).commit(5)

    def refused(*_: object) -> None:
        raise OSError(95, "no links here")

    monkeypatch.setattr(os, "link", refused)
    finish = placing.Placing.finish
    times: list[int] = []

    def overtaken(self: placing.Placing) -> object:
        if not times:
            query.commit(4)
        times.append(1)
        return finish(self)

    monkeypatch.setattr(placing.Placing, "finish", overtaken)
    made = copy_point(str(query.root), str(tmp_path / "copy"))
    assert (made.point.batch, made.attempts, made.linked) == (8, 2, 0)


def test_a_file_that_somebody_removed_is_told(query: FakeCheckpoint, tmp_path: Path) -> None:
    shutil.rmtree(query.root / "state/0/1/SSTs")
    with pytest.raises(CheckpointDamaged, match=r"state/0/1/SSTs/.*earlier savepoint"):
        copy_point(str(query.root), str(tmp_path / "copy"))


@pytest.mark.parametrize("name", ["metadata", "commits/7", "offsets/6", "state/0/_metadata/metadata", "sources/0/6"])
def test_every_file_counts(query: FakeCheckpoint, tmp_path: Path, name: str) -> None:
    (query.root / name).unlink()
    if name == "commits/7":
        assert copy_point(str(query.root), str(tmp_path / "copy")).point.batch == 6
    elif name == "offsets/6":  # a log may leave batches out
        copy_point(str(query.root), str(tmp_path / "copy"))
    else:
        with pytest.raises(CheckpointDamaged):
            copy_point(str(query.root), str(tmp_path / "copy"))


def between(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], object]) -> None:
    """`act` happens when a copy has found out which files it needs, each time."""
    times: list[int] = []

    def overtaken(listing: Listing, facts: PointFacts, lineage_of: LineageOf) -> list[PointFile]:
        files = point_files(listing, facts, lineage_of)
        times.append(1)
        act(len(times))
        return files

    monkeypatch.setattr(points, "point_files", overtaken)


def copying(query: FakeCheckpoint, target: Path, file_bytes_max: int = -1) -> subprocess.Popen[str]:
    """A copy in a process of its own, which can write no file that is larger."""
    command = [sys.executable, "-c", COPY, str(query.root), str(target), str(file_bytes_max)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


COPY = """
import resource, signal, sys
from firesteel.adapters.spark.streams.snapshots.points import copy_point
from firesteel.adapters.spark.streams.snapshots.errors import SnapshotError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
print("ready", flush=True)
try:
    copy_point(sys.argv[1], sys.argv[2], link=False)
except SnapshotError as error:
    print(type(error).__name__, error)
"""


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    query = FakeCheckpoint(tmp_path / "checkpoint", data_bytes=200_000).commit(3)
    with copying(query, tmp_path / "copy", file_bytes_max=100_000) as process:
        told, errors = process.communicate(timeout=300)
    assert "TargetUnwritable" in told, errors
    assert "free space" in told
    assert sorted(os.listdir(tmp_path)) == ["checkpoint"]
    assert not [name for name in os.listdir(query.root) if name.startswith(".")]


def test_a_death_leaves_no_half_copy_and_the_next_one_clears_up(tmp_path: Path) -> None:
    query = FakeCheckpoint(tmp_path / "checkpoint", data_bytes=30_000_000).commit(3)
    dead = 0
    for number in range(300):
        delay_ms = number % 10 * 6
        with copying(query, tmp_path / "copy") as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(delay_ms / 1000)
            process.kill()
        if (tmp_path / "copy").exists():
            assert len(tree(tmp_path / "copy")) == 14
            shutil.rmtree(tmp_path / "copy")
        else:
            dead += any(name.startswith(PREFIX) for name in os.listdir(tmp_path))
        if dead and number >= 9:  # where in its work a process is after so long, nobody knows
            break
    assert dead, "one was killed in the middle"
    for place in (tmp_path, query.root):
        for partial in place.glob(f"{PREFIX}*"):
            os.utime(partial, (1, 1))
    made = copy_point(str(query.root), str(tmp_path / "copy"), link=False)
    assert made.files == 14
    assert sorted(os.listdir(tmp_path)) == ["checkpoint", "copy"]
    assert not [name for name in os.listdir(query.root) if name.startswith(".")]


def test_a_survey_begins_again_when_retention_has_overtaken_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = FakeCheckpoint(tmp_path / "query", retention=2).commit(5)
    read, runs = points.read_facts, []

    def overtaken(checkpoint: Path, listing: Listing, batch: int) -> PointFacts:
        """The query goes on while somebody looks, the first `busy` times."""
        runs.append(batch)
        found = read(checkpoint, listing, batch)
        if len(runs) <= busy:
            query.commit(4)
        return found

    monkeypatch.setattr(points, "read_facts", overtaken)
    busy = 1
    surveyed = points.survey(str(query.root))
    assert (runs, surveyed.point.batch, surveyed.oldest_batch) == ([4, 8], 8, 7)
    busy = 99
    with pytest.raises(SnapshotOvertaken):
        points.survey(str(query.root))
    busy, before = len(runs) + 20, len(runs)
    surveyed = points.survey(str(query.root), time.monotonic() + 600)
    assert (len(runs) - before, surveyed.point.batch) == (21, runs[-1]), "as long as it may take"
    with pytest.raises(CheckpointMissing):
        points.survey(str(tmp_path / "nowhere"))


def test_a_survey_looks_at_the_files_that_snapshots_name(query: FakeCheckpoint, tmp_path: Path) -> None:
    copied = copy_point(str(query.root), str(tmp_path / "copy"))
    found = points.survey(copied.directory)
    assert found.size_bytes == copied.size_bytes
    assert found.size_bytes > 2 * query.data_bytes
    (sst,) = (tmp_path / "copy/state/0/1/SSTs").iterdir()
    sst.unlink()
    sst.write_bytes(b"cut off")
    with pytest.raises(CheckpointDamaged, match=r"state/0/1/SSTs/.*not whole"):
        points.survey(copied.directory)
    sst.unlink()
    with pytest.raises(CheckpointDamaged, match=r"state/0/1/SSTs/.*is not there"):
        points.survey(copied.directory)
