"""Savepoints in a bucket: what is only there. `test_remoteplaces` has what is the same in HDFS."""

import pytest

from firesteel.adapters.spark.streams.snapshots.errors import SavepointShared, TargetTaken
from firesteel.adapters.spark.streams.snapshots.savepoints import dispose, verify, write_savepoint
from firesteel.adapters.storage.keys import Keys
from tests.adapters.snapshots.buckets import ROOT, URI, at, names
from tests.adapters.snapshots.storages import OTHER, Bucket
from tests.adapters.snapshots.test_savepoints import HEADER


def test_both_schemes_are_one(keys: Keys, saved_queries: dict[str, str]) -> None:
    manifest = write_savepoint(at(keys), saved_queries, HEADER)
    assert verify(at(keys, URI.replace("s3:", "s3a:"))) == manifest


def test_what_stays_of_others_keeps_nobody_from_a_savepoint(
    keys: Keys, saved_queries: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    keys.write("sp/.firesteel-partial-strange", b"no note")
    write_savepoint(at(keys), saved_queries, HEADER)
    verify(at(keys))
    assert "what is left of other savepoints beside" in caplog.text


def test_a_note_is_followed_in_its_own_place_only(saved_queries: dict[str, str]) -> None:
    bucket = Bucket()
    keys = bucket.keys
    write_savepoint(at(keys), saved_queries, HEADER)
    strange = {name: f'{{"begun_ms":0,"savepoint":"{name}","directory":"queries"}}' for name in ("x/y", "..", "")}
    for number, note in enumerate(strange.values()):
        keys.write(f"sp/.firesteel-partial-{number}", note.encode())
    others = ["sp/x/y/queries/file", "x/y/queries/file", "queries/file", "sp/queries/file"]
    for name in others:
        keys.write(name, b"of others")
    write_savepoint(bucket.at(OTHER, later=True), saved_queries, HEADER)
    assert set(others) <= set(keys.contents)
    verify(at(keys))


def test_in_a_bucket_itself(keys: Keys, saved_queries: dict[str, str]) -> None:
    place = at(keys, "s3a://firesteel/savepoint-1")
    write_savepoint(place, saved_queries, HEADER)
    with pytest.raises(TargetTaken):
        write_savepoint(at(keys, "s3://firesteel/savepoint-1"), saved_queries, HEADER)
    dispose(place)
    assert names(keys) == []


def test_what_stands_for_a_directory_belongs_to_nobody(keys: Keys, saved_queries: dict[str, str]) -> None:
    write_savepoint(at(keys), saved_queries, HEADER)
    keys.write(f"{ROOT}/", b"")
    keys.write(f"{ROOT}/notes.txt", b"mine")
    with pytest.raises(SavepointShared, match=r"holds notes\.txt$|holds notes\.txt;"):
        dispose(at(keys))
    keys.delete([f"{ROOT}/notes.txt"])
    dispose(at(keys))
    assert names(keys) == [f"{ROOT}/"]
