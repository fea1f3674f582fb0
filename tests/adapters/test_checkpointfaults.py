"""Checkpoint directories where disks are full, mounts are gone, or queries are fast; and who deletes them in the end."""

import errno
import os
import shutil
from pathlib import Path

import msgspec
import pytest

from firesteel.adapters.spark.streams import checkpoints
from firesteel.adapters.spark.streams.checkpoints import CheckpointDirectories
from firesteel.adapters.spark.streams.snapshots import savepoints
from firesteel.adapters.spark.streams.snapshots.errors import SnapshotOvertaken
from firesteel.adapters.spark.streams.snapshots.manifest import SavepointHeader
from firesteel.adapters.spark.streams.snapshots.points import last_committed
from firesteel.adapters.spark.streams.snapshots.savepoints import write_savepoint
from firesteel.model.checkpoints import CheckpointOrder
from firesteel.model.failures import OVERTAKEN, FailureKind
from firesteel.model.ids import JobID, RegionIndex
from firesteel.model.options import Configuration
from firesteel.model.streams import SavepointQueries, checkpoints_reference
from firesteel.runtime.ports import TaskFailedError
from tests.adapters.test_checkpoints import STREAM, FailsWith, deployed, directories, query_of


def test_a_later_process_of_the_worker_deletes_them_and_tries_again_when_it_can_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories(tmp_path).prepare(STREAM, deployed(0))
    later = directories(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", FailsWith(PermissionError("not now")))
        with pytest.raises(PermissionError):
            later.release(STREAM.job_id, True)
    later.release(STREAM.job_id, True)
    assert os.listdir(tmp_path / "shared") == []
    assert os.listdir(tmp_path / "streams") == []


def test_a_worker_that_never_had_the_job_deletes_them_as_well(tmp_path: Path) -> None:
    directories(tmp_path).prepare(STREAM, deployed(0))
    other = CheckpointDirectories(Configuration(), "", tmp_path / "elsewhere")
    for given in ("", "s3a://bucket/x", str(tmp_path / "shared"), str(tmp_path / "shared")):
        assert other.discard([checkpoints_reference(STREAM.job_id, given), "/stored/a"]) == ["/stored/a"]
    assert os.listdir(tmp_path / "shared") == []


def test_directories_that_have_vanished_are_not_begun_anew(tmp_path: Path) -> None:
    """All rows would be read and written once more."""
    made = directories(tmp_path)
    query_of(made.prepare(STREAM, deployed(0))["result"]).commit(2)
    (tmp_path / "shared").rename(tmp_path / "unmounted")
    ran = msgspec.structs.replace(deployed(1, former=0), has_run=True)
    with pytest.raises(TaskFailedError, match="see that it is mounted on each") as raised:
        made.prepare(STREAM, ran)
    assert raised.value.failure.kind is FailureKind.NON_RECOVERABLE
    assert raised.value.failure.unbegun
    (tmp_path / "unmounted").rename(tmp_path / "shared")
    assert last_committed(made.prepare(STREAM, ran)["result"]) == 1


def test_a_savepoint_that_finds_no_room_may_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = query_of(directories(tmp_path).prepare(STREAM, deployed(0))["result"]).commit(2)
    header = SavepointHeader(job_id="0" * 32, job_name="old", spark_version="4.3.0", created_ms=0)
    write_savepoint(str(tmp_path / "savepoint"), {"result": str(running.root)}, header)
    configuration = {"execution.state-recovery.path": str(tmp_path / "savepoint")}
    restored = msgspec.structs.replace(STREAM, job_id=JobID("1" * 32), configuration=configuration)
    monkeypatch.setattr(savepoints, "_restore_into", FailsWith(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    with pytest.raises(TaskFailedError, match="No space left on device") as raised:
        directories(tmp_path).prepare(restored, deployed(0))
    assert (raised.value.failure.kind, raised.value.failure.unbegun) == (FailureKind.ENVIRONMENT, True)
    left = sorted(os.listdir(tmp_path / "shared" / restored.job_id / "result"))
    assert left == ["origin", "restored"], "what it is to begin from"


def test_a_query_that_is_too_fast_is_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = directories(tmp_path)
    made.prepare(STREAM, deployed(0))
    overtaken = SnapshotOvertaken("/checkpoints/result/0", 5, "commits/5", 3)
    monkeypatch.setattr(checkpoints, "survey", FailsWith(overtaken))
    queries = (SavepointQueries(region=RegionIndex(0), attempt=0, uids=("result",)),)
    with pytest.raises(TaskFailedError, match="could not be copied") as raised:
        made.look(STREAM.job_id, CheckpointOrder(checkpoint_id=1, queries=queries))
    assert raised.value.failure.exception == OVERTAKEN
