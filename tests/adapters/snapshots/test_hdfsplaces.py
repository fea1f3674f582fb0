"""Savepoints in HDFS: what is only there. `test_remoteplaces` has what is the same in a bucket."""

import pytest

from firesteel.adapters.spark.streams.snapshots.claims import take
from firesteel.adapters.spark.streams.snapshots.errors import NoSavepoint, StorageRefused, TargetTaken, TargetUnwritable
from firesteel.adapters.spark.streams.snapshots.places import place_at
from firesteel.adapters.spark.streams.snapshots.savepoints import dispose, read_manifest, seal, verify, write_savepoint
from firesteel.testing.power import PowerCut
from tests.adapters.snapshots.storages import ROOT, InHdfs
from tests.adapters.snapshots.test_claims import MINE, OTHERS
from tests.adapters.snapshots.test_savepoints import HEADER


@pytest.mark.parametrize(
    ("location", "settings", "told"),
    [
        ("hdfs:///savepoints/x", {}, "names no NameNode: write hdfs://HOST:PORT/PATH"),
        ("hdfs://nn:8020/", {}, "is a whole file system: write to a path in it"),
        ("hdfs://nn:8020/a/../b", {}, r"has a step \. or \.\."),
        ("hdfs://nn:8020/x", {"fs.hdfs.webhdfs-address": "nn"}, "'nn' is no address like HOST:9870"),
    ],
)
def test_what_names_no_place_is_told(location: str, settings: dict[str, str], told: str) -> None:
    with pytest.raises(StorageRefused, match=f"savepoint {location} can't be reached: .*{told}"):
        place_at(location, settings)


def test_whatever_is_there_is_not_replaced(saved_queries: dict[str, str]) -> None:
    there = InHdfs()
    there.client.make_directory(f"/{ROOT}")
    with pytest.raises(TargetTaken):
        write_savepoint(there.at(), saved_queries, HEADER)
    with pytest.raises(NoSavepoint):
        read_manifest(there.at())
    assert there.names() == []


def test_a_gateway_that_drops_what_it_does_not_know_is_refused(
    saved_queries: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = InHdfs()
    monkeypatch.setattr(there.client, "rename", lambda *_, **__: None)
    with pytest.raises(StorageRefused, match="does not heed renameoptions"):
        write_savepoint(there.at(), saved_queries, HEADER)
    assert there.names() == []


def test_a_name_whose_answers_are_lost_is_known_by_its_id(saved_queries: dict[str, str]) -> None:
    """It was given by the first request: the next ones find something there."""
    there = InHdfs()
    there.arm()
    write_savepoint(there.at(), saved_queries, HEADER)
    renamed = there.faults.requests - 2  # before the last, which removes nothing
    dispose(there.at())
    for lost in ({renamed}, {renamed, renamed + 1, renamed + 2}):
        there.arm(fail_at=frozenset(lost), done=True)
        write_savepoint(there.at(), saved_queries, HEADER)
        there.arm()
        verify(there.at())
        assert set(there.names()) == there.savepoints(ROOT)
        dispose(there.at())


@pytest.mark.parametrize("done", [False, True])
def test_a_claim_that_is_cut_off_is_in_nobodys_way(saved_queries: dict[str, str], done: bool) -> None:
    there, owners = InHdfs(), set()
    write_savepoint(there.at(), saved_queries, HEADER)
    there.arm()
    take(there.at(), MINE, owns=True)
    count = there.faults.requests
    there.at().give_back()
    for number in range(count):
        there.arm(cut_at=number, done=done)
        with pytest.raises(PowerCut):
            take(there.at(), MINE, owns=True)
        there.arm()
        owners.add(f"{ROOT}/claim/job.json" in there.names())
        take(there.at(), MINE, owns=True)
        there.at().give_back()
        take(there.at(), OTHERS, owns=True)
        there.at().give_back()
    assert owners == {False, True}
    dispose(there.at())
    assert there.names() == []


def test_what_is_disposed_of_is_not_made_anew(saved_queries: dict[str, str]) -> None:
    there = InHdfs()
    write_savepoint(there.at(), saved_queries, HEADER)
    for work in (lambda: there.at().claim(b"{}"), lambda: seal(there.at())):
        there.before(lambda: dispose(there.at()), lambda what: what.startswith("write /.reserved"))
        with pytest.raises((FileNotFoundError, TargetUnwritable)):
            work()
        assert there.names() == []
        write_savepoint(there.at(), saved_queries, HEADER)
