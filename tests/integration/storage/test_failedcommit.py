"""Sink commits on the local file system that fail: nothing of them stays visible, and they can be tried again."""

import contextlib
import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firesteel.adapters.storage import local, sinks, swap
from firesteel.runtime.ports import TaskFailedError
from tests.integration.storage.test_commit import MODES, assert_committed, data, old_output, staged


@pytest.fixture
def fail_at(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, int]]:
    """`fail_at(n)`: the n-th change to the file system from now on fails, and `lasting` all after it; returns what is left."""
    state = {"left": -1, "lasting": 0}

    def wrap(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **more: Any) -> Any:
            state["left"] -= 1
            if state["left"] == -1 or (state["lasting"] and state["left"] < 0):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments, **more)

        return step

    for name in ("rename", "fsync", "mkdir"):
        monkeypatch.setattr(os, name, wrap(getattr(os, name)))
    monkeypatch.setattr(Path, "write_bytes", wrap(Path.write_bytes))
    monkeypatch.setattr(swap, "exchange", wrap(swap.exchange))

    def fail(steps: int, *, lasting: bool = False) -> dict[str, int]:
        state.update(left=steps, lasting=int(lasting))
        return state

    return fail


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "two-steps"])
@pytest.mark.parametrize("mode", MODES)
def test_a_commit_that_fails_anywhere_shows_nothing(
    tmp_path: Path, mode: str, exchange: bool, fail_at: Callable[..., dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchange:
        monkeypatch.setattr(swap, "exchange", lambda first, second: False)
    names = ("p=0/part-0-x.parquet", "p=1/part-1-x.parquet", "p=2/part-2-x.parquet")
    steps, failures, is_reached = 0, 0, True
    while is_reached:
        root = tmp_path / str(steps)
        root.mkdir()
        if mode not in ("error", "ignore"):
            old_output(root)
            (root / "out" / "p=1").mkdir()
            (root / "out" / "p=1" / "part-1-x.parquet").write_text("old")
        before = sorted(str(path) for path in (root / "out").rglob("*"))
        commit = staged(root, mode, names=names)
        state = fail_at(steps)
        try:
            sinks.commit_sink(commit)
        except TaskFailedError as error:
            failures, message = failures + 1, error.failure.message
            assert "no space is left" in message
            if not (root / "out" / "_firesteel" / "commits" / f"{commit.commit_id}.json").exists():
                assert sorted(str(path) for path in (root / "out").rglob("*")) == before
                assert set(data(root)) <= {"old"}
        is_reached = state["left"] < 0
        fail_at(-1)
        sinks.commit_sink(commit)
        expected = {"append": ["old", "old"]}.get(mode, [])
        assert data(root) == ["new 1"] * 3 + expected
        assert_committed(root, commit)
        steps += 1
    assert failures > 4


@pytest.mark.parametrize("mode", MODES)
def test_a_commit_that_fails_leaves_no_directory_that_it_has_made(
    tmp_path: Path, mode: str, fail_at: Callable[..., dict[str, int]]
) -> None:
    steps, failures, is_reached = 0, 0, True
    while is_reached:
        root = tmp_path / str(steps)
        root.mkdir()
        commit = staged(root, mode, names=("p=0/q=0/part-0-x.parquet", "p=1/q=0/part-1-x.parquet"))
        state = fail_at(steps)
        with contextlib.suppress(TaskFailedError):
            sinks.commit_sink(commit)
        is_reached = state["left"] < 0
        fail_at(-1)
        if not (root / "out" / "_firesteel" / "commits" / f"{commit.commit_id}.json").exists():
            failures += 1
            assert not (root / "out").exists()
        sinks.commit_sink(commit)
        assert_committed(root, commit)
        steps += 1
    assert failures > 4


@pytest.mark.parametrize("mode", ["append", "overwrite-partitions"])
def test_what_cannot_be_taken_back_is_told(tmp_path: Path, mode: str, fail_at: Callable[..., dict[str, int]]) -> None:
    """The disk fails for good after the first rename."""
    names = ("p=0/part-0-x.parquet", "p=1/part-1-x.parquet")
    told = []
    for steps in range(60):
        root = tmp_path / str(steps)
        root.mkdir()
        old_output(root)
        commit = staged(root, mode, names=names)
        fail_at(steps, lasting=True)
        try:
            sinks.commit_sink(commit)
        except TaskFailedError as error:
            message = error.failure.message
            if data(root) != ["old"] and not (root / "out/_firesteel/commits" / f"{commit.commit_id}.json").exists():
                told.append(message)
        fail_at(-1)
        sinks.commit_sink(commit)  # who takes it over goes on
        assert_committed(root, commit)
    assert told
    says = "Don't retry the job before" if mode == "append" else "a retry of the job replaces"
    for message in told:
        assert says in message
        assert "0000000000000001" in message


@pytest.mark.parametrize("mode", ["append", "overwrite-partitions"])
def test_all_is_looked_through_before_anything_moves(tmp_path: Path, mode: str) -> None:
    names = ("p=0/part-0-x.parquet", "p=1/part-1-x.parquet")
    old_output(tmp_path)
    for damage in ("gone", "cut"):
        commit = msgspec.structs.replace(staged(tmp_path, mode, names=names), size_bytes=len("new 1") * 2)
        with pytest.MonkeyPatch.context() as patch:
            last = Path(commit.staging) / names[1]
            last.unlink()
            if damage == "cut":
                last.touch()
            patch.setattr(local.LocalTree, "rename", lambda *_: pytest.fail("moved"))
            with pytest.raises(
                TaskFailedError, match="part-1-x.parquet is gone" if damage == "gone" else "have 5 bytes"
            ):
                sinks.commit_sink(commit)
        assert data(tmp_path) == ["old"]


@contextlib.contextmanager
def unwritable(directory: Path) -> Iterator[None]:
    """Root may write what its mode forbids, but for what is immutable."""
    if os.geteuid():
        directory.chmod(0o500)
    elif subprocess.run(["chattr", "+i", str(directory)], capture_output=True, check=False).returncode:
        pytest.skip("root may write everywhere here")
    try:
        yield
    finally:
        if os.geteuid():
            directory.chmod(0o700)
        else:
            subprocess.run(["chattr", "-i", str(directory)], check=True)


@pytest.mark.parametrize("mode", ["append", "overwrite-partitions"])
def test_a_partition_that_may_not_be_written_is_named_before_anything_moves(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_output(tmp_path)
    commit = staged(tmp_path, mode, names=("p=0/part-0-x.parquet", "p=1/part-1-x.parquet"))
    moved: list[str] = []
    with monkeypatch.context() as patch, unwritable(tmp_path / "out" / "p=0"):
        patch.setattr(local.LocalTree, "rename", lambda *_: moved.append("a file"))
        patch.setattr(swap, "put_in_place", lambda *_: moved.append("a partition"))
        with pytest.raises(TaskFailedError, match=r"may not write .*/out/p=0 "):
            sinks.commit_sink(commit)
    assert not moved
    sinks.commit_sink(commit)
    assert_committed(tmp_path, commit)
