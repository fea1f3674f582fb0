"""A query of which a part is older than what it names: refused, where plain PySpark has other rows; all else runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firesteel.adapters.spark.exchange.results import ResultRows
from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.adapters.spark.staged.rows import staged_rows
from firesteel.pipeline.authoring import Pipeline
from tests.integration.spark.inprocess import InProcess

pytestmark = pytest.mark.spark

ZONE = "spark.sql.session.timeZone"
HOUR = "hour(timestamp_seconds(id * 3600)) as id"


def returned(local: InProcess, function: Callable[[Any], Any]) -> list[int]:
    """The ids of a pipeline with this one source."""
    pipeline = Pipeline("one")

    @pipeline.source
    def made(spark: Any) -> Any:
        return function(spark)

    @pipeline.result
    def rows(made: Any) -> Any:
        return made.orderBy("id")

    try:
        (commit,) = local.run(pipeline)
    finally:
        local.session.switch_settings({})
    (file,) = local.directory.rglob(staged_rows(Path(), commit.target).name)
    return [row[0] for row in ResultRows(file.read_bytes()).rows()]


def replaced_view(spark: Any) -> Any:
    spark.range(5).createOrReplaceTempView("seen")
    made = spark.sql("select * from seen")
    spark.range(3).createOrReplaceTempView("seen")
    return made


def replaced_view_as_a_table(spark: Any) -> Any:
    spark.range(5).createOrReplaceTempView("seen")
    made = spark.table("SEEN").where("id > 1")
    spark.sql("create or replace temp view seen as select 1 as id")
    return made


def changed_variable(spark: Any) -> Any:
    spark.sql("declare or replace variable v = 1")
    made = spark.sql("select v as id")
    spark.sql("set var v = 100")
    return made


def setting_taken_back(spark: Any) -> Any:
    spark.conf.set(ZONE, "Asia/Tokyo")
    made = spark.range(2).selectExpr(HOUR)
    spark.conf.unset(ZONE)
    return made


def two_zones(spark: Any) -> Any:
    spark.sql("SET TIME ZONE 'Asia/Tokyo'")
    first = spark.range(1).selectExpr(HOUR)
    spark.sql("SET TIME ZONE 'America/New_York'")
    return first.union(spark.range(1).selectExpr(HOUR))


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (replaced_view, "the view 'seen' was changed after a part of this query was made with it"),
        (replaced_view_as_a_table, "the view 'seen' was changed"),
        (changed_variable, "the variable 'v' was changed"),
        (setting_taken_back, f"{ZONE} was changed"),
        (two_zones, f"{ZONE} was changed"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_part_that_is_older_is_refused(local: InProcess, function: Callable[[Any], Any], says: str) -> None:
    with pytest.raises(PipelineRefused, match=says):
        returned(local, function)


def one_name_again_and_again(spark: Any) -> Any:
    """Each query reads the view of the one before."""
    made = spark.range(3)
    for number in range(3):
        made.createOrReplaceTempView("step")
        made = spark.sql(f"select id + {10**number} as id from step")
    return made


def asked_in_between(spark: Any) -> Any:
    """What was run while the view had that content is right, and over."""
    counts = []
    for number in (2, 4):
        spark.range(number).createOrReplaceTempView("part")
        counts.append(spark.sql("select * from part").count())
    return spark.createDataFrame([(count,) for count in counts], "id bigint")


def set_before(spark: Any) -> Any:
    spark.conf.set(ZONE, "America/New_York")
    spark.conf.set(ZONE, "Asia/Tokyo")
    spark.sql("SET TIME ZONE 'Asia/Tokyo'")
    return spark.range(2).selectExpr(HOUR)


def set_after_the_read(spark: Any) -> Any:
    rows = spark.range(2)
    spark.conf.set(ZONE, "Asia/Tokyo")
    return rows.selectExpr(HOUR)


@pytest.mark.parametrize(
    ("function", "ids"),
    [
        (one_name_again_and_again, [111, 112, 113]),
        (asked_in_between, [2, 4]),
        (set_before, [9, 10]),
        (set_after_the_read, [9, 10]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.parametrize("twice", [False, True])
def test_what_plain_pyspark_has_too_runs(
    local: InProcess, function: Callable[[Any], Any], ids: list[int], twice: bool
) -> None:
    """Also in a region whose session has run another before."""
    for _ in range(1 + twice):
        assert returned(local, function) == ids
