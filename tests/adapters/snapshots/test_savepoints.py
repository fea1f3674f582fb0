"""Savepoints: written, moved, checked, restored, disposed of."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firesteel.adapters.spark.streams.snapshots import directoryplace, parts
from firesteel.adapters.spark.streams.snapshots.errors import (
    CheckpointMissing,
    NoSavepoint,
    QueryUnknown,
    SavepointDamaged,
    SavepointShared,
    SnapshotOvertaken,
    TargetTaken,
)
from firesteel.adapters.spark.streams.snapshots.manifest import (
    MANIFEST,
    SavepointFile,
    SavepointHeader,
    SavepointManifest,
    SavepointQuery,
    SavepointVertex,
    SinkLog,
    decode,
    encode,
    savepoint_name,
)
from firesteel.adapters.spark.streams.snapshots.placing import Placing
from firesteel.adapters.spark.streams.snapshots.points import (
    CommittedPoint,
    Copied,
    copy_into,
    copy_point,
    last_committed,
)
from firesteel.adapters.spark.streams.snapshots.savepoints import (
    dispose,
    query_of,
    read_manifest,
    restore,
    seal,
    verify,
    write_savepoint,
)
from firesteel.adapters.spark.streams.snapshots.sinklogs import put_back
from tests.adapters.snapshots.checkpoints import FakeCheckpoint, tree

GOLDEN = Path(__file__).parent / "golden" / "savepoint.json"
HEADER = SavepointHeader(
    job_id="0123456789abcdef0123456789abcdef",
    job_name="clicks",
    spark_version="4.3.0",
    created_ms=1_700_000_000_000,
    vertices=(SavepointVertex(uid="result", name="result"),),
    fingerprints={"result": "keys: word"},
)


class OneRetained(FakeCheckpoint):
    """Of a query with spark.sql.streaming.minBatchesToRetain=1: the batch that is planned is all that is left beside the last
    committed."""

    def plan(self, batch: int) -> None:
        super().plan(batch)
        for path in (self.root / "offsets").iterdir():
            if int(path.name) < batch - 1:
                path.unlink()


@pytest.fixture
def queries(tmp_path: Path) -> dict[str, str]:
    made = {
        "result": FakeCheckpoint(tmp_path / "first").commit(5),
        "a/b ü": FakeCheckpoint(tmp_path / "second").commit(2),
    }
    return {uid: str(query.root) for uid, query in made.items()}


@pytest.fixture
def savepoint(tmp_path: Path, queries: dict[str, str]) -> Path:
    path = tmp_path / "savepoints" / savepoint_name(HEADER.job_id)
    write_savepoint(str(path), queries, HEADER, link=False)
    return path


def test_the_name_is_as_flinks() -> None:
    name = savepoint_name(HEADER.job_id)
    assert name.startswith("savepoint-012345-")
    assert len(name) == len("savepoint-012345-") + 12
    assert savepoint_name(HEADER.job_id) != name


def test_the_format_is_that_of_the_golden_file() -> None:
    point = CommittedPoint(
        batch=7, query_id="q", commit_sha256="c" * 64, settings={"spark.sql.shuffle.partitions": "2"}
    )
    query = SavepointQuery(
        uid="result",
        directory="queries/0-result",
        point=point,
        files=(SavepointFile("commits/7", 30, "a" * 64), SavepointFile("state/0/0/8.zip", 900)),
        sink_log=SinkLog(output="/out", directory="sink-log"),
        fingerprint="keys: word",
    )
    manifest = SavepointManifest(
        version=1,
        job_id=HEADER.job_id,
        job_name=HEADER.job_name,
        spark_version=HEADER.spark_version,
        created_ms=HEADER.created_ms,
        vertices=HEADER.vertices,
        queries=(query,),
    )
    assert encode(manifest).decode() + "\n" == GOLDEN.read_text()
    assert decode(GOLDEN.read_bytes(), "x") == manifest
    assert manifest.size_bytes == 930
    assert not manifest.is_sealed


def test_what_is_written_can_be_read(savepoint: Path, queries: dict[str, str]) -> None:
    manifest = read_manifest(str(savepoint))
    assert manifest == verify(str(savepoint))
    assert (manifest.job_id, manifest.job_name, manifest.spark_version) == (HEADER.job_id, "clicks", "4.3.0")
    assert [(query.uid, query.point.batch) for query in manifest.queries] == [("result", 4), ("a/b ü", 1)]
    assert manifest.queries[0].fingerprint == "keys: word"
    assert manifest.queries[0].point.settings["spark.sql.shuffle.partitions"] == "2"
    assert manifest.is_sealed
    assert str(savepoint.parent) not in (savepoint / MANIFEST).read_text(), "it can be moved"
    listed = {f"{query.directory}/{file.name}" for query in manifest.queries for file in query.files}
    assert listed | {MANIFEST} == set(tree(savepoint))
    assert os.listdir(savepoint.parent) == [savepoint.name]


@pytest.mark.parametrize("link", [True, False])
def test_moved_and_restored(savepoint: Path, queries: dict[str, str], tmp_path: Path, link: bool) -> None:
    copy_point(queries["a/b ü"], str(tmp_path / "copy"), link=False)
    shutil.rmtree(queries["result"])
    shutil.rmtree(queries["a/b ü"])
    shutil.move(savepoint, tmp_path / "moved")
    query = restore(str(tmp_path / "moved"), "a/b ü", str(tmp_path / "deep/restored"), link=link)
    assert query.point.batch == 1 == last_committed(str(tmp_path / "deep/restored"))
    assert tree(tmp_path / "deep/restored") == tree(tmp_path / "copy")
    assert (os.stat(tmp_path / "deep/restored/commits/1").st_nlink > 1) == link
    dispose(str(tmp_path / "moved"))
    assert tree(tmp_path / "deep/restored") == tree(tmp_path / "copy")
    with pytest.raises(NoSavepoint):
        read_manifest(str(tmp_path / "moved"))


def test_a_query_that_begins_beside_the_old_one_has_an_id_of_its_own(savepoint: Path, tmp_path: Path) -> None:
    restore(str(savepoint), "result", str(tmp_path / "branch"), query_id="its-own")
    assert json.loads((tmp_path / "branch/metadata").read_text()) == {"id": "its-own"}
    restore(str(savepoint), "result", str(tmp_path / "again"))
    assert json.loads((tmp_path / "again/metadata").read_text()) != {"id": "its-own"}, "the savepoint is as it was"


def test_the_batch_that_was_planned_is_run_again_as_it_was(tmp_path: Path, queries: dict[str, str]) -> None:
    running = FakeCheckpoint(tmp_path / "busy").commit(3)
    running.plan(3)
    write_savepoint(str(tmp_path / "made"), {"busy": str(running.root)}, HEADER)
    verify(str(tmp_path / "made"))
    restore(str(tmp_path / "made"), "busy", str(tmp_path / "next"))
    assert last_committed(str(tmp_path / "next")) == 2
    assert (tmp_path / "next/offsets/3").read_text() == (running.root / "offsets/3").read_text()
    assert tree(tmp_path / "next/sources").keys() == {"0/2.compact", "0/3"}, "what it reads, and from where it goes on"


def test_a_log_that_is_compacted_meanwhile_loses_no_planned_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = FakeCheckpoint(tmp_path / "busy").commit(5)
    running.plan(5)
    log, take = running.root / "sources/0", Placing.take

    def overtaken(placing: Placing, name: str, *, immutable: bool) -> None:
        if name == "sources/0/5.compact" and (log / "3").exists():
            (log / "5.compact").rename(log / "hidden")
            try:
                take(placing, name, immutable=immutable)
            finally:
                (log / "hidden").rename(log / "5.compact")
                (log / "3").unlink()
        take(placing, name, immutable=immutable)

    monkeypatch.setattr(Placing, "take", overtaken)
    write_savepoint(str(tmp_path / "made"), {"busy": str(running.root)}, HEADER)
    verify(str(tmp_path / "made"))
    restore(str(tmp_path / "made"), "busy", str(tmp_path / "next"))
    assert (tmp_path / "next/offsets/5").exists()
    assert (tmp_path / "next/sources/0/5.compact").exists()


@pytest.mark.parametrize(("faster", "batch"), [(1, 6), (2, 8)])
def test_a_point_that_lost_both_its_neighbours_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faster: int, batch: int
) -> None:
    """With one batch retained Spark could not start from it: it wants the batch before, or one that was planned after."""
    running = OneRetained(tmp_path / "busy", retention=2).commit(5)
    running.plan(5)
    copies: list[int] = []

    def overtaken(*arguments: Any) -> Copied:
        copied = copy_into(*arguments)
        copies.append(copied.snapshot.point.batch)
        if len(copies) <= faster:
            running.commit(2)
            running.plan(running.batch + 1)
        return copied

    monkeypatch.setattr(parts, "copy_into", overtaken)
    write_savepoint(str(tmp_path / "made"), {"busy": str(running.root)}, HEADER)
    verify(str(tmp_path / "made"))
    restore(str(tmp_path / "made"), "busy", str(tmp_path / "next"))
    assert last_committed(str(tmp_path / "next")) == batch
    assert sorted(os.listdir(tmp_path / "next/offsets")) == [str(batch), str(batch + 1)]


def test_a_query_that_is_always_faster_gets_no_savepoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = OneRetained(tmp_path / "busy", retention=2).commit(5)
    running.plan(5)

    def overtaken(*arguments: Any) -> Copied:
        copied = copy_into(*arguments)
        running.commit(2)
        running.plan(running.batch + 1)
        return copied

    monkeypatch.setattr(parts, "copy_into", overtaken)
    with pytest.raises(SnapshotOvertaken, match=r"offsets/7 was deleted .*minBatchesToRetain"):
        write_savepoint(str(tmp_path / "made"), {"busy": str(running.root)}, HEADER)
    assert not (tmp_path / "made").exists()


def test_links_are_sealed_when_somebody_has_time(tmp_path: Path, queries: dict[str, str]) -> None:
    path = str(tmp_path / "savepoint")
    manifest = write_savepoint(path, queries, HEADER)
    assert not manifest.is_sealed
    assert os.stat(tmp_path / "savepoint/queries/0-result/commits/4").st_nlink > 1
    sealed = seal(path)
    assert sealed.is_sealed
    assert sealed == seal(path) == read_manifest(path) == verify(path)
    assert [file.name for file in sealed.queries[0].files] == [file.name for file in manifest.queries[0].files]


def test_schemas_named_by_absolute_paths_are_those_of_the_restored(tmp_path: Path) -> None:
    query = FakeCheckpoint(tmp_path / "checkpoint").commit(2)
    schema = query.root / "state/0/_stateSchema/default/0_u"
    schema.parent.mkdir(parents=True)
    schema.write_text("schema")
    (query.root / "state/0/_metadata/v2").mkdir()
    stores = [{"storeName": "default", "numPartitions": 2, "stateSchemaFilePaths": [f"file:{schema}"]}]
    (query.root / "state/0/_metadata/v2/0").write_text("v2\n" + json.dumps({"stateStoreInfo": stores}))
    write_savepoint(str(tmp_path / "savepoint"), {"a": str(query.root)}, HEADER)
    shutil.rmtree(query.root)
    shutil.move(tmp_path / "savepoint", tmp_path / "moved")
    restore(str(tmp_path / "moved"), "a", str(tmp_path / "restored"))
    text = (tmp_path / "restored/state/0/_metadata/v2/0").read_text()
    assert f'"file:{tmp_path}/restored/state/0/_stateSchema/default/0_u"' in text
    (tmp_path / "moved/queries/0-a/state/0/_metadata/v2/0").unlink()
    with pytest.raises(SavepointDamaged, match="queries/0-a/state/0/_metadata/v2/0 is missing"):
        restore(str(tmp_path / "moved"), "a", str(tmp_path / "again"))


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda file: file.unlink(), "is missing"),
        (lambda file: file.write_bytes(b"short"), "bytes instead of"),
        (lambda file: file.write_bytes(bytes(reversed(file.read_bytes()))), "is not what was written"),
    ],
)
def test_what_was_harmed_is_told_and_not_restored(
    savepoint: Path, tmp_path: Path, harm: Callable[[Path], object], told: str
) -> None:
    harm(savepoint / "queries/0-result/offsets/4")
    with pytest.raises(SavepointDamaged, match=f"offsets/4 .*{told}"):
        verify(str(savepoint))
    with pytest.raises(SavepointDamaged, match="offsets/4"):
        restore(str(savepoint), "result", str(tmp_path / "restored"), link=False)
    assert not (tmp_path / "restored").exists()
    restore(str(savepoint), "a/b ü", str(tmp_path / "restored"), link=False)


def test_what_is_no_savepoint_is_left_alone(tmp_path: Path, queries: dict[str, str], savepoint: Path) -> None:
    before = tree(tmp_path)
    for path in (tmp_path / "first", tmp_path, tmp_path / "nothing", savepoint / "queries", savepoint / MANIFEST):
        with pytest.raises(NoSavepoint, match=r"no savepoint of firesteel"):
            dispose(str(path))
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", "can't be read"),
        ("no json", "can't be read"),
        ('{"version":99}', "its format is 99"),
        ('{"version":1,"job_id":"x"}', "can't be read"),
    ],
)
def test_other_manifests_are_refused(savepoint: Path, text: str, told: str) -> None:
    (savepoint / MANIFEST).write_text(text)
    with pytest.raises(NoSavepoint, match=told):
        dispose(str(savepoint))


def test_a_manifest_that_names_files_elsewhere_is_refused(savepoint: Path) -> None:
    text = (savepoint / MANIFEST).read_text()
    for name in ("../../first/metadata", "/etc/passwd"):
        (savepoint / MANIFEST).write_text(text.replace('"metadata"', json.dumps(name)))
        with pytest.raises(NoSavepoint, match="outside of it"):
            read_manifest(str(savepoint))


def test_files_of_others_are_not_disposed_of(savepoint: Path) -> None:
    (savepoint / "queries/0-result/.metadata.crc").write_bytes(b"left by Spark")
    (savepoint / "notes.txt").write_text("mine")
    with pytest.raises(SavepointShared, match=r"notes\.txt"):
        dispose(str(savepoint))
    (savepoint / "notes.txt").unlink()
    verify(str(savepoint))
    dispose(str(savepoint))
    assert not savepoint.exists()


def test_one_whose_disposal_was_interrupted_is_none_and_is_cleared(
    savepoint: Path, queries: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", lambda path, ignore_errors=False: None)  # it has died
        dispose(str(savepoint))
    assert not savepoint.exists()
    (left,) = savepoint.parent.glob(".firesteel-partial-*")
    os.utime(left, (1, 1))
    write_savepoint(str(savepoint), queries, HEADER)
    assert not list(savepoint.parent.glob(".firesteel-partial-*"))


def test_names_that_are_taken_or_not_known(savepoint: Path, queries: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(TargetTaken):
        write_savepoint(str(savepoint), queries, HEADER)
    with pytest.raises(TargetTaken):
        restore(str(savepoint), "result", queries["result"])
    with pytest.raises(QueryUnknown, match="has no query 'other'; it has result, a/b ü"):
        restore(str(savepoint), "other", str(tmp_path / "restored"))


def test_all_queries_or_none(tmp_path: Path, queries: dict[str, str]) -> None:
    with pytest.raises(CheckpointMissing, match="nowhere is not here"):
        write_savepoint(str(tmp_path / "new/savepoint"), {**queries, "c": str(tmp_path / "nowhere")}, HEADER)
    assert os.listdir(tmp_path / "new") == []


def test_a_query_that_has_committed_nothing_is_at_its_beginning(tmp_path: Path, queries: dict[str, str]) -> None:
    (tmp_path / "empty").mkdir()
    begun = FakeCheckpoint(tmp_path / "begun")
    begun.plan(0)
    begun.work(0)
    made, outputs = str(tmp_path / "made"), {"empty": str(tmp_path / "out")}
    checkpoints = {**queries, "empty": str(tmp_path / "empty"), "begun": str(begun.root)}
    write_savepoint(made, checkpoints, HEADER, outputs=outputs)
    verify(made)
    for uid in ("empty", "begun"):
        assert restore(made, uid, str(tmp_path / "next" / uid)).point.batch == -1
        assert last_committed(str(tmp_path / "next" / uid)) is None
    assert tree(tmp_path / "next/empty") == {}
    assert list(tree(tmp_path / "next/begun")) == ["metadata", "offsets/0", "sources/0/0"], (
        "its first batch is the same"
    )
    log = tmp_path / "out/_spark_metadata"
    log.mkdir(parents=True)
    (log / "0").write_text("v1")
    for output in (str(tmp_path / "out"), str(tmp_path / "other")):
        put_back(tmp_path / "a log without files", query_of(made, "empty"), output)
        assert os.listdir(f"{output}/_spark_metadata") == [], "nothing is taken for written"


def test_the_manifest_is_the_last_file(
    tmp_path: Path, queries: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever dies before it leaves no savepoint, wherever that is."""
    write = directoryplace.write_manifest
    seen: list[set[str]] = []

    def watched(root: Path, manifest: SavepointManifest) -> None:
        seen.append(set(tree(root)))
        write(root, manifest)

    monkeypatch.setattr(directoryplace, "write_manifest", watched)
    write_savepoint(str(tmp_path / "savepoint"), queries, HEADER, link=False)
    assert seen == [set(tree(tmp_path / "savepoint")) - {MANIFEST}]
