"""Sink commits on the local file system: all modes, interrupted at every step, repeated."""

import ctypes
import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firesteel.adapters.storage import local, sinks
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
        commit_id=f"{number:032x}",
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


@pytest.mark.parametrize("mode", ["overwrite", "append", "error"])
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
    assert "exists and holds data" in caught.value.failure.message
    assert data(tmp_path) == ["old"]


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
    monkeypatch.setattr(local, "_exchange", wrap(local._exchange))
    yield lambda steps: state.update(left=steps)
    state["left"] = -1


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "two-steps"])
@pytest.mark.parametrize("mode", ["overwrite", "append", "error"])
def test_a_commit_cut_anywhere_is_finished_by_the_next(
    tmp_path: Path, mode: str, exchange: bool, cut_power: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchange:
        monkeypatch.setattr(local, "_exchange", lambda first, second: False)
    expected = {"overwrite": ["new 1"] * 2, "append": ["new 1", "new 1", "old"], "error": ["new 1"] * 2}[mode]
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
    [(errno.ENOSPC, "no space is left"), (errno.EACCES, "may not write"), (errno.EIO, "could not be written")],
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


def test_other_storage_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(TaskFailedError, match=r"s3a:// is not supported yet"):
        sinks.remove_location("s3a://bucket/x")


def test_exchange_works_here(tmp_path: Path) -> None:
    assert hasattr(ctypes.CDLL(None), "renameat2")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    assert local._exchange(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a" / "b").exists()


def test_removing_keeps_what_others_staged(tmp_path: Path) -> None:
    mine, other = staged(tmp_path, "append", 1), staged(tmp_path, "append", 2)
    sinks.remove_location(mine.staging)
    assert not Path(mine.staging).exists()
    assert Path(other.staging).exists()
    for _ in range(2):
        sinks.remove_location(other.staging)
    assert not (tmp_path / ".firesteel-staging").exists()


@pytest.mark.parametrize("mode", ["overwrite", "append", "error"])
def test_what_several_subtasks_staged_becomes_visible_in_one_commit(tmp_path: Path, mode: str) -> None:
    parts = [staged(tmp_path, mode, number, ("p=1/part-0-x.parquet", f"part-{number}.parquet")) for number in (1, 2, 3)]
    others = tuple(StagedPart(staging=part.staging, files=part.files) for part in parts[1:])
    commit = msgspec.structs.replace(parts[0], parts=others)
    half = Path(parts[1].staging) / "part-2.parquet"
    half.rename(Path(commit.staging) / "part-2.parquet")  # an earlier try came so far
    for _ in range(2):
        sinks.commit_sink(commit)
        assert data(tmp_path) == ["new 1", "new 1", "new 2", "new 2", "new 3", "new 3"]
        assert_committed(tmp_path, commit)
