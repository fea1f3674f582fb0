"""Buckets of stored results: Spark takes their rows for shuffled by their keys, and has to be right in that."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.functions import col, spark_partition_id

from firesteel.adapters.spark import internals
from firesteel.adapters.spark.exchange import buckets, partitions
from firesteel.adapters.spark.exchange.buckets import bucket_of
from firesteel.adapters.spark.exchange.layout import Layout
from firesteel.adapters.spark.exchange.partitions import StoredResults
from firesteel.adapters.spark.exchange.storedfiles import read_files
from firesteel.model.ids import DataSetID
from firesteel.model.tasks import ResultPartition
from tests.integration.spark.inprocess import InProcess
from tests.integration.spark.storages import CORES, always_in_buckets

pytestmark = pytest.mark.spark
BUCKETS = 2 * CORES


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> StoredResults:
    """Nothing is too small for these."""
    monkeypatch.setattr(partitions, "_SMALL_BYTES", 0)
    monkeypatch.setattr(buckets, "_BYTES_MIN", 0)
    return StoredResults(jvm_cores=CORES)


@pytest.mark.parametrize(
    "key",
    [
        *(
            "cast(id % 50 as tinyint)",
            "int(id)",
            "id",
            "float(id) / 3 - 5",
            "if(id % 2 = 0, -0.0D, 0.0D)",
            "double('NaN')",
        ),
        *("cast(id as decimal(10, 2))", "cast(id as decimal(38, 10)) / 7", "cast(id % 9 as varchar(5))", "id % 2 = 0"),
        *("string(id % 9)", "if(id % 3 = 0, null, id)", "date_add(date'2024-02-28', int(id))", "cast(null as boolean)"),
        *("timestamp_seconds(id)", "timestamp_ntz'2024-02-29 01:02:03' + make_dt_interval(id)", "make_dt_interval(id)"),
        *("make_ym_interval(0, int(id))", "binary(string(id))"),
    ],
)
def test_a_bucket_is_what_spark_would_make_a_partition_of(local: InProcess, tmp_path: Path, key: str) -> None:
    made = local.spark.range(200).selectExpr("id as c0", f"{key} as c1")
    results, where = StoredResults(jvm_cores=CORES), tmp_path / "stored"
    partition = results.store(made, str(where), DataSetID("d"), 0, layout=Layout(3, ("c1",)))
    assert partition.rows == 200
    found: set[tuple[int, ...]] = set()
    for file in where.rglob("*.rows"):
        sizes, lists = {str(file): file.stat().st_size}, tmp_path / file.parent.name / file.name
        frame = read_files(local.spark, made.schema, sizes, lists, in_order=False)
        found |= {(row.c0, bucket_of(file.name)) for row in frame.select("c0").collect()}
    theirs = made.repartition(BUCKETS, "c1").select("c0", spark_partition_id())
    assert found == {tuple(row) for row in theirs.collect()}


def joined(one: Any, other: Any) -> Any:
    return one.join(other, "k")


USES: list[tuple[Callable[[Any, Any], Any], int]] = [
    (lambda one, other: one.groupBy("k").count(), 0),
    (lambda one, other: one.groupBy("k", "t").agg({"v": "sum"}), 0),
    (lambda one, other: one.select("k", "t").distinct(), 0),
    (lambda one, other: one.groupBy(col("k").alias("key")).agg({"v": "max"}), 0),
    (joined, 0),
    (lambda one, other: joined(one.where("v % 2 = 0"), other.groupBy("k").agg({"w": "sum"})), 0),
    (lambda one, other: one.join(other, "k", "left_anti"), 0),
    (lambda one, other: one.join(other, "k", "full_outer"), 0),
    (
        lambda one, other: joined(
            one.withColumn("k", col("k").cast("int")), other.withColumn("k", col("k").cast("int"))
        ),
        2,
    ),
    (lambda one, other: joined(one, other.withColumnRenamed("k", "x").withColumnRenamed("w", "k")), 1),
    (lambda one, other: one.groupBy("t").count(), 1),
    (lambda one, other: one.repartition(3, "k").groupBy("k").count(), 1),
    (lambda one, other: one.union(one).groupBy("k").count(), 0),
]
"""What is done with two inputs that have their k in buckets, and how often Spark shuffles for it."""


@pytest.mark.parametrize(("use", "shuffles"), USES)
@pytest.mark.parametrize("share", [range(1), range(1, 2), range(2)], ids=["first", "second", "both"])
def test_what_goes_by_the_keys_of_buckets_is_not_shuffled(
    local: InProcess,
    tiny: StoredResults,
    tmp_path: Path,
    use: Callable[[Any, Any], Any],
    shuffles: int,
    share: range,
) -> None:
    whole = {
        "one": local.spark.range(3_000).selectExpr("id % 700 as k", "id as v", "string(id % 3) as t"),
        "other": local.spark.range(2_000).selectExpr("if(id % 60 = 0, null, id) as k", "id % 50 as w"),
    }
    stored: dict[str, list[ResultPartition]] = {
        name: [
            tiny.store(frame, str(tmp_path / f"{name}-{n}"), DataSetID(name), n, layout=Layout(2, ("k",)))
            for n in (0, 1)
        ]
        for name, frame in whole.items()
    }
    mine = [tiny.read(local.spark, each, share, tmp_path / f"read-{name}") for name, each in stored.items()]
    again = [local.spark.createDataFrame(frame.collect(), frame.schema) for frame in mine]
    local.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        made = use(*mine)
        plan = internals.physical_plan_of(made)
        assert plan.count("Exchange hashpartitioning") == shuffles, plan
        assert Counter(map(str, made.collect())) == Counter(map(str, use(*again).collect()))
    finally:
        local.spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def test_floats_that_are_equal_are_in_one_group(local: InProcess, tiny: StoredResults, tmp_path: Path) -> None:
    """Spark takes buckets of floats for shuffled, too: its hash is one of -0.0 and 0.0, and of every NaN."""
    zeros = "case id % 5 when 0 then 0.0D when 1 then -0.0D when 2 then double('NaN') when 3 then -double('NaN') else id end"
    made = local.spark.range(4_000).selectExpr(f"{zeros} as k", "id as v")
    with always_in_buckets():
        stored = tiny.store(made, str(tmp_path / "stored"), DataSetID("d"), 0, layout=Layout(2, ("k",)))
        read = tiny.read(local.spark, [stored], range(2), tmp_path / "read")
    assert "Exchange" not in internals.physical_plan_of(read.groupBy("k").count())
    for use in (
        lambda rows: rows.groupBy("k").count(),
        lambda rows: rows.join(rows.where("v < 9").withColumnRenamed("v", "w"), "k"),
    ):
        assert Counter(map(str, use(read).collect())) == Counter(map(str, use(made).collect()))


def test_uneven_buckets_are_read_as_other_files_are(local: InProcess, tiny: StoredResults, tmp_path: Path) -> None:
    """One core would work alone."""
    made = local.spark.range(20_000).selectExpr("if(id % 10 = 0, id, -1) as k", "uuid() as u")
    stored = tiny.store(made, str(tmp_path / "stored"), DataSetID("d"), 0, layout=Layout(2, ("k",)))
    grouped = tiny.read(local.spark, [stored], range(2), tmp_path / "read").groupBy("k").count()
    assert "Exchange hashpartitioning" in internals.physical_plan_of(grouped)
    assert grouped.count() == 2_001
