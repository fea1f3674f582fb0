"""Sink commits on the local file system: all modes, interrupted at every step, repeated."""

import contextlib
import ctypes
import errno
import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firesteel.adapters.storage import local, rivals, sinks, swap
from firesteel.model.failures import FailureKind
from firesteel.model.ids import JobVertexID
from firesteel.model.tasks import SinkCommit, StagedPart
from firesteel.runtime.ports import TaskFailedError


class PowerCut(BaseException):
    """The worker dies here."""


def staged(root: Path, mode: str, number: int = 1, names: tuple[str, ...] = ("p=1/part-0-x.parquet",)) -> SinkCommit:
    staging = root / ".firesteel-staging" / "job" / "0-0" / str(number)
    for name in names:
        path = staging / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"new {number}")
        path.with_name(f".{path.name}.crc").write_text("sum")
    return SinkCommit(
        commit_id=f"{number:016x}" * 2,
        vertex_id=JobVertexID("v"),
        function="result",
        format="parquet",
        mode=mode,
        target=str(root / "out"),
        staging=str(staging),
        files=tuple(sorted(names)),
    )


def data(root: Path) -> list[str]:
    """What a reader of the target sees: the contents of its data files."""
    files = [path for path in (root / "out").rglob("*.parquet") if path.is_file()]
    return sorted(path.read_text() for path in files)


def assert_committed(root: Path, commit: SinkCommit) -> None:
    manifest = root / "out" / "_firesteel" / "commits" / f"{commit.commit_id}.json"
    assert all((root / "out" / name).is_file() for name in json.loads(manifest.read_text())["files"])
    assert (root / "out" / "_SUCCESS").exists()
    assert not (root / ".firesteel-staging").exists()


MODES = ("overwrite", "append", "error", "ignore", "overwrite-partitions")


@pytest.mark.parametrize("mode", MODES)
def test_commit_is_idempotent(tmp_path: Path, mode: str) -> None:
    commit = staged(tmp_path, mode)
    for _ in range(3):
        sinks.commit_sink(commit)
        assert data(tmp_path) == ["new 1"]
        assert_committed(tmp_path, commit)


def old_output(root: Path) -> None:
    (root / "out" / "p=0").mkdir(parents=True)
    (root / "out" / "p=0" / "part-0-x.parquet").write_text("old")


def test_overwrite_replaces_and_append_adds(tmp_path: Path) -> None:
    old_output(tmp_path)
    sinks.commit_sink(staged(tmp_path, "append", 1, ("p=0/part-0-x.parquet",)))
    assert data(tmp_path) == ["new 1", "old"]
    sinks.commit_sink(staged(tmp_path, "overwrite", 2))
    assert data(tmp_path) == ["new 2"]


def test_error_refuses_data_that_is_not_its_own(tmp_path: Path) -> None:
    old_output(tmp_path)
    with pytest.raises(TaskFailedError) as caught:
        sinks.commit_sink(staged(tmp_path, "error"))
    assert caught.value.failure.kind is FailureKind.NON_RECOVERABLE
    assert caught.value.failure.stays
    assert "exists and holds data" in caught.value.failure.message
    assert data(tmp_path) == ["old"]


def test_ignore_leaves_data_alone_and_its_own_staging_nowhere(tmp_path: Path) -> None:
    old_output(tmp_path)
    for _ in range(2):
        assert sinks.commit_sink(staged(tmp_path, "ignore")).ignored
        assert data(tmp_path) == ["old"]
        assert not (tmp_path / ".firesteel-staging").exists()


def test_only_the_partitions_that_were_written_are_replaced(tmp_path: Path) -> None:
    names = (
        "k=a%2Fb/l=1/part-0-x.parquet",
        "k=__HIVE_DEFAULT_PARTITION__/l=1/part-0-x.parquet",
        "_k=2/part-0-x.parquet",
    )
    sinks.commit_sink(staged(tmp_path, "overwrite", 1, (*names, "k=a%2Fb/l=2/part-0-x.parquet")))
    second = staged(
        tmp_path, "overwrite-partitions", 2, (*names, "k=a%2Fb/l=1/part-1-x.parquet", "k=c/l=1/part-0-x.parquet")
    )
    for _ in range(2):
        sinks.commit_sink(second)
        assert data(tmp_path) == ["new 1", *["new 2"] * 5]
        assert_committed(tmp_path, second)
    sinks.commit_sink(staged(tmp_path, "append", 3, names))
    sinks.commit_sink(staged(tmp_path, "overwrite-partitions", 4, names))
    assert data(tmp_path) == ["new 1", "new 2", *["new 4"] * 3]
    empty = staged(tmp_path, "overwrite-partitions", 5, ())
    Path(empty.staging).mkdir(parents=True)
    sinks.commit_sink(empty)
    assert data(tmp_path) == ["new 1", "new 2", *["new 4"] * 3]


@pytest.mark.parametrize("mode", ["overwrite", "append", "overwrite-partitions"])
def test_a_reader_in_between_sees_what_the_mode_promises(tmp_path: Path, mode: str) -> None:
    """It lists and reads in a loop while one commit after another is carried out."""
    partitioned = mode == "overwrite-partitions"

    def names(commit: int) -> tuple[str, ...]:
        """Spark never gives a name twice."""
        where = "p={}/part-0-{}.parquet" if partitioned else "part-{}-{}.parquet"
        return tuple(where.format(number, commit) for number in range(20))

    sinks.commit_sink(staged(tmp_path, "overwrite", 1, names(1)))
    seen: list[list[str]] = []
    reading, done = threading.Event(), threading.Event()

    def read() -> None:
        while not done.is_set():
            with contextlib.suppress(FileNotFoundError):  # listed before, opened after the swap: as with Spark's own
                listed = (tmp_path / "out").stat().st_ino
                files = list((tmp_path / "out").glob("*/part-*" if partitioned else "part-*"))
                texts = [path.read_text() for path in files]
                if (tmp_path / "out").stat().st_ino == listed:  # else it was emptied while it was listed
                    seen.append(texts)
            reading.set()

    reader = threading.Thread(target=read)
    reader.start()
    reading.wait()
    for number in range(2, 12):
        sinks.commit_sink(staged(tmp_path, mode, number, names(number)))
    done.set()
    reader.join()
    assert seen
    for texts in seen:
        if mode == "overwrite":
            assert len(texts) == 20
            assert len(set(texts)) == 1, "rows of two commits at once"
        elif mode == "append":
            assert len(texts) >= 20
            assert texts.count("new 1") == 20, "rows that were there are gone"
        else:
            assert len(texts) == 20, "a partition is missing, or there twice"


def test_what_becomes_visible_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def note(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    names = tuple(f"p={number}/part-0-x.parquet" for number in range(10))
    for number, mode in enumerate(("overwrite", "append", "overwrite-partitions"), start=1):
        synced.clear()
        commit = staged(tmp_path, mode, number, names)
        sinks.commit_sink(commit)
        assert {f"{commit.staging}/{name}" for name in names} <= set(synced) or mode == "overwrite-partitions"
        assert sum("/p=" in name and name.endswith(".parquet") for name in synced) == 10
        assert sum(name.endswith(f"/p={partition}") for partition in range(10) for name in synced) >= 10
        assert str(tmp_path) in synced


def test_an_empty_result_overwrites_too(tmp_path: Path) -> None:
    old_output(tmp_path)
    commit = staged(tmp_path, "overwrite", names=())
    Path(commit.staging).mkdir(parents=True)
    sinks.commit_sink(commit)
    assert data(tmp_path) == []
    assert_committed(tmp_path, commit)


STEPS = ("rename", "replace", "fsync", "mkdir", "rmdir", "unlink")


@pytest.fixture
def cut_power(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """`cut_power(n)`: the n-th change to the file system from now on does not happen, nor does any after it."""
    state = {"left": -1}

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **more: Any) -> Any:
            if state["left"] == 0:
                raise PowerCut
            state["left"] -= 1
            return real(*arguments, **more)

        return step

    for name in STEPS:
        monkeypatch.setattr(os, name, wrap(getattr(os, name)))
    monkeypatch.setattr(swap, "exchange", wrap(swap.exchange))
    yield lambda steps: state.update(left=steps)
    state["left"] = -1


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "two-steps"])
@pytest.mark.parametrize("mode", ["overwrite", "append", "error", "overwrite-partitions"])
def test_a_commit_cut_anywhere_is_finished_by_the_next(
    tmp_path: Path, mode: str, exchange: bool, cut_power: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchange:
        monkeypatch.setattr(swap, "exchange", lambda first, second: False)
    expected = ["new 1", "new 1", "old"] if mode == "append" else ["new 1"] * 2
    names = ("p=0/part-0-x.parquet", "p=1/part-1-x.parquet")
    steps, cut = 0, True
    while cut:
        root = tmp_path / str(steps)
        root.mkdir()
        if mode != "error":
            old_output(root)
        commit = staged(root, mode, names=names)
        cut_power(steps)
        try:
            sinks.commit_sink(commit)
            cut = False
        except PowerCut:
            cut_power(-1)
            seen = data(root)
            if mode == "append":
                assert "old" in seen
            elif mode == "overwrite" and exchange:
                assert seen in (["old"], expected)
            elif mode == "overwrite-partitions" and exchange:
                assert seen in (["old"], ["new 1"], ["new 1", "old"], expected)
            sinks.commit_sink(commit)
        cut_power(-1)
        assert data(root) == expected
        assert_committed(root, commit)
        steps += 1
    assert steps > 4


def test_lost_staging_is_told_apart_from_a_done_commit(tmp_path: Path) -> None:
    commit = staged(tmp_path, "overwrite")
    sinks.remove_location(commit.staging)
    with pytest.raises(TaskFailedError, match="no longer complete"):
        sinks.commit_sink(commit)


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "no space is left"),
        (errno.EACCES, "may not write"),
        (errno.EROFS, "which is mounted read-only there: mount it for writing, or write elsewhere"),
        (errno.ENOENT, "could not be written"),
        (errno.EIO, "could not be written"),
    ],
)
def test_trouble_with_the_disk_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, says: str
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(TaskFailedError) as caught:
        sinks.commit_sink(staged(tmp_path, "overwrite"))
    assert caught.value.failure.kind is FailureKind.ENVIRONMENT
    assert says in caught.value.failure.message
    assert caught.value.failure.may_pass is (number == errno.ENOSPC)


def test_who_holds_the_target_is_told_to_who_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a lock that a killed worker has left is none."""
    monkeypatch.setattr(local, "LOCK_WAIT_S", 0.1)
    commit, target = staged(tmp_path, "append"), tmp_path / "out"
    with local._alone(rivals.lock_name(str(target)), target, "a" * 32):
        with pytest.raises(TaskFailedError) as caught:
            sinks.commit_sink(commit)
        said, left = caught.value.failure.message, target.parent / ".firesteel-staging" / "x.lock"
        assert said.startswith(f"job {'a' * 32} on ")
        assert said.endswith(f" (process {os.getpid()}) is writing {target}")
        assert caught.value.failure.may_pass
    left.parent.mkdir(exist_ok=True)
    left.write_text("a worker that was killed wrote much more here than the one that comes after it does" * 3)
    with local._alone("x", target, "b"):
        assert left.read_text().startswith("job b on ")
        assert "killed" not in left.read_text()
    sinks.commit_sink(commit)
    assert_committed(tmp_path, commit)


def test_other_storage_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(TaskFailedError, match=r"gs://host/x: firesteel does not write to gs:// yet"):
        sinks.remove_location("gs://host/x")


def test_exchange_works_here(tmp_path: Path) -> None:
    assert hasattr(ctypes.CDLL(None), "renameat2")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    assert swap.exchange(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a" / "b").exists()


def test_removing_keeps_what_others_staged(tmp_path: Path) -> None:
    mine, other = staged(tmp_path, "append", 1), staged(tmp_path, "append", 2)
    sinks.remove_location(mine.staging)
    assert not Path(mine.staging).exists()
    assert Path(other.staging).exists()
    for _ in range(2):
        sinks.remove_location(other.staging)
    assert not (tmp_path / ".firesteel-staging").exists()


@pytest.mark.parametrize("mode", MODES)
def test_what_several_subtasks_staged_becomes_visible_in_one_commit(tmp_path: Path, mode: str) -> None:
    parts = [
        staged(tmp_path, mode, number, ("p=1/part-0-x.parquet", f"p=0/part-{number}.parquet")) for number in (1, 2, 3)
    ]
    others = tuple(StagedPart(staging=part.staging, files=part.files) for part in parts[1:])
    commit = msgspec.structs.replace(parts[0], parts=others)
    half = Path(parts[1].staging) / "p=0/part-2.parquet"
    half.rename(Path(commit.staging) / "p=0/part-2.parquet")  # an earlier try came so far
    for _ in range(2):
        sinks.commit_sink(commit)
        assert data(tmp_path) == ["new 1", "new 1", "new 2", "new 2", "new 3", "new 3"]
        assert_committed(tmp_path, commit)


def test_a_commit_performed_by_two_workers_at_once_is_done_once(tmp_path: Path) -> None:
    """One that was taken for dead goes on: two swaps would put the old files back."""
    for number in range(1, 30):
        commit = staged(tmp_path, "overwrite", number, tuple(f"part-{file}-{number}.parquet" for file in range(3)))
        with ThreadPoolExecutor(4) as workers:
            list(workers.map(sinks.commit_sink, [commit] * 4))
        assert data(tmp_path) == [f"new {number}"] * 3
        assert_committed(tmp_path, commit)


def test_those_who_wait_for_their_turn_all_get_it(tmp_path: Path) -> None:
    """The last to leave removes the lock's file while others wait for it: they must not wait for ever."""
    commit, target, inside = staged(tmp_path, "append"), tmp_path / "out", []

    def take_turns(_: int) -> None:
        for _ in range(300):
            with local._alone(commit.commit_id, target, "job"):
                inside.append(1)
                assert inside == [1]
                inside.clear()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(take_turns, range(8)))
