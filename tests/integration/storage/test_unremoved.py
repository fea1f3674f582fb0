"""Staged rows that can't be removed when their job ends: noted, told of by nobody as a job's that writes, and tried again."""

import errno
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firesteel.adapters.storage import sinks, unremoved
from firesteel.adapters.storage.sinkstore import STAGING_NAME
from firesteel.runtime.ports import TaskFailedError
from tests.integration.storage.test_rivals import ANN, BOB, rows, staged

CID = "c" * 32


@pytest.fixture
def read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Whether directories can't be deleted."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    rmtree, refuses = shutil.rmtree, [False]

    def deletes(path: Any, ignore_errors: bool = False) -> None:
        if not refuses[0]:
            rmtree(path, ignore_errors=ignore_errors)
        elif not ignore_errors:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    def become(refused: bool) -> None:
        refuses[0] = refused

    monkeypatch.setattr(shutil, "rmtree", deletes)
    return become


def left_over(root: Path, read_only: Callable[[bool], None]) -> str:
    """What Ann's job has staged, which is over."""
    location = staged(root, ANN).staging
    read_only(True)
    with pytest.raises(TaskFailedError, match="Read-only file system"):
        sinks.remove_location(location)
    return location


def test_what_can_not_be_removed_is_noted_until_it_is(tmp_path: Path, read_only: Callable[[bool], None]) -> None:
    location = left_over(tmp_path, read_only)
    (noted,) = unremoved.unremoved(str(tmp_path / STAGING_NAME))
    assert noted.location == location
    assert "Read-only file system" in noted.reason
    sinks.remove_unremoved(str(tmp_path / "elsewhere" / STAGING_NAME))
    sinks.remove_unremoved(str(tmp_path / STAGING_NAME))
    assert unremoved.unremoved() == [noted], "still read-only"
    read_only(False)
    sinks.remove_unremoved(str(tmp_path / STAGING_NAME))
    assert not (tmp_path / STAGING_NAME).exists()
    assert unremoved.unremoved() == []


def test_a_job_that_is_over_is_not_told_of_as_one_that_writes(
    tmp_path: Path, read_only: Callable[[bool], None]
) -> None:
    left_over(tmp_path, read_only)
    second, third = staged(tmp_path, BOB), staged(tmp_path, CID)
    read_only(False)
    assert sinks.commit_sink(second).note == f"job {CID} is writing {tmp_path / 'out'} too, and comes later"
    sinks.commit_sink(third)
    assert rows(tmp_path) == [CID]


def test_what_a_commit_can_not_remove_is_noted_and_the_commit_holds(
    tmp_path: Path, read_only: Callable[[bool], None]
) -> None:
    """What it has replaced, here: files of somebody else."""
    first, second = staged(tmp_path, ANN), staged(tmp_path, BOB)
    sinks.commit_sink(first)
    read_only(True)
    sinks.commit_sink(second)
    assert rows(tmp_path) == [BOB]
    assert [each.location for each in unremoved.unremoved()] == [second.staging], "Ann's files are there now"
    read_only(False)
    sinks.remove_unremoved(str(tmp_path / STAGING_NAME))
    assert not (tmp_path / STAGING_NAME).exists()


def test_no_more_is_noted_than_there_is_room_for(
    tmp_path: Path, read_only: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unremoved, "NOTED_MAX", 1)
    for place in ("0", "1"):
        unremoved.note_unremoved(f"/a/{STAGING_NAME}/job/0-0/{place}", "it is away")
    unremoved.note_unremoved(f"/a/{STAGING_NAME}/job/0-0/0", "it is read-only")
    unremoved.note_unremoved("/results/job/0-0", "nobody stages there")
    assert [(each.location[-1], each.reason) for each in unremoved.unremoved()] == [("0", "it is read-only")]


def test_what_another_host_has_noted_is_left_to_it(
    tmp_path: Path, read_only: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    left_over(tmp_path, read_only)
    monkeypatch.setattr(socket, "gethostname", lambda: "another")
    assert unremoved.unremoved() == []


def test_what_is_staged_anew_is_needed(tmp_path: Path, read_only: Callable[[bool], None]) -> None:
    """By a job that has been given the id of one that is over: nobody may remove it for that one."""
    location = left_over(tmp_path, read_only)
    unremoved.note_unremoved(location.removesuffix("/0"), "it is read-only")
    unremoved.needed_again(location.removesuffix("/0") + "/1")
    assert [each.location for each in unremoved.unremoved()] == [location]
    unremoved.needed_again(location)
    assert unremoved.unremoved() == []


def test_what_lay_below_a_directory_that_is_a_file_now_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    location = staged(tmp_path / "out", ANN).staging
    shutil.rmtree(tmp_path / "out")
    (tmp_path / "out").write_text("a file")
    sinks.remove_location(location)
    assert unremoved.unremoved() == []
