"""Into how many buckets rows are laid, and when they are read as such."""

import pytest

from firesteel.adapters.spark.exchange.buckets import NONE, Buckets, bucket_of, buckets_for, common_buckets

OF_FOUR = Buckets(4, (1,))


@pytest.mark.parametrize(
    ("subpartitions", "cores", "number"),
    [(2, 2, 4), (8, 4, 8), (8, 8, 8), (8, 9, 1), (2, 16, 32), (2, 32, 32), (2, 33, 1), (3, 1, 2), (4, 0, 1)],
)
def test_there_are_two_for_each_core_unless_a_task_would_write_too_many_files(
    subpartitions: int, cores: int, number: int
) -> None:
    assert buckets_for((0, 2), subpartitions, cores) == (Buckets(number, (0, 2)) if number > 1 else NONE)


def test_rows_without_keys_have_none() -> None:
    assert buckets_for((), 2, 4) == NONE


def test_a_file_is_named_by_its_bucket() -> None:
    assert bucket_of("subpartition=1/part-00003-7b_2-c000_13.rows") == 13


def sizes(*each: int) -> dict[str, int]:
    """`each` in fifths of a MiB."""
    return {f"subpartition=0/part-0-c000_{bucket}.rows": (size << 20) // 5 for bucket, size in enumerate(each)}


@pytest.mark.parametrize(
    ("found", "written", "cores", "common"),
    [
        pytest.param(sizes(10, 9, 11, 10), [OF_FOUR, OF_FOUR], 2, OF_FOUR, id="even"),
        pytest.param(sizes(14, 8, 9, 9), [OF_FOUR], 4, OF_FOUR, id="almost even"),
        pytest.param(sizes(16, 8, 8, 8), [OF_FOUR], 2, NONE, id="uneven"),
        pytest.param(sizes(10, 10, 10, 10), [OF_FOUR], 5, NONE, id="more cores than buckets"),
        pytest.param(sizes(10, 10, 10, 10), [OF_FOUR, Buckets(4, (0,))], 2, NONE, id="other keys"),
        pytest.param(sizes(10, 10, 10, 10), [OF_FOUR, NONE], 2, NONE, id="a producer without"),
        pytest.param(sizes(4, 5, 5, 5), [OF_FOUR], 2, NONE, id="small"),
        pytest.param(sizes(10, 10), [NONE], 2, NONE, id="none"),
        pytest.param(sizes(*[1_300] * 4), [OF_FOUR], 2, NONE, id="large"),
    ],
)
def test_buckets_are_read_as_such_where_that_is_no_worse(
    found: dict[str, int], written: list[Buckets], cores: int, common: Buckets
) -> None:
    assert common_buckets(found, written, cores) == common
