"""Commits in HDFS: killed at every request, answers lost, requests that come late; all modes. With an HDFS in memory: a real
one has fewer of these in `make test-stack`."""

import contextlib
import time
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from firesteel.adapters.storage import rivals
from firesteel.adapters.storage.errors import CommitRefused, TargetRefused, Unusable
from firesteel.adapters.storage.hdfslocks import HdfsLocks
from firesteel.adapters.storage.hdfssinks import HdfsSinks
from firesteel.adapters.storage.hdfstree import HdfsTree
from firesteel.adapters.storage.lease import LeaseLost
from firesteel.adapters.storage.objects import Conflict
from firesteel.adapters.storage.patience import tried
from firesteel.adapters.storage.webhdfs import WebHdfs
from firesteel.model.tasks import SinkCommit, StagedPart
from tests.integration.storage.fakehdfs import Died, FakeHdfs
from tests.integration.storage.stagedoutput import staged

MODES = ("overwrite", "append", "error", "ignore", "overwrite-partitions")
TARGET = "hdfs://nn:8020/warehouse/out"


@pytest.fixture
def hdfs() -> FakeHdfs:
    return FakeHdfs()


def sinks(hdfs: FakeHdfs) -> HdfsSinks:
    """Of a worker that is patient in no time; by its clock leases run out at once."""
    passed = [0.0]

    def wait(seconds: float) -> None:
        passed[0] += seconds

    return HdfsSinks(cast(WebHdfs, hdfs), clock=lambda: time.monotonic() + passed[0], wait=wait)


def prepared(hdfs: FakeHdfs, mode: str) -> tuple[SinkCommit, list[str]]:
    """A commit of two subtasks, and what is to be there in the end."""
    expected = ["new 1", "new 1", "new 2"]
    if mode not in ("error", "ignore"):
        sinks(hdfs).commit(staged(sinks(hdfs), TARGET, "overwrite", 3, ("p=0/part-0.parquet", "p=2/part-2.parquet")))
        expected += {"append": ["new 3", "new 3"], "overwrite-partitions": ["new 3"]}.get(mode, [])
    first = staged(sinks(hdfs), TARGET, mode, 1, ("p=0/part-0.parquet", "p=1/part-1.parquet"))
    second = staged(sinks(hdfs), TARGET, mode, 2, ("p=1/part-1.parquet",))
    part = StagedPart(staging=second.staging, files=second.files)
    return msgspec.structs.replace(first, parts=(part,)), sorted(expected)


def texts(hdfs: FakeHdfs) -> list[str]:
    store = sinks(hdfs)
    with contextlib.suppress(FileNotFoundError):
        return sorted(store.read(TARGET, name).decode() for name in store.files(TARGET))
    return []


def left(hdfs: FakeHdfs) -> list[str]:
    return [path for path in hdfs.entries if ".firesteel-staging" in path]


@pytest.mark.parametrize("mode", MODES)
def test_a_commit_killed_anywhere_is_carried_on(mode: str) -> None:
    requests, was_killed = 0, True
    while was_killed:
        hdfs = FakeHdfs()
        commit, expected = prepared(hdfs, mode)
        hdfs.dies_at, was_killed = requests, False
        try:
            sinks(hdfs).commit(commit)
        except Died:
            was_killed = True
        hdfs.dies_at = -1
        for _ in range(2):
            sinks(hdfs).commit(commit)
            assert texts(hdfs) == expected
            assert left(hdfs) == []
        requests += 1
    assert requests > 20


@pytest.mark.parametrize("mode", MODES)
def test_answers_that_are_lost_cost_no_rows(mode: str) -> None:
    """Of three requests one is done, and nobody hears of it."""
    for seed in range(15):
        hdfs = FakeHdfs(seed)
        commit, expected = prepared(hdfs, mode)
        hdfs.loses = 0.35
        HdfsSinks(cast(WebHdfs, hdfs), wait=lambda _: None).commit(commit)
        hdfs.loses = 0.0
        assert texts(hdfs) == expected
        assert left(hdfs) == []


@pytest.mark.parametrize("mode", MODES)
def test_a_commit_that_is_refused_anywhere_shows_nothing(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One rename or write is not allowed; what was done before it is taken back."""
    number, was_refused = 0, True
    while was_refused:
        hdfs = FakeHdfs()
        commit, expected = prepared(hdfs, mode)
        before, calls = texts(hdfs), iter(range(1000))
        was_refused = False

        def some(real: Any, at: int = number, calls: Any = calls) -> Any:
            def call(*arguments: Any, **more: Any) -> Any:
                nonlocal was_refused
                if "staging/target-" not in arguments[0] and next(calls) == at:
                    was_refused = True
                    raise Unusable("Permission denied")
                return real(*arguments, **more)

            return call

        with monkeypatch.context() as patch:
            patch.setattr(hdfs, "rename", some(hdfs.rename))
            patch.setattr(hdfs, "write", some(hdfs.write))
            try:
                sinks(hdfs).commit(commit)
            except Unusable:
                assert texts(hdfs) == before
        sinks(hdfs).commit(commit)
        assert texts(hdfs) == expected
        assert left(hdfs) == []
        number += 1
    assert number > 4


def test_what_a_reader_sees_between_the_two_steps_of_overwrite(hdfs: FakeHdfs) -> None:
    """Old rows, nothing, new rows; never both."""
    seen = []
    for requests in range(200):
        hdfs = FakeHdfs()
        commit, _ = prepared(hdfs, "overwrite")
        hdfs.dies_at = requests
        try:
            sinks(hdfs).commit(commit)
            break
        except Died:
            hdfs.dies_at = -1
            seen.append(tuple(texts(hdfs)))
    assert list(dict.fromkeys(seen)) == [("new 3", "new 3"), (), ("new 1", "new 1", "new 2")]
    assert seen.count(()) == 1


def test_jobs_that_write_one_target_are_told_of_one_another(hdfs: FakeHdfs) -> None:
    first, second = (
        staged(sinks(hdfs), TARGET, "overwrite", 1, ("part-1",)),
        staged(sinks(hdfs), TARGET, "overwrite", 2, ("part-2",)),
    )
    assert sinks(hdfs).commit(first).note == f"job {2:032x} is writing {TARGET} too, and comes later"
    assert sinks(hdfs).commit(second).note.startswith(f"job {1:032x} has committed to {TARGET} while this job ran")
    sinks(hdfs).commit(first)  # said once more: it was done, and replaced
    assert texts(hdfs) == ["new 2"]
    assert left(hdfs) == []


def test_a_late_move_moves_nothing_else(hdfs: FakeHdfs) -> None:
    """The request of a worker that was taken for dead arrives when the target is a later directory."""
    old, new = (
        staged(sinks(hdfs), TARGET, "overwrite", 1, ("part-1",)),
        staged(sinks(hdfs), TARGET, "overwrite", 2, ("part-2",)),
    )
    sinks(hdfs).commit(old)
    was = hdfs.status("/warehouse/out")
    assert was is not None
    sinks(hdfs).commit(new)
    hdfs.make_directory("/warehouse/late")
    with pytest.raises(FileNotFoundError):
        HdfsTree(cast(WebHdfs, hdfs))._move_once(was.file_id, "/warehouse/late/aside")
    assert texts(hdfs) == ["new 2"]


def test_a_lock_has_one_holder(hdfs: FakeHdfs) -> None:
    locks, name = HdfsLocks(cast(WebHdfs, hdfs)), "/warehouse/.firesteel-staging/target.lock"
    tag = locks.put(name, b"job.ann.0", None)
    with pytest.raises(Conflict):
        locks.put(name, b"job.bob.0", None)
    assert [path for path in left(hdfs) if ".lock." in path] == [], "of who waits nothing piles up"
    renewed = locks.put(name, b"job.ann.1", tag)
    assert locks.get(name).data == b"job.ann.1"
    with pytest.raises(Conflict):
        locks.put(name, b"job.bob.1", tag)
    locks.delete([name])
    assert left(hdfs) == [], "nor what the one that lost had begun"
    with pytest.raises(Conflict):
        locks.put(name, b"job.ann.2", renewed)


def test_what_was_there_first_stays(hdfs: FakeHdfs) -> None:
    sinks(hdfs).commit(staged(sinks(hdfs), TARGET, "overwrite", 1, ("part-1",)))
    with pytest.raises(CommitRefused, match=f"{TARGET} exists and holds data"):
        sinks(hdfs).commit(staged(sinks(hdfs), TARGET, "error", 2, ("part-2",)))
    assert sinks(hdfs).commit(staged(sinks(hdfs), TARGET, "ignore", 3, ("part-3",))).ignored
    assert texts(hdfs) == ["new 1"]
    hdfs.write("/warehouse/file", b"")
    with pytest.raises(TargetRefused, match="is a file, and rows are written into a directory"):
        sinks(hdfs).prepare("hdfs://nn:8020/warehouse/file", "hdfs://nn:8020/warehouse/.firesteel-staging/j/0-0/0")


def test_a_gateway_that_drops_what_it_does_not_know_is_refused(hdfs: FakeHdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs, "rename", lambda *_, **__: None)
    with pytest.raises(Unusable, match="does not heed renameoptions"):
        staged(sinks(hdfs), TARGET, "append", 1, ())


def test_targets_are_one_place_however_they_are_spelled(hdfs: FakeHdfs) -> None:
    store = sinks(hdfs)
    spelled = [store.resolve(path, Path("/"), replaces=True) for path in ("hdfs://NN/a//b/", "hdfs://nn:8020/a/b")]
    assert {store.place(path) for path in spelled} == {"hdfs://nn:8020/a/b"}
    assert rivals.lock_name(store.place(spelled[0])) == rivals.lock_name(store.place(spelled[1]))


def test_a_footer_is_read_from_the_end(hdfs: FakeHdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firesteel.adapters.storage.hdfsdirectories.END_BYTES", 3)
    store: Any = sinks(hdfs)
    store.write("hdfs://nn:8020/d", "x/part-0", b"abcdef")
    assert store.end_of("hdfs://nn:8020/d", "x/part-0").read() == b"def"
    assert store.create("hdfs://nn:8020/d", "one", b"1") == b"1"
    assert store.create("hdfs://nn:8020/d", "one", b"2") == b"1"
    assert store.files("hdfs://nn:8020/d") == {"one": 1, "x/part-0": 6}


def test_what_spark_has_written_to_another_hdfs_is_missed(hdfs: FakeHdfs) -> None:
    """Its directory is not there: else nothing, or not all, would be read and committed."""
    with pytest.raises(FileNotFoundError, match=r"^hdfs://nn:8020/d: what Spark .* name another HDFS\?$"):
        sinks(hdfs).files("hdfs://nn:8020/d")
    hdfs.make_directory("/d")
    assert sinks(hdfs).files("hdfs://nn:8020/d") == {}


def test_what_hangs_is_asked_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, asked = iter([10.0, 25.0, 40.0, 55.0, 70.0, 85.0]), []
    monkeypatch.setattr("firesteel.adapters.storage.patience.time.monotonic", lambda: next(now_s))

    def hung() -> None:
        asked.append(1)
        raise OSError("timed out")

    with pytest.raises(OSError, match="timed out"):
        tried(hung, lambda: None, lambda _: None, tries_max=15)
    assert len(asked) == 5


def test_a_commit_that_is_cut_off_says_of_what(hdfs: FakeHdfs) -> None:
    """Not that another worker may go on by then."""

    def silent() -> None:
        raise OSError("hdfs://nn:8020 does not answer")

    checks = iter([None, LeaseLost("the lock is another's")])

    def check() -> None:
        if (lost := next(checks)) is not None:
            raise lost

    with pytest.raises(LeaseLost, match=r"^hdfs://nn:8020 does not answer$"):
        tried(silent, check, lambda _: None)
    checks = iter([LeaseLost("the lock is another's")])
    with pytest.raises(LeaseLost, match=r"^the lock is another's$"):
        tried(silent, check, lambda _: None)
