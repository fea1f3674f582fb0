"""Names that functions give in the session: each is one function's own, however the pipeline is cut."""

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


def two(give: Callable[[Any, Any, str], Any], names: tuple[str, str] = ("n", "n")) -> Pipeline:
    """A source, and two functions after it that give a name each: `low` with what is below 5, `high` with the rest."""
    pipeline = Pipeline("two")

    @pipeline.source
    def numbers(spark: Any) -> Any:
        return spark.range(10)

    @pipeline.transform
    def low(spark: Any, numbers: Any) -> Any:
        return give(spark, numbers.where("id < 5"), names[0])

    @pipeline.transform
    def high(spark: Any, numbers: Any) -> Any:
        return give(spark, numbers.where("id >= 5"), names[1])

    @pipeline.result
    def both(low: Any, high: Any) -> Any:
        return low.selectExpr("cast(min(id) as bigint)").union(high.selectExpr("cast(min(id) as bigint)"))

    return pipeline


def view(spark: Any, frame: Any, name: str) -> Any:
    frame.createOrReplaceTempView(name)
    return spark.table(name)


def view_by_sql(spark: Any, frame: Any, name: str) -> Any:
    least = frame.selectExpr("min(id)").first()[0]
    spark.sql(f"-- mine\ncreate or replace temporary view `{name}` as select {least} as id")
    return spark.sql(f"select * from {name}")


def global_view(spark: Any, frame: Any, name: str) -> Any:
    frame.createOrReplaceGlobalTempView(name)
    return spark.table(f"global_temp.{name}")


def udf(spark: Any, frame: Any, name: str) -> Any:
    least = frame.selectExpr("min(id)").first()[0]
    spark.udf.register(name, lambda value: value * 0 + least, "bigint")
    return frame.selectExpr(f"{name}(id) as id")


def sql_function(spark: Any, frame: Any, name: str) -> Any:
    least = frame.selectExpr("min(id)").first()[0]
    spark.sql(f"create or replace temporary function {name}() returns bigint return {least}")
    return frame.selectExpr(f"{name}() as id")


def variable(spark: Any, frame: Any, name: str) -> Any:
    least = frame.selectExpr("min(id)").first()[0]
    spark.sql(f"DECLARE OR REPLACE VARIABLE {name} bigint DEFAULT {least}")
    return frame.selectExpr(f"{name} as id")


GIVING = pytest.mark.parametrize("give", [view, view_by_sql, global_view, udf, sql_function, variable])


@GIVING
def test_a_name_of_two_functions_is_refused(local: InProcess, give: Callable[[Any, Any, str], Any]) -> None:
    """Else both would have what was given last."""
    with pytest.raises(PipelineRefused, match=r"high gives, changes or drops the .* '\w+', and low has given it"):
        local.run(two(give, (f"one_{give.__name__}", f"One_{give.__name__}")))


@GIVING
def test_names_of_their_own_are_not(local: InProcess, give: Callable[[Any, Any, str], Any]) -> None:
    (commit,) = local.run(two(give, (f"l_{give.__name__}", f"h_{give.__name__}")))
    (file,) = local.directory.rglob(staged_rows(Path(), commit.target).name)
    assert sorted(tuple(row) for row in ResultRows(file.read_bytes()).rows()) == [(0,), (5,)]


@pytest.mark.parametrize(
    "change",
    [
        lambda spark: spark.catalog.setCurrentDatabase("default"),
        lambda spark: spark.sql("USE default"),
        lambda spark: spark.sql("/* there */ use database default"),
    ],
)
def test_the_current_database_is_everybodys(local: InProcess, change: Callable[[Any], Any]) -> None:
    pipeline = Pipeline("database")

    @pipeline.source
    def found(spark: Any) -> Any:
        change(spark)
        return spark.range(1)

    @pipeline.result
    def shown(found: Any) -> Any:
        return found

    with pytest.raises(PipelineRefused, match="found changes the current database"):
        local.run(pipeline)


def test_a_name_is_not_dropped_by_another_function(local: InProcess) -> None:
    pipeline = Pipeline("dropped")

    @pipeline.source
    def given(spark: Any) -> Any:
        return view(spark, spark.range(1), "given_here")

    @pipeline.result
    def found(spark: Any, given: Any) -> Any:
        spark.catalog.dropTempView("given_here")
        return given

    with pytest.raises(PipelineRefused, match="drops the view 'given_here', and given has given it"):
        local.run(pipeline)
