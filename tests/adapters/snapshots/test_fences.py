"""A query that was taken for dead plans no batch that its successor does not have."""

import os
from pathlib import Path

import pytest

from firesteel.adapters.spark.streams.snapshots import fences
from firesteel.adapters.spark.streams.snapshots.fences import fence, is_planned
from firesteel.adapters.spark.streams.snapshots.listing import is_fence
from firesteel.adapters.spark.streams.snapshots.points import copy_point, last_committed
from firesteel.adapters.spark.streams.snapshots.savepoints import restore, write_savepoint
from tests.adapters.snapshots.checkpoints import FakeCheckpoint
from tests.adapters.snapshots.test_savepoints import HEADER


def may_plan(checkpoint: Path, batch: int) -> bool:
    """Spark plans a batch if there is no such file."""
    return not (checkpoint / f"offsets/{batch}").exists()


def test_nothing_is_planned_after_what_is_committed(tmp_path: Path) -> None:
    query = FakeCheckpoint(tmp_path / "query").commit(3)
    fence(query.root)
    fence(query.root)
    assert not may_plan(query.root, 3)
    assert not is_planned(query.root, 3)
    assert sorted(os.listdir(query.root / "offsets")) == ["0", "1", "2", "3"]


def test_what_is_planned_may_be_run(tmp_path: Path) -> None:
    query = FakeCheckpoint(tmp_path / "query").commit(3)
    query.plan(3)
    fence(query.root)
    assert is_planned(query.root, 3)
    assert not may_plan(query.root, 4)
    query.work(3)
    (query.root / "commits/3").write_text('v1\n{"nextBatchWatermarkMs":0}')
    fence(query.root)
    assert last_committed(str(query.root)) == 3
    assert not is_planned(query.root, 4)


def test_a_query_that_has_planned_nothing_begins_nothing(tmp_path: Path) -> None:
    (tmp_path / "query").mkdir()
    fence(tmp_path / "query")
    assert not may_plan(tmp_path / "query", 0)
    assert not is_planned(tmp_path / "query", 0)


def test_a_query_that_is_faster_is_caught_up_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = FakeCheckpoint(tmp_path / "query").commit(3)
    query.plan(3)
    looked = last_committed

    def overtaken(checkpoint: str) -> int | None:
        batch = looked(checkpoint)
        if batch == 2:
            query.commit()
            query.plan(4)
        return batch

    monkeypatch.setattr(fences, "last_committed", overtaken)
    fence(query.root)
    assert is_planned(query.root, 4)
    assert not may_plan(query.root, 5)


def test_one_whose_maker_has_died_is_one(tmp_path: Path) -> None:
    query = FakeCheckpoint(tmp_path / "query").commit(3)
    (query.root / "offsets/3").touch()
    assert is_fence(query.root / "offsets/3")
    assert not is_fence(query.root / "offsets/2")
    fence(query.root)
    assert may_plan(query.root, 4)


def test_a_savepoint_takes_none_for_a_batch(tmp_path: Path) -> None:
    query = FakeCheckpoint(tmp_path / "query").commit(3)
    fence(query.root)
    write_savepoint(str(tmp_path / "made"), {"result": str(query.root)}, HEADER)
    restore(str(tmp_path / "made"), "result", str(tmp_path / "next"))
    assert sorted(os.listdir(tmp_path / "next/offsets")) == ["0", "1", "2"]


def test_it_does_not_stand_for_a_batch_that_was_planned(tmp_path: Path) -> None:
    """With one batch retained there are no offsets before the last committed batch while the next one runs."""
    query = FakeCheckpoint(tmp_path / "query", retention=2).commit(5)
    query.plan(5)
    (query.root / "offsets/3").unlink()
    fence(query.root)
    assert sorted(os.listdir(query.root / "offsets")) == ["4", "5", "6"]
    assert copy_point(str(query.root), str(tmp_path / "copy")).point.batch == 4
    write_savepoint(str(tmp_path / "made"), {"result": str(query.root)}, HEADER)
    restore(str(tmp_path / "made"), "result", str(tmp_path / "next"))
    assert sorted(os.listdir(tmp_path / "next/offsets")) == ["4", "5"], "Spark starts from these"
