"""Temporary directories of processes: one goes with its process, or with the next of its kind."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from firesteel.adapters.storage import temporary
from firesteel.adapters.storage.temporary import LOCK, temporary_directory

OWNER = """
from firesteel.adapters.storage.temporary import temporary_directory
with temporary_directory("firesteel-trial-") as made:
    print(made, flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_it_is_removed_at_the_end(parent: Path) -> None:
    with temporary_directory("firesteel-trial-") as made:
        (made / "blobs").mkdir()
    assert list(parent.iterdir()) == []


def test_what_a_killed_process_has_left_goes_with_the_next_one_and_not_before(parent: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        left = Path(owner.stdout.readline().strip())
        with temporary_directory("firesteel-trial-") as made:
            assert sorted(parent.iterdir()) == sorted((left, made)), "its owner lives"
        owner.kill()
    with temporary_directory("firesteel-other-") as made:
        assert sorted(parent.iterdir()) == sorted((left, made)), "it is of another kind"
    with temporary_directory("firesteel-trial-") as made:
        assert list(parent.iterdir()) == [made]


def test_directories_that_nobody_has_locked_are_left_alone(parent: Path) -> None:
    (parent / "firesteel-trial-mine").mkdir()
    with temporary_directory("firesteel-trial-"):
        assert (parent / "firesteel-trial-mine").exists()


def test_who_clears_up_may_be_faster_than_its_owner(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, answers = temporary.try_lock, [None]
    monkeypatch.setattr(temporary, "try_lock", lambda file: answers.pop() if answers else real(file))
    with temporary_directory("firesteel-trial-") as made:
        assert (made / LOCK).exists()
