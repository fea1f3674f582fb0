"""Outputs compared: as multisets, by key, with updates; and where two streams have read the same."""

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.client.comparison import (
    ROWS_OF_A_KEY_MAX,
    SAMPLES_MAX,
    BatchRow,
    NoSuchKey,
    Row,
    Rows,
    common_point,
    compare,
    key_of,
)
from firesteel.model.streams import QueryPosition


def rows(*found: Row, batch: int = 0) -> Rows:
    return lambda: iter([(batch, row) for row in found])


def by_batch(*batches: Sequence[Row]) -> Rows:
    def read() -> Iterator[BatchRow]:
        for number, found in enumerate(batches):
            yield from ((number, row) for row in found)

    return read


def words(text: str) -> Rows:
    return rows(*({"k": word} for word in text.split()))


@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)))
def test_rows_are_counted_as_often_as_they_are_there(first: list[int], second: list[int]) -> None:
    found = compare(rows(*({"v": each} for each in first)), rows(*({"v": each} for each in second)))
    counted, other = Counter(first), Counter(second)
    assert found.only_first == (counted - other).total()
    assert found.only_second == (other - counted).total()
    assert found.equal == (counted & other).total()
    assert found.is_same == (counted == other)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2))), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)))
)
def test_keys_are_equal_when_their_rows_are(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    sides = [{k: Counter(v for key, v in each if key == k) for k, _ in each} for each in (first, second)]
    one, other = (rows(*({"k": k, "v": v} for k, v in each)) for each in (first, second))
    found = compare(one, other, ("k",))
    both = [k for k in sides[0] if k in sides[1]]
    assert found.equal == sum(sides[0][k] == sides[1][k] for k in both)
    assert found.different == sum(sides[0][k] != sides[1][k] for k in both)
    assert found.only_first == len(sides[0]) - len(both)
    assert found.only_second == len(sides[1]) - len(both)


def test_samples_show_what_differs() -> None:
    found = compare(words("a b b c"), words("a b d"))
    assert [(each.first, each.second) for each in found.samples] == [
        ([{"k": "b"}], []),
        ([{"k": "c"}], []),
        ([], [{"k": "d"}]),
    ]
    keyed = compare(rows({"k": 1, "v": 1}, {"k": 2, "v": 1}), rows({"k": 1, "v": 2}, {"k": 2, "v": 1}), key=("k",))
    (sample,) = keyed.samples
    assert (sample.key, sample.first, sample.second) == ({"k": 1}, [{"k": 1, "v": 1}], [{"k": 1, "v": 2}])


def test_samples_are_few() -> None:
    many = [{"k": number % 50, "v": number} for number in range(1_000)]
    found = compare(rows(*many), rows())
    assert (found.only_first, len(found.samples)) == (1_000, SAMPLES_MAX)
    keyed = compare(rows(*many), rows(), key=("k",))
    assert (keyed.only_first, len(keyed.samples)) == (50, SAMPLES_MAX)
    assert all(len(each.first) == ROWS_OF_A_KEY_MAX for each in keyed.samples)


def test_of_updates_the_newest_batch_of_a_key_counts() -> None:
    first = by_batch([{"k": "a", "n": 1}, {"k": "b", "n": 1}], [{"k": "a", "n": 2}])
    second = by_batch([{"k": "a", "n": 2}, {"k": "b", "n": 1}])
    assert compare(first, second, ("k",), has_updates=True).is_same
    assert compare(first, second, ("k",)).different == 1
    (sample,) = compare(first, by_batch([{"k": "a", "n": 3}, {"k": "b", "n": 1}]), ("k",), has_updates=True).samples
    assert (sample.first, sample.second) == ([{"k": "a", "n": 2}], [{"k": "a", "n": 3}])


def test_keys_may_be_nested() -> None:
    row = {"window": {"start": 1}, "a.b": 2}
    assert key_of(row, ("window.start", "a.b")) == {"window.start": 1, "a.b": 2}
    with pytest.raises(NoSuchKey, match=r"no column 'window\.end'; they have window, a\.b"):
        compare(rows(row), rows(row), ("window.end",))


def test_null_is_a_key_also_where_it_is_left_out() -> None:
    first = rows({"k": "a", "v": 1}, {"v": 2}, {"v": 3})
    found = compare(first, rows({"k": "a", "v": 1}, {"v": 3}, {"v": 2}), ("k",))
    assert (found.is_same, found.equal) == (True, 2)
    nested = compare(rows({"k": {"u": 1}}, {"k": None}), rows({"k": {"u": 1}}), ("k.u",))
    assert (nested.equal, nested.only_first) == (1, 1)
    assert compare(rows(), rows(), ("k",)).is_same


def positions(*read: str, first: int = 0) -> list[QueryPosition]:
    return [QueryPosition(first + place, each) for place, each in enumerate(read)]


def test_the_newest_point_at_which_both_have_read_the_same() -> None:
    assert common_point(positions("a", "b", "c"), positions("a", "c", first=7)) == (2, 8)
    assert common_point(positions("a", "b", "d"), positions("a", "c")) == (0, 0)
    assert common_point(positions("a", "a"), positions("a", "a", "a")) == (1, 2), "batches without input"
    assert common_point(positions("a"), positions("b")) is None
    assert common_point([], positions("b")) is None
