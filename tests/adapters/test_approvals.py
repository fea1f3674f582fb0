"""Of the subtasks of a vertex one asks Spark's planner."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from firesteel.adapters.spark.shares.approvals import Approvals


def test_of_subtasks_that_begin_together_one_asks(tmp_path: Path) -> None:
    approvals, asked = Approvals(tmp_path / "approved"), []

    def subtask(number: int) -> None:
        with approvals.turn("plan"):
            if "plan" not in approvals:
                asked.append(number)
                time.sleep(0.05)
                approvals.add("plan")

    with ThreadPoolExecutor(8) as subtasks:
        list(subtasks.map(subtask, range(8)))
    assert len(asked) == 1


def test_where_the_first_notes_nothing_the_others_ask_side_by_side(tmp_path: Path) -> None:
    """As for rows that every subtask has: a barrier that only all of them together pass."""
    approvals, others = Approvals(tmp_path / "approved"), Barrier(3)

    def subtask() -> None:
        with approvals.turn("plan"):
            others.wait(timeout=30)

    with ThreadPoolExecutor(3) as subtasks:
        with approvals.turn("plan"):
            waiting = [subtasks.submit(subtask) for _ in range(3)]
            time.sleep(0.05)
        for each in waiting:
            each.result()


def test_a_subtask_that_never_answers_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firesteel.adapters.spark.shares.approvals._TURN_S", 0.05)
    with Approvals(tmp_path).turn("plan"), Approvals(tmp_path).turn("plan"):
        assert "plan" not in Approvals(tmp_path)


def test_where_nothing_can_be_written_each_subtask_asks(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    approvals = Approvals(tmp_path / "file")
    with approvals.turn("plan"):
        approvals.add("plan")
    assert "plan" not in approvals
