"""Files of a stream's batches: none twice, none lost, whatever is run again, restored or dead."""

import contextlib
import itertools
import os
import shutil
import threading
from pathlib import Path

import pytest

from firesteel.adapters.storage import batchfiles
from firesteel.adapters.storage.batchclaims import Start, Superseded
from firesteel.adapters.storage.batchfiles import BatchFiles
from firesteel.adapters.storage.batchrecords import Record
from firesteel.adapters.storage.errors import TargetRefused


def write(output: BatchFiles, batch: int, text: str, query: str = "q") -> None:
    staging = output.begin(batch, query)
    (staging / "day=1").mkdir(parents=True)
    (staging / "part-0.txt").write_text(text)
    (staging / "day=1/part-1.txt").write_text(f"{text}, day 1")
    (staging / "_SUCCESS").touch()
    output.commit(batch, staging)


def seen(root: Path) -> list[str]:
    """What a reader finds that lists the directory, below its top."""
    return sorted(path.read_text() for path in root.glob("*.txt"))


def counted(root: Path) -> list[str]:
    """What the records name."""
    files = itertools.chain.from_iterable(BatchFiles(root, 0).files().values())
    return sorted((root / name).read_text() for name in files if "day=1" not in name)


def leftovers(root: Path) -> list[str]:
    return [str(path) for path in root.rglob("*") if ".firesteel-staging" in path.parts]


def test_batches_add_up(tmp_path: Path) -> None:
    output = BatchFiles.claim(tmp_path)
    for batch in range(3):
        write(output, batch, f"rows {batch}")
    assert seen(tmp_path) == counted(tmp_path) == ["rows 0", "rows 1", "rows 2"]
    assert len(list((tmp_path / "day=1").iterdir())) == 3
    assert not leftovers(tmp_path)


def test_a_batch_that_is_run_again_replaces_itself(tmp_path: Path) -> None:
    write(BatchFiles.claim(tmp_path), 0, "rows")
    again = BatchFiles.claim(tmp_path)
    write(again, 0, "rows, again")
    write(again, 1, "more")
    assert seen(tmp_path) == counted(tmp_path) == ["more", "rows, again"]
    assert len(list((tmp_path / "day=1").iterdir())) == 2


def test_an_older_point_takes_back_what_came_after(tmp_path: Path) -> None:
    first = BatchFiles.claim(tmp_path)
    for batch in range(250):
        write(first, batch, f"first {batch}")
    records = [path.name for path in (tmp_path / "_firesteel/streams/00000001").iterdir()]
    assert len(records) == 2 + 51 + 2, "a hundred in one; who has claimed it, and its first batch"
    second = BatchFiles.claim(tmp_path)
    for batch in range(130, 133):
        write(second, batch, f"second {batch}")
    whole = sorted([*(f"first {n}" for n in range(130)), *(f"second {n}" for n in range(130, 133))])
    assert seen(tmp_path) == counted(tmp_path) == whole
    third = BatchFiles.claim(tmp_path)
    write(third, 7, "third")
    assert seen(tmp_path) == counted(tmp_path) == sorted([*(f"first {n}" for n in range(7)), "third"])


def test_one_that_was_taken_for_dead_stops(tmp_path: Path) -> None:
    zombie = BatchFiles.claim(tmp_path)
    write(zombie, 0, "rows")
    staging = zombie.begin(1, "q")
    staging.mkdir()
    (staging / "part-0.txt").write_text("late")
    newer = BatchFiles.claim(tmp_path)
    with pytest.raises(Superseded, match="generation 2"):
        zombie.commit(1, staging)
    write(newer, 1, "newer")
    with pytest.raises(Superseded):
        zombie.begin(2, "q")
    assert seen(tmp_path) == counted(tmp_path) == ["newer", "rows"]
    assert not leftovers(tmp_path)
    staging.mkdir(parents=True)
    with pytest.raises(Superseded):
        zombie.commit(1, staging)
    assert not leftovers(tmp_path), "nobody else would remove what it has staged since"


def test_a_claim_that_nobody_has_finished_is_removed(tmp_path: Path) -> None:
    BatchFiles.claim(tmp_path)
    young, old = (tmp_path / "_firesteel/streams" / name for name in (".claim-young", ".claim-old"))
    young.mkdir()
    old.mkdir()
    os.utime(old, (1, 1))
    BatchFiles.claim(tmp_path)
    assert young.exists()
    assert not old.exists()


def test_a_start_without_a_claim_has_nowhere_to_write(tmp_path: Path) -> None:
    BatchFiles.claim(tmp_path)
    with pytest.raises(Superseded, match="was deleted, or is written by others"):
        BatchFiles.of(Start(tmp_path))


def test_an_earlier_attempt_can_not_come_after_a_later_one(tmp_path: Path) -> None:
    later = BatchFiles.claim(tmp_path, "job", 2)
    write(later, 0, "rows")
    with pytest.raises(Superseded, match="attempt 1 was taken for dead"):
        BatchFiles.claim(tmp_path, "job", 1)
    write(later, 1, "more")
    write(BatchFiles.claim(tmp_path, "job", 3), 2, "next attempt")
    write(BatchFiles.claim(tmp_path, "another job, from a savepoint", 0), 3, "next job")
    assert counted(tmp_path) == ["more", "next attempt", "next job", "rows"]


def test_one_that_publishes_while_another_takes_over_takes_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zombie = BatchFiles.claim(tmp_path)
    write(zombie, 0, "rows")
    rename = os.rename

    def overtaken(source: Path, target: Path) -> None:
        rename(source, target)
        if Path(target).name == "1.json":
            monkeypatch.setattr(os, "rename", rename)
            write(BatchFiles.claim(tmp_path), 1, "newer")

    monkeypatch.setattr(os, "rename", overtaken)
    with pytest.raises(Superseded):
        write(zombie, 1, "late")
    assert seen(tmp_path) == counted(tmp_path) == ["newer", "rows"]


def test_one_that_publishes_while_another_takes_back_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has looked and noted its intent before the other one came: files without a record would be read for good."""
    zombie = BatchFiles.claim(tmp_path)
    write(zombie, 0, "rows")
    rename, rmtree, has_noted, may_publish = os.rename, shutil.rmtree, threading.Event(), threading.Event()

    def late_rename(source: Path, target: Path) -> None:
        if threading.current_thread() is late and Path(source).suffix == ".txt":
            has_noted.set()
            assert may_publish.wait(300)
        rename(source, target)

    def rmtree_after_the_late_one(path: Path, *, ignore_errors: bool = False) -> None:
        if Path(path).name == "stream-1-1-1" and threading.current_thread() is not late:
            may_publish.set()
            late.join(300)
        rmtree(path, ignore_errors=ignore_errors)

    def come_late() -> None:
        with contextlib.suppress(Superseded, OSError):
            write(zombie, 1, "late")

    late = threading.Thread(target=come_late)
    monkeypatch.setattr(os, "rename", late_rename)
    monkeypatch.setattr(shutil, "rmtree", rmtree_after_the_late_one)
    late.start()
    assert has_noted.wait(300)
    write(BatchFiles.claim(tmp_path), 1, "newer")
    assert seen(tmp_path) == counted(tmp_path) == ["newer", "rows"]


@pytest.mark.parametrize("steps", range(1, 8))
def test_what_is_left_when_batches_are_taken_back_has_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    for start in range(3):
        output = BatchFiles.claim(tmp_path)
        for batch in (2 * start, 2 * start + 1):
            write(output, batch, f"rows {batch}")
    left, unlink = iter(range(steps)), Path.unlink

    def counted_unlink(path: Path, missing_ok: bool = False) -> None:
        if path.suffix == ".txt" and next(left, None) is None:
            raise Died
        unlink(path, missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", counted_unlink)
        with contextlib.suppress(Died):
            BatchFiles.claim(tmp_path).begin(1, "q")
    found = seen(tmp_path)
    assert found == [f"rows {batch}" for batch in range(len(found))]


class Died(Exception):
    pass


@pytest.mark.parametrize("steps", range(1, 12))
def test_a_death_at_any_step_leaves_each_batch_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    first = BatchFiles.claim(tmp_path)
    write(first, 0, "rows 0")
    left = iter(range(steps))
    rename, unlink = os.rename, Path.unlink

    def counted_rename(source: Path, target: Path) -> None:
        if next(left, None) is None:
            raise Died
        rename(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", counted_rename)
        try:
            write(first, 1, "rows 1")
            write(BatchFiles.claim(tmp_path), 1, "rows 1")
        except Died:
            pass
    assert Path.unlink is unlink
    second = BatchFiles.claim(tmp_path)
    for batch in (1, 2):
        write(second, batch, f"rows {batch}")
    assert seen(tmp_path) == counted(tmp_path) == ["rows 0", "rows 1", "rows 2"]
    assert not leftovers(tmp_path)


def test_the_output_of_another_query_is_refused(tmp_path: Path) -> None:
    write(BatchFiles.claim(tmp_path), 0, "rows")
    for batch in (0, 1):
        with pytest.raises(TargetRefused, match="of another query"):
            write(BatchFiles.claim(tmp_path), batch, "theirs", query="other")
    write(BatchFiles.claim(tmp_path), 1, "more")
    assert counted(tmp_path) == ["more", "rows"]


def test_an_output_that_lacks_batches_is_refused(tmp_path: Path) -> None:
    write(BatchFiles.claim(tmp_path), 0, "rows")
    with pytest.raises(TargetRefused, match="holds batches up to 0, and the query goes on with 2"):
        write(BatchFiles.claim(tmp_path), 2, "later")


def test_a_new_output_may_begin_anywhere(tmp_path: Path) -> None:
    BatchFiles.claim(tmp_path)  # a start that has written nothing
    write(BatchFiles.claim(tmp_path), 7, "rows")
    assert counted(tmp_path) == ["rows"]


def test_a_batch_without_rows_counts(tmp_path: Path) -> None:
    output = BatchFiles.claim(tmp_path)
    for batch in range(2):
        staging = output.begin(batch, "q")
        staging.mkdir()
        output.commit(batch, staging)
    assert output.files() == {0: [], 1: []}
    assert batchfiles.MERGED_BATCHES == 100


def test_one_taken_for_dead_says_so_when_a_newer_one_takes_back_what_it_merges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = BatchFiles.claim(tmp_path)
    for batch in range(batchfiles.MERGED_BATCHES - 1):
        write(old, batch, f"rows {batch:02}")
    merge = BatchFiles._merge

    def late(output: BatchFiles, newest: int) -> None:
        with monkeypatch.context() as meanwhile:
            read = Record.read

            def taken_back(record: Record) -> dict[int, list[str]]:
                meanwhile.setattr(Record, "read", read)
                write(BatchFiles.claim(tmp_path), 50, "rows 50, again")
                return read(record)

            meanwhile.setattr(Record, "read", taken_back)
            merge(output, newest)

    monkeypatch.setattr(BatchFiles, "_merge", late)
    with pytest.raises(Superseded, match="taken for dead"):
        write(old, 99, "rows 99")
    assert seen(tmp_path) == [*(f"rows {batch:02}" for batch in range(50)), "rows 50, again"]
