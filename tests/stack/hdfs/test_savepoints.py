"""Savepoints in a real HDFS: written, compared, restored elsewhere and disposed of; killed at requests; a NameNode that is away.

`tests/adapters/snapshots/test_remoteplaces.py` has every request, with an HDFS in memory.
"""

import contextlib
import shutil
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from firesteel.adapters.spark.streams.snapshots.claims import settle, take
from firesteel.adapters.spark.streams.snapshots.directoryplace import digest_of
from firesteel.adapters.spark.streams.snapshots.errors import (
    NoSavepoint,
    SavepointClaimed,
    SavepointGivenUp,
    StorageFailed,
    StorageRefused,
    TargetTaken,
)
from firesteel.adapters.spark.streams.snapshots.places import place_at
from firesteel.adapters.spark.streams.snapshots.points import copy_point
from firesteel.adapters.spark.streams.snapshots.savepoints import (
    dispose,
    read_manifest,
    restore,
    seal,
    verify,
    write_savepoint,
)
from firesteel.adapters.storage.hdfstree import BY_ID
from firesteel.adapters.storage.s3settings import hadoop_settings
from firesteel.model.ids import JobID
from firesteel.model.options import Configuration
from firesteel.model.streams import ClaimedSavepoint
from firesteel.testing.power import PowerCut
from tests.adapters.snapshots.checkpoints import FakeCheckpoint, tree
from tests.adapters.snapshots.storages import OTHER, ROOT, InHdfs, nth_upload
from tests.adapters.snapshots.test_savepoints import HEADER
from tests.stack.hadoop import LIMIT_S, Hdfs, hdfs
from tests.stack.hdfs.conftest import hdfs_settings

MINE, OTHERS = JobID("a" * 32), JobID("b" * 32)
LARGE_BYTES = 65 << 20


@pytest.fixture
def there(storage: Hdfs) -> Iterator[InHdfs]:
    """A directory of the test's own."""
    top = f"/{uuid.uuid4().hex}"
    yield InHdfs(storage.client(), top)
    storage.client().delete(top, recursive=True)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Hdfs]:
    """Of one test, which starts processes of it."""
    with hdfs(tmp_path / "hdfs") as made:
        yield made


@pytest.fixture
def query(tmp_path: Path) -> dict[str, str]:
    return {"a/b ü": str(FakeCheckpoint(tmp_path / "job/result/0").commit(2).root)}


def test_what_is_written_is_restored_elsewhere(
    storage: Hdfs, there: InHdfs, query: dict[str, str], tmp_path: Path
) -> None:
    settings = hadoop_settings(Configuration(hdfs_settings(storage)), {})
    place = place_at(there.uri(), settings)
    manifest = write_savepoint(place, query, HEADER)
    assert manifest.is_sealed
    assert manifest == verify(place) == seal(place) == verify(place_at(there.uri(f"/{ROOT}/"), settings))
    assert set(there.names()) == there.savepoints(ROOT)
    with pytest.raises(TargetTaken):
        write_savepoint(place, query, HEADER)
    copy_point(query["a/b ü"], str(tmp_path / "copy"), link=False)
    shutil.rmtree(tmp_path / "job")
    restore(place, "a/b ü", str(tmp_path / "deep/restored"))
    assert tree(tmp_path / "deep/restored") == tree(tmp_path / "copy")
    take(place, MINE, owns=True)
    with pytest.raises(SavepointClaimed, match=f"was claimed by job {MINE}"):
        take(place, OTHERS, owns=True)
    settle(ClaimedSavepoint(job_id=MINE, location=there.uri(), is_given_back=True), settings)
    take(place, OTHERS, owns=True)
    settle(ClaimedSavepoint(job_id=OTHERS, location=there.uri(), is_given_back=False), settings)
    with pytest.raises(NoSavepoint):
        read_manifest(place)
    assert there.names() == []


def peak_bytes() -> int:
    """Most that this process has had in memory since the last time it was asked; see proc(5)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    peak_kib = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    Path("/proc/self/clear_refs").write_text("5")
    return peak_kib * 1024


def test_large_files_are_streamed(there: InHdfs, tmp_path: Path) -> None:
    """Uploads, comparing and downloads need no memory for whole files."""
    checkpoint = FakeCheckpoint(tmp_path / "job/result/0", data_bytes=LARGE_BYTES).commit(3)
    peak_bytes()
    before = peak_bytes()
    manifest = write_savepoint(there.at(), {"result": str(checkpoint.root)}, HEADER)
    assert manifest.size_bytes > 2 * LARGE_BYTES
    verify(there.at())
    restore(there.at(), "result", str(tmp_path / "restored"))
    assert peak_bytes() - before < LARGE_BYTES
    copy_point(str(checkpoint.root), str(tmp_path / "copy"))
    names = [path.relative_to(tmp_path / "copy") for path in (tmp_path / "copy").rglob("*.sst")]
    assert len(names) == 2
    for name in names:
        assert digest_of(tmp_path / "restored" / name) == digest_of(tmp_path / "copy" / name)


@pytest.mark.parametrize("done", [False, True])
def test_a_death_at_a_request_leaves_a_whole_one_or_none(there: InHdfs, query: dict[str, str], done: bool) -> None:
    there.arm()
    write_savepoint(there.at(), query, HEADER)
    count = there.faults.requests
    dispose(there.at())
    seen = set()
    numbers = sorted({*range(6), count // 2, *range(count - 4, count)})
    for number in numbers:
        there.arm(cut_at=number, done=done)
        with pytest.raises(PowerCut):
            write_savepoint(there.at(), query, HEADER)
        there.arm()
        left = []
        with contextlib.suppress(NoSavepoint):
            verify(there.at())
            left = [ROOT]
        seen.add(len(left))
        write_savepoint(there.at(OTHER, later=True), query, HEADER)
        assert set(there.names()) == there.savepoints(OTHER, *left), (
            f"what was begun is cleared, after request {number}"
        )
        for name in (OTHER, *left):
            dispose(there.at(name))
    assert seen == {0, 1}


def test_who_comes_too_late_for_what_was_cleared_makes_nothing_anew(there: InHdfs, query: dict[str, str]) -> None:
    """A file below the id of a directory that is gone is refused, also by a DataNode."""
    there.before(lambda: write_savepoint(there.at(OTHER, later=True), query, HEADER), nth_upload(3))
    with pytest.raises(SavepointGivenUp, match="what there was of it was deleted"):
        write_savepoint(there.at(), query, HEADER)
    assert set(there.names()) == there.savepoints(OTHER)
    with pytest.raises(FileNotFoundError):
        there.client.write(f"{BY_ID}/1234567/x", b"")


def test_of_two_that_write_one_savepoint_one_does(there: InHdfs, query: dict[str, str]) -> None:
    there.before(lambda: write_savepoint(there.at(), query, HEADER), there.gives_name)
    with pytest.raises(TargetTaken):
        write_savepoint(there.at(), query, HEADER)
    verify(there.at())
    assert set(there.names()) == there.savepoints(ROOT)


# ── what it says no to ───────────────────────────────────────────────────────────────────────
def told(storage: Hdfs, there: InHdfs, query: dict[str, str]) -> str:
    """Within seconds, of one who is not told to wait."""
    place = place_at(there.uri(), hadoop_settings(Configuration(hdfs_settings(storage)), {}))
    begun = time.monotonic()
    with pytest.raises((StorageFailed, StorageRefused)) as raised:
        write_savepoint(place, query, HEADER)
    assert time.monotonic() - begun < 30
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_who_may_not_write_is_told_by_whom_and_how(
    storage: Hdfs, there: InHdfs, query: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "guest")
    text = told(storage, there, query)
    assert text.startswith(f"savepoint {there.uri()} can't be reached: hdfs://{storage.authority}/")
    assert "says AccessControlException: Permission denied: user=guest, access=WRITE" in text
    assert text.endswith(": grant it, or set HADOOP_USER_NAME to who may")


def test_safe_mode_is_told_and_is_over_some_day(storage: Hdfs, there: InHdfs, query: dict[str, str]) -> None:
    storage.set_safe_mode("enter")
    try:
        assert "says SafeModeException: Cannot create directory" in told(storage, there, query)
    finally:
        storage.set_safe_mode("leave")
    write_savepoint(there.at(), query, HEADER)
    verify(there.at())


def test_a_namenode_that_is_away_in_the_midst_is_waited_for(own: Hdfs, query: dict[str, str]) -> None:
    there, gone = InHdfs(own.client(), "/own"), threading.Event()

    def away() -> None:
        own.kill_namenode()
        gone.set()

    there.wait = time.sleep
    there.before(away, nth_upload(4))
    with ThreadPoolExecutor(1) as thread:
        writing = thread.submit(write_savepoint, there.at(), query, HEADER)
        assert gone.wait(LIMIT_S)
        time.sleep(2.0)
        assert not writing.done()
        own.start_namenode()
        writing.result(LIMIT_S)
    verify(there.at())
    assert set(there.names()) == there.savepoints(ROOT)
    own.kill_namenode()
    text = told(own, there, query)
    assert "does not answer ([Errno 111] Connection refused); is fs.hdfs.webhdfs-address right?" in text
