"""Whether an Iceberg table has a commit: by the line of snapshots that readers see, and no other."""

import tests.connectmode  # noqa: F401, I001

from firesteel.adapters.spark.sinks.icebergcommit import History, Snapshot


def history(main: int | None, **branches: int) -> History:
    """1 - 2 - 4 is a line, and 3 comes off 2."""
    snapshots = {1: Snapshot(None, "one"), 2: Snapshot(1, ""), 3: Snapshot(2, "three"), 4: Snapshot(2, "four")}
    return History(snapshots, {**branches, **({} if main is None else {"main": main})})


def test_a_commit_is_there_when_main_goes_back_to_it() -> None:
    assert history(4).has("one")
    assert history(4).has("four")
    assert not history(4, other=3).has("three"), "on a branch that nobody has published"
    assert not history(2).has("four")


def test_a_table_without_a_snapshot_has_no_commit() -> None:
    assert history(None).head is None
    assert not history(None).has("one")
    assert not History({}, {"main": 7}).has(""), "a snapshot that has expired says nothing"


def test_what_was_written_has_to_begin_where_was_looked() -> None:
    assert history(2, own=4).written("own") == 4
    assert history(2).written("own") is None
    assert history(2).is_child(4, 2)
    assert not history(2).is_child(4, 1)
    assert not history(2).is_child(9, 1)
