"""Paths, ranges and days of input splits, without Spark."""

import datetime
from pathlib import Path
from typing import Any

import pytest

from firesteel.adapters.spark.refusals import PipelineRefused, UserError
from firesteel.adapters.spark.splits.argument import DateSplits, RangeSplits
from firesteel.adapters.spark.splits.finder import SplitFinder
from firesteel.adapters.spark.splits.paths import absolute, escaped, partition_root
from firesteel.model.splits import DateInputFormat, ParameterReference, RangeInputFormat


def finder(**parameters: Any) -> SplitFinder:
    def no_spark() -> Any:
        raise AssertionError("ranges and days need no Spark")

    return SplitFinder(no_spark, parameters, Path("/base"))


def ranges(lower: int, upper: int, count: int) -> RangeSplits:
    found = finder(upto=upper).find(
        RangeInputFormat(column="k", lower=lower, upper=ParameterReference("upto"), count=count), 4
    )
    return RangeSplits("k", found.splits)  # type: ignore[arg-type]


def test_paths_without_scheme_begin_at_the_client() -> None:
    assert absolute("in/../x", Path("/base")) == "/base/x"
    assert absolute("/in", Path("/base")) == "/in"
    assert absolute("s3a://bucket/in", Path("/base")) == "s3a://bucket/in"
    assert escaped("/a[1]/{b}*?\\ü c") == "/a\\[1\\]/\\{b\\}\\*\\?\\\\ü c"


@pytest.mark.parametrize(
    ("path", "root"),
    [
        ("/in", "file:/in"),
        ("/in/", "file:/in"),
        ("file:///in/", "file:/in"),
        ("/in/k=[12]", "file:/in/k=1"),
        ("/in/k=*/s=*", ""),
        ("/in/k=1/s=a/f", ""),
    ],
)
def test_partition_directories_are_those_below_what_the_path_means(path: str, root: str) -> None:
    assert partition_root(path, ["file:/in/f", "file:/in/k=1/s=a/f", "file:/in/k=1/s=b/f"]) == root


def test_an_alternative_of_several_steps_is_refused() -> None:
    with pytest.raises(UserError, match="simpler pattern"):
        partition_root("/in/{a/b,c}", ["file:/in/a/b/f"])


def test_ranges_are_cut_as_spark_cuts_them() -> None:
    assert ranges(0, 10, 3).predicates == ["(k < 3 OR k IS NULL)", "k >= 3 AND k < 6", "k >= 6"]
    assert ranges(0, 10, 3).ranges == [(0, 10)]
    assert ranges(0, 2, 100).predicates == ["(k < 1 OR k IS NULL)", "k >= 1"]
    assert ranges(5, 6, 9).predicate == "((1 = 1))"
    assert RangeSplits("k", []).predicate == "((1 = 0))"
    with pytest.raises(PipelineRefused, match="upper must be above lower"):
        ranges(3, 3, 1)
    with pytest.raises(PipelineRefused, match="a smaller count"):
        ranges(0, 10**9, 10**8)


def test_days_end_before_the_end() -> None:
    declared = DateInputFormat(start="2024-02-28", end=ParameterReference("until", "2024-03-02"), days=2)
    splits = finder().find(declared, 1).splits
    found = DateSplits(splits)  # type: ignore[arg-type]
    assert [day.isoformat() for day in found.dates] == ["2024-02-28", "2024-02-29", "2024-03-01"]
    assert found.predicate("d") == "CAST(d AS DATE) IN (DATE'2024-02-28', DATE'2024-02-29', DATE'2024-03-01')"
    assert DateSplits([]).predicate("d") == "1 = 0"
    with pytest.raises(PipelineRefused, match="end must be after start"):
        finder(until=datetime.date(2024, 2, 28)).find(declared, 1)
