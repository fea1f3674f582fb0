"""What is remembered of checkpoints: each counts once, and what can't be gone on from is not retained."""

from hypothesis import given
from hypothesis import strategies as st

from firesteel.core.checkpoint import history as h
from firesteel.model.checkpoints import CheckpointHistory, CheckpointStatus, QueryPoint
from firesteel.model.streams import savepoint_name


def taken(history: CheckpointHistory, batch: int, oldest: int, retained_max: int) -> CheckpointHistory:
    """The next checkpoint, of one query that has come to `batch` and has kept `oldest`."""
    number = history.last_id + 1
    points = (QueryPoint(uid="v", batch=batch, oldest_batch=oldest, size_bytes=10),)
    return h.completed(h.triggered(history, number, number), number, points, retained_max, number + 5)


def test_an_end_counts_once() -> None:
    once = taken(CheckpointHistory(), 3, 0, 1)
    assert h.completed(once, 1, (), 1, 99) == once
    assert h.failed(once, 1, "late", 1, 99) == once


def test_one_that_is_under_way_is_remembered_beside_many_savepoints() -> None:
    history = h.triggered(CheckpointHistory(), 1, 0)
    for _ in range(h.NEWEST_MAX + 1):
        history = h.saved(history, "/savepoints/sp", 1, 2)
        assert history.in_progress is not None
        assert len(history.newest) <= h.NEWEST_MAX
    done = h.completed(history, 1, (), 1, 9)
    assert (done.in_progress, done.latest_completed and done.latest_completed.checkpoint_id) == (None, 1)
    assert [each.checkpoint_id for each in done.retained] == [1]


def test_a_savepoint_of_a_version_that_did_not_say_when_took_no_time() -> None:
    history = h.saved(CheckpointHistory(), "/savepoints/sp", -1, 7)
    assert history.latest_savepoint is not None
    assert (history.latest_savepoint.triggered_ms, history.latest_savepoint.duration_ms) == (7, 0)


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("cfsr")), max_size=30), st.integers(1, 3))
def test_what_is_retained_is_whole_and_few(steps: list[tuple[int, str]], retained_max: int) -> None:
    history, batch, last = CheckpointHistory(), 0, 0
    for jump, what in steps:
        batch += jump
        if what == "c":
            history = taken(history, batch, max(0, batch - 4), retained_max)
            assert all(point.batch >= batch - 4 for each in history.retained for point in each.points)
            assert history.retained[0] == history.latest_completed
        elif what == "f":
            number = history.last_id + 1
            history = h.failed(h.triggered(history, number, 0), number, "it expired", 1, 5)
        elif what == "s":
            history = h.saved(history, "/savepoints/sp", 0, 5)
        else:
            history = h.restarted(history, 5)
            assert not history.retained
        assert history.last_id >= last, "numbers only grow"
        last = history.last_id
        assert len(history.retained) <= retained_max
        assert all(each.status is CheckpointStatus.COMPLETED and not each.savepoint for each in history.retained)
        assert history.completed + history.failed == history.last_id
        assert len(history.newest) <= h.NEWEST_MAX


def test_a_savepoint_is_known_by_its_id_as_long_as_it_is_remembered() -> None:
    known = CheckpointHistory()
    ids = [f"{number:x}" * 32 for number in range(h.NEWEST_MAX + 2)]
    for each in ids:
        known = h.saved(known, f"/savepoints/{savepoint_name('job', each)}", 1, 2)
    found = [h.savepoint_of(known, "job", each) for each in ids]
    assert found[:2] == ["", ""]
    assert found[2:] == [f"/savepoints/savepoint-job-{each[:12]}" for each in ids[2:]]
    assert h.savepoint_of(CheckpointHistory(), "job", ids[0]) == ""
