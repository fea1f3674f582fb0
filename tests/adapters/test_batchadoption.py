"""A batch that an attempt has shown keeps its files in the next one, whatever either does meanwhile.

Whoever follows the directory as a stream takes each name for new rows. So the names that were ever seen are looked at, after each
step of each of those who write.
"""

import contextlib
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firesteel.adapters.storage.batchclaims import Superseded
from firesteel.adapters.storage.batchfiles import BatchFiles

PLANNED = "0a1b"
PARTS = ("a", "b")
_ALL = 10_000


def write(output: BatchFiles, batch: int, text: str, planned: str = PLANNED) -> None:
    staging = output.begin(batch, "q", planned)
    if not output.is_there(batch, planned):
        stage(staging, text)
        output.commit(batch, staging, planned)


def stage(staging: Path, text: str) -> None:
    staging.mkdir(parents=True)
    for part in PARTS:
        (staging / f"{part}.txt").write_text(text)


def names(root: Path) -> set[str]:
    return {path.name for path in root.glob("*.txt")}


def texts(root: Path) -> list[str]:
    return sorted(path.read_text() for path in root.glob("*.txt"))


def counted(root: Path) -> set[str]:
    return {name for files in BatchFiles(root, 0).files().values() for name in files}


def attempt(root: Path, number: int, job: str = "job") -> BatchFiles:
    return BatchFiles.claim(root, job, number)


def test_the_next_attempt_leaves_the_batch_that_is_there(tmp_path: Path) -> None:
    first = attempt(tmp_path, 0)
    write(first, 0, "rows 0")
    write(first, 1, "rows 1")
    shown = names(tmp_path)
    second = attempt(tmp_path, 1)
    second.begin(1, "q", PLANNED)
    assert second.is_there(1, PLANNED)
    assert not second.is_there(2, PLANNED)
    write(attempt(tmp_path, 2), 1, "again")
    assert names(tmp_path) == shown == counted(tmp_path)
    assert texts(tmp_path) == ["rows 0"] * 2 + ["rows 1"] * 2


def test_a_start_that_runs_its_own_batch_again_leaves_it(tmp_path: Path) -> None:
    """Queries of one attempt are stopped and begun again, when a job is drained."""
    only = attempt(tmp_path, 0)
    write(only, 0, "rows")
    write(only, 0, "again")
    assert texts(tmp_path) == ["rows"] * 2


@pytest.mark.parametrize("planned", ["0b", ""])
def test_what_was_planned_otherwise_is_replaced(tmp_path: Path, planned: str) -> None:
    write(attempt(tmp_path, 0), 0, "rows")
    write(attempt(tmp_path, 1), 0, "other", planned)
    assert texts(tmp_path) == ["other"] * 2
    assert names(tmp_path) == counted(tmp_path)


def test_a_job_that_goes_on_where_another_was_stopped_leaves_the_batch_that_was_under_way(tmp_path: Path) -> None:
    write(attempt(tmp_path, 0), 0, "rows 0")
    write(attempt(tmp_path, 0, "another"), 0, "again")
    assert texts(tmp_path) == ["rows 0"] * 2


def test_one_that_goes_back_replaces_also_the_first(tmp_path: Path) -> None:
    first = attempt(tmp_path, 0)
    for batch in range(4):
        write(first, batch, f"rows {batch}")
    write(attempt(tmp_path, 0, "another"), 1, "again")
    assert texts(tmp_path) == ["again"] * 2 + ["rows 0"] * 2


def test_a_batch_whose_files_were_deleted_is_written_again(tmp_path: Path) -> None:
    write(attempt(tmp_path, 0), 0, "rows")
    for path in tmp_path.glob("*a.txt"):
        path.unlink()
    write(attempt(tmp_path, 1), 0, "again")
    assert texts(tmp_path) == ["again"] * 2
    assert names(tmp_path) == counted(tmp_path)


def test_batches_that_become_one_record_meanwhile_count_once(tmp_path: Path) -> None:
    """A zombie puts a hundred records into one, and has taken the list of them before one is taken back."""
    zombie = attempt(tmp_path, 0)
    for batch in range(99):
        write(zombie, batch, f"rows {batch:02}")
    read = Path.read_bytes
    second: list[BatchFiles] = []

    def late(path: Path) -> bytes:
        if path.name.startswith("98.") and not second:
            second.append(attempt(tmp_path, 1))
            second[0].begin(98, "q", PLANNED)
        return read(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_bytes", late)
        with contextlib.suppress(Superseded, FileNotFoundError):
            write(zombie, 99, "late")
    assert second, "the zombie has read the record"
    write(attempt(tmp_path, 2), 98, "again")
    assert names(tmp_path) == counted(tmp_path)
    assert len(names(tmp_path)) == 99 * len(PARTS)
    assert texts(tmp_path)[:2] == ["again"] * 2, "there was one after it when it was begun again"


class Died(BaseException):
    """The process is gone: nothing of it is caught."""


class Turns:
    """Threads that run one at a time, up to a change of the file system each, as `plan` says: (who, how many steps)."""

    def __init__(self, root: Path, plan: list[tuple[str, int]], dying: str = "") -> None:
        self._plan, self._root, self._dying = plan, root, dying
        self._turn = threading.Condition()
        self.over: set[str] = set()
        self.steps: dict[str, int] = {}
        self.shown: set[str] = set()

    def step(self) -> None:
        who = threading.current_thread().name
        if who not in self.steps:
            return
        with self._turn:
            self.shown |= names(self._root)
            self.steps[who] += 1
            left = self._plan[0][1] - 1
            self._plan[0] = (who, left)
            if left <= 0:
                if who == self._dying:
                    raise Died
                self._next()
            assert self._turn.wait_for(lambda: self._is_at(who), 60)

    def run(self, stories: dict[str, Callable[[], None]]) -> None:
        self.steps = dict.fromkeys(stories, 0)
        threads = [
            threading.Thread(target=self._live, args=each, name=each[0], daemon=True) for each in stories.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.shown |= names(self._root)

    def _live(self, who: str, story: Callable[[], None]) -> None:
        with self._turn:
            assert self._turn.wait_for(lambda: self._is_at(who), 60)
        with contextlib.suppress(Superseded, FileNotFoundError, Died):
            story()
        with self._turn:
            self.over.add(who)
            self._next()

    def _next(self) -> None:
        self._plan.pop(0)
        while self._plan and self._plan[0][0] in self.over:
            self._plan.pop(0)
        self._turn.notify_all()

    def _is_at(self, who: str) -> bool:
        return not self._plan or self._plan[0][0] == who


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[Turns]:
    """Whoever is in here is told of each step."""
    known: list[Turns] = []

    def telling(function: Callable[..., Any]) -> Callable[..., Any]:
        def told(*args: Any, **options: Any) -> Any:
            for each in known:
                each.step()
            return function(*args, **options)

        return told

    for owner, name in ((os, "rename"), (os, "listdir"), (shutil, "rmtree"), (Path, "unlink"), (Path, "read_bytes")):
        monkeypatch.setattr(owner, name, telling(getattr(owner, name)))
    return known


def played(root: Path, turns: list[Turns], plan: list[tuple[str, int]], dying: str = "") -> Turns:
    """An attempt has written a batch and is about to show it, when others come."""
    zombie = attempt(root, 0)
    write(zombie, 0, "rows 0")
    staging = zombie.begin(1, "q", PLANNED)
    stage(staging, "rows 1")
    playing = Turns(root, plan, dying)
    turns[:] = [playing]
    playing.run(
        {
            "zombie": lambda: zombie.commit(1, staging, PLANNED),
            "second": lambda: write(attempt(root, 1), 1, "rows 1"),
            "third": lambda: write(attempt(root, 2), 1, "rows 1"),
        }
    )
    turns.clear()
    assert len(playing.over) == 3, "nobody waits"
    last = attempt(root, 9)
    write(last, 1, "rows 1")
    write(last, 2, "rows 2")
    assert texts(root) == ["rows 0"] * 2 + ["rows 1"] * 2 + ["rows 2"] * 2
    assert names(root) == counted(root)
    assert not [*(root / ".firesteel-staging").rglob("*")]
    return playing


def lasting(tmp_path: Path, turns: list[Turns], who: str) -> int:
    """Steps of one who is alone."""
    order = [who, *({"zombie", "second", "third"} - {who})]
    return played(tmp_path / "alone", turns, [(each, _ALL) for each in order]).steps[who]


def test_one_comes_while_another_publishes(tmp_path: Path, turns: list[Turns]) -> None:
    for zombie_at in range(1, lasting(tmp_path, turns, "zombie") + 2):
        for second_at in range(1, 40):
            root = tmp_path / f"{zombie_at}-{second_at}"
            plan = [("zombie", zombie_at), ("second", second_at), ("zombie", _ALL), ("second", _ALL), ("third", _ALL)]
            shown = played(root, turns, plan).shown
            assert shown <= names(root), f"{zombie_at}, {second_at}"
            shutil.rmtree(root)


def test_a_third_comes_while_the_second_takes_over(tmp_path: Path, turns: list[Turns]) -> None:
    for zombie_at in range(1, lasting(tmp_path, turns, "zombie") + 2, 2):
        for second_at in range(1, 40, 3):
            for third_at in range(5, 40, 8):
                root = tmp_path / f"{zombie_at}-{second_at}-{third_at}"
                plan = [("zombie", zombie_at), ("second", second_at), ("third", third_at), ("second", _ALL)]
                shown = played(root, turns, [*plan, ("zombie", _ALL), ("third", _ALL)]).shown
                assert shown <= names(root), f"{zombie_at}, {second_at}, {third_at}"
                shutil.rmtree(root)


def test_the_second_dies_while_it_takes_over(tmp_path: Path, turns: list[Turns]) -> None:
    for zombie_at in range(1, lasting(tmp_path, turns, "zombie") + 2):
        for second_at in range(1, 40):
            root = tmp_path / f"{zombie_at}-{second_at}"
            plan = [("zombie", zombie_at), ("second", second_at), ("third", _ALL), ("zombie", _ALL)]
            shown = played(root, turns, plan, dying="second").shown
            assert shown <= names(root), f"{zombie_at}, {second_at}"
            shutil.rmtree(root)
