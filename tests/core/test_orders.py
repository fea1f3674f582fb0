"""Whether what is there is the savepoint that an order wants."""

from firesteel.core.checkpoint.orders import is_of_order
from firesteel.model.ids import RegionIndex
from firesteel.model.streams import SavepointQueries

WANTED = (
    SavepointQueries(region=RegionIndex(0), attempt=1, uids=("a", "b")),
    SavepointQueries(region=RegionIndex(1), attempt=0, uids=("c",)),
)


def test_one_of_the_same_attempts_is() -> None:
    assert is_of_order({"c": 0, "a": 1, "b": 1}, WANTED)


def test_one_of_attempts_before_is_not() -> None:
    assert not is_of_order({"a": 0, "b": 0, "c": 0}, WANTED)
    assert not is_of_order({"a": 1, "b": 1}, WANTED)
    assert not is_of_order({"a": 1, "b": 1, "c": -1}, WANTED), "a version wrote it that did not say"
