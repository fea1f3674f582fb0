"""A query of which a part is older than what it names is told, where PySpark without Connect has other rows; no other is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firesteel.adapters.spark.exchange.results import ResultRows
from firesteel.adapters.spark.staged.rows import staged_rows
from firesteel.pipeline.authoring import Pipeline
from tests.integration.spark.inprocess import InProcess

pytestmark = pytest.mark.spark

ZONE = "spark.sql.session.timeZone"
HOUR = "hour(timestamp_seconds(id * 3600)) as id"


@pytest.fixture(autouse=True)
def nothing_shown_yet(local: InProcess) -> None:
    """Each name and setting is shown once, which would hide it from the test after."""
    local.session.meanings._shown.clear()


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


def variable_in_an_expression(spark: Any) -> Any:
    spark.sql("declare or replace variable least = 1")
    made = spark.range(3).where("id >= least")
    spark.sql("set var least = 2")
    return made


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (replaced_view, "the view 'seen' was changed after a part of this query was made with it"),
        (replaced_view_as_a_table, "the view 'seen' was changed"),
        (changed_variable, "the variable 'v' was changed"),
        (variable_in_an_expression, "the variable 'least' was changed"),
        (setting_taken_back, f"{ZONE} was changed"),
        (two_zones, f"{ZONE} was changed"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_part_that_is_older_is_told(
    local: InProcess, function: Callable[[Any], Any], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    returned(local, function)
    assert capsys.readouterr().err.count(says) == 1


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


def the_same_again(spark: Any) -> Any:
    """As a helper does that is called twice; other things have its name, too."""

    def part(least: int) -> Any:
        spark.range(5).createOrReplaceTempView("rates")
        return spark.sql(f"select id from rates where id >= {least} and 'from rates' <> '' -- from rates")

    return part(4).union(part(3))


def other_things_have_its_name(spark: Any) -> Any:
    spark.range(1).createOrReplaceTempView("t")
    made = spark.sql("select t.id from (select 7 as id) as t where 'from t' <> ''")
    spark.range(2).createOrReplaceTempView("t")
    return made


def fixed_under_the_setting(spark: Any) -> Any:
    spark.conf.set(ZONE, "Asia/Tokyo")
    made = spark.range(2).selectExpr(HOUR).localCheckpoint()
    spark.conf.unset(ZONE)
    return made


def in_another_session(spark: Any) -> Any:
    spark.range(2).createOrReplaceTempView("apart")
    made = spark.sql("select * from apart")
    other = spark.newSession()
    other.range(7).createOrReplaceTempView("apart")
    other.range(8).createOrReplaceTempView("apart")
    return made


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
        (the_same_again, [3, 4, 4]),
        (other_things_have_its_name, [7]),
        (fixed_under_the_setting, [9, 10]),
        (in_another_session, [0, 1]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.parametrize("twice", [False, True])
def test_what_pyspark_has_too_is_not(
    local: InProcess,
    function: Callable[[Any], Any],
    ids: list[int],
    twice: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also in a region whose session has run another before."""
    for _ in range(1 + twice):
        assert returned(local, function) == ids
    assert "was changed after" not in capsys.readouterr().err
