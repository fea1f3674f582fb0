"""Fingerprints of streams that Spark explains over Connect: which changes of a pipeline keep them, and which do not."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from firesteel.adapters.spark import internals
from firesteel.adapters.spark.streams.plans.fingerprints import broken_rules, fingerprint
from firesteel.adapters.spark.worker.backend import SparkTaskBackend
from tests.connectmode import connect_mode
from tests.integration.spark.streamqueries import Sessions

pytestmark = [pytest.mark.spark, pytest.mark.streams]

Make = Callable[[Any], Any]
SECONDS = "10 seconds"


@pytest.fixture(scope="module")
def spark(backend: SparkTaskBackend, do: Callable[[Any], Any]) -> Iterator[Any]:
    with connect_mode(), contextlib.closing(Sessions(backend, do)) as made:
        yield made.open({})


@pytest.fixture
def rows(spark: Any, tmp_path: Path) -> Any:
    schema = "id long, k string, other string, v long, w long, at timestamp"
    return spark.readStream.schema(schema).json(str(tmp_path)).withWatermark("at", SECONDS)


def made(frame: Any) -> str:
    writer = frame.writeStream
    found = fingerprint(internals.streamed_plan(writer), "append", internals.time_zone(writer))
    assert found
    return found


def functions() -> Any:
    from pyspark.sql import functions

    return functions


def joined(rows: Any, key: str = "id", kept: str = "k") -> Any:
    return rows.select("id", "v", kept).join(
        rows.select((functions().col(key)).alias("other_id"), "w"), functions().expr("id = other_id")
    )


def windows(rows: Any, width: str = SECONDS, *slide: str) -> Any:
    return rows.groupBy(functions().window("at", width, *slide), "k").count()


def words(rows: Any, of: str = "k", pattern: str = " ") -> Any:
    split = functions().split(functions().expr(of), pattern)
    return rows.select(functions().explode(split).alias("word")).groupBy("word").count()


def united(rows: Any, second: str = "k", other: str = "v") -> Any:
    parts = rows.select("k", "v"), rows.selectExpr(f"{second} AS k", f"{other} AS v")
    return parts[0].union(parts[1]).dropDuplicates(["k"])


KEPT: dict[str, tuple[Make, Make]] = {
    "a filter before a generator": (words, lambda rows: words(rows.where("v > 3"))),
    "another column of a union": (united, lambda rows: united(rows, other="w")),
    "a filter before": (lambda rows: rows.groupBy("k").count(), lambda rows: rows.where("v > 3").groupBy("k").count()),
    "a filter of the key": (
        lambda rows: rows.groupBy("k").count(),
        lambda rows: rows.where("k = 'a'").groupBy("k").count(),
    ),
    "a filter after": (
        lambda rows: rows.groupBy("k").count(),
        lambda rows: rows.groupBy("k").count().where("count > 1"),
    ),
    "a projection before": (
        lambda rows: rows.groupBy("k").count(),
        lambda rows: rows.select("k", "w").withColumn("w", functions().col("w") + 1).groupBy("k").count(),
    ),
    "a projection after": (
        windows,
        lambda rows: windows(rows).select("window.start", functions().upper("k").alias("K"), "count"),
    ),
    "another name": (
        lambda rows: rows.groupBy("k").count(),
        lambda rows: rows.withColumnRenamed("k", "key").groupBy("key").agg(functions().count("*").alias("n")),
    ),
    "another delay": (windows, lambda rows: windows(rows.withWatermark("at", "1 minute"))),
    "a filter of deduplicated rows": (
        lambda rows: rows.dropDuplicates(["id"]),
        lambda rows: rows.where("v > 3").dropDuplicates(["id"]).select("id"),
    ),
    "a filter of both sides": (joined, lambda rows: joined(rows.where("v > 3"))),
    "what has no state": (lambda rows: rows.select("k"), lambda rows: rows.where("v > 3").select("v")),
    "a function after": (
        lambda rows: rows.groupBy("k").agg(functions().sum("v").alias("s")),
        lambda rows: rows.groupBy("k").agg((functions().sum("v") * 2).alias("double")),
    ),
}
REFUSED: dict[str, tuple[Make, Make, str]] = {
    "another key": (
        lambda rows: rows.groupBy("k").count(),
        lambda rows: rows.groupBy("other").count(),
        "was k, and is other",
    ),
    "another column by that name": (
        lambda rows: rows.groupBy("k").count(),
        lambda rows: rows.withColumn("k", functions().upper("other")).groupBy("k").count(),
        "was k, and is upper(other)",
    ),
    "the keys in another order": (
        lambda rows: rows.groupBy("k", "other").count(),
        lambda rows: rows.groupBy("other", "k").count(),
        "was k, other, and is other, k",
    ),
    "a generator of something else": (words, lambda rows: words(rows, "upper(k)"), "is explode(split(upper(k)"),
    "another generator": (words, lambda rows: words(rows, pattern=","), "is explode(split(k, ,"),
    "another part of a union": (united, lambda rows: united(rows, "upper(k)"), "was k, and is k | upper(k)"),
    "another width": (windows, lambda rows: windows(rows, "20 seconds"), "window(at, 20 s, 20 s, 0 s)"),
    "another slide": (windows, lambda rows: windows(rows, SECONDS, "5 seconds"), "window(at, 10 s, 5 s, 0 s)"),
    "another function": (
        lambda rows: rows.groupBy("k").agg(functions().min("v")),
        lambda rows: rows.groupBy("k").agg(functions().max("v")),
        "was min(v), and is max(v)",
    ),
    "functions in another order": (
        lambda rows: rows.groupBy("k").agg(functions().sum("v"), functions().sum("w")),
        lambda rows: rows.groupBy("k").agg(functions().sum("w"), functions().sum("v")),
        "was sum(v), sum(w), and is sum(w), sum(v)",
    ),
    "other join keys": (joined, lambda rows: joined(rows, "v"), "was id = id, and is id = v"),
    "other columns of a join": (joined, lambda rows: joined(rows, kept="other"), "columns kept of the left side"),
    "other rows are the same": (
        lambda rows: rows.dropDuplicates(["id"]),
        lambda rows: rows.dropDuplicates(["v"]),
        "deduplication keys of the deduplication: it was id, and is v",
    ),
    "one operator more": (
        lambda rows: rows.groupBy("k").count(),
        lambda rows: rows.dropDuplicates(["id"]).groupBy("k").count(),
        "stateful operators: it was aggregation, and is aggregation, deduplication",
    ),
}


@pytest.mark.parametrize("change", KEPT)
def test_what_may_change(rows: Any, change: str) -> None:
    before, now = KEPT[change]
    assert broken_rules(made(before(rows)), made(now(rows))) == []


@pytest.mark.parametrize("change", REFUSED)
def test_what_may_not(rows: Any, change: str) -> None:
    before, now, words = REFUSED[change]
    told = broken_rules(made(before(rows)), made(now(rows)))
    assert any(words in each for each in told), told


def test_another_time_zone_changes_what_depends_on_it(spark: Any, rows: Any) -> None:
    days, keys = rows.groupBy(functions().to_date("at")).count(), rows.groupBy("k").count()
    before, zone = [made(days), made(keys)], spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata" if zone != "Asia/Kolkata" else "UTC")
    try:
        told = [broken_rules(*pair) for pair in zip(before, [made(days), made(keys)], strict=True)]
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert [len(each) for each in told] == [1, 0], told
    assert "time zone of the session of the aggregation: it was" in told[0][0]


def test_settings_are_as_they_were(spark: Any, rows: Any) -> None:
    before = spark.conf.get("spark.sql.debug.maxToStringFields")
    made(rows.groupBy("k").count())
    assert spark.conf.get("spark.sql.debug.maxToStringFields") == before


def test_a_view_by_sql_is_compared_with_nothing(spark: Any, rows: Any) -> None:
    rows.createOrReplaceTempView("rows")
    frame = spark.sql("select k, count(*) from rows group by k")
    assert fingerprint(internals.streamed_plan(frame.writeStream), "complete") == ""
