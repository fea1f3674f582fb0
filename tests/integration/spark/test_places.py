"""Places that sources read, as their plans name them, and their columns: nothing is asked of Spark."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from firesteel.adapters.spark.session.columns import columns_at
from firesteel.adapters.spark.session.places import places_of
from firesteel.model.tasks import Columns
from tests.integration.spark.inprocess import InProcess

pytestmark = pytest.mark.spark


def kafka(spark: Any) -> Any:
    options = {"kafka.bootstrap.servers": "one:9092,two:9092", "subscribe": "orders, returns"}
    return spark.read.format("kafka").options(**options).load()


def jdbc(spark: Any) -> Any:
    return spark.read.jdbc("jdbc:postgresql://db/shop?password=secret", "public.orders", properties={"user": "me"})


@pytest.mark.parametrize(
    ("read", "places"),
    [
        (lambda spark: spark.read.parquet("/in/a", "/in/b"), ["/in/a", "/in/b"]),
        (lambda spark: spark.read.json("s3a://bucket/in/*").where("id > 1").union(spark.read.json("/x")),
         ["s3a://bucket/in/*", "/x"]),
        (lambda spark: spark.read.format("csv").option("PATH", "/in").load(), ["/in"]),
        (lambda spark: spark.readStream.schema("id int").csv("/arrivals").where("id > 1"), ["/arrivals"]),
        (lambda spark: spark.table("Sales.orders").join(spark.table("mine"), "id"), ["Sales.orders"]),
        (lambda spark: spark.read.table("delta.`/tables/orders`"), ["/tables/orders"]),
        (kafka, ["kafka://one:9092/orders", "kafka://one:9092/returns"]),
        (jdbc, ["jdbc:postgresql://db/shop public.orders"]),
        (lambda spark: spark.range(3), []),
        (lambda spark: spark.read.parquet(*(f"/in/{number}" for number in range(30))),
         [f"/in/{number}" for number in range(20)]),
    ],
)  # fmt: skip
def test_places_by_plan(local: InProcess, read: Callable[[Any], Any], places: list[str]) -> None:
    assert list(places_of(read(local.spark), local.spark.client, {"mine"})) == places


def written(spark: Any, top: Path) -> Any:
    """Parquet that Spark has written, in partitions."""
    spark.sql("select 1L as n, 'a' as text, 2 as day").write.partitionBy("day").parquet(f"{top}/made")
    return spark.read.parquet(f"{top}/made")


def of_others(spark: Any, top: Path) -> Any:
    """Parquet that something else has written."""
    times = pa.array([0], pa.timestamp("us", tz="UTC"))
    pyarrow.parquet.write_table(pa.table({"id": pa.array([1], pa.int32()), "at": times}), top / "others.parquet")
    return spark.read.parquet(f"file:{top}/oth*.parquet").where("id > 0")


ORDERS = "id BIGINT NOT NULL, `a,``b`: decimal(10,2) COMMENT 'net, without tax', tags map<string,array<int>>"


@pytest.mark.parametrize(
    ("read", "columns"),
    [
        (written, (("n", "bigint"), ("text", "string"), ("day", ""))),
        (of_others, (("id", "int"), ("at", "timestamp"))),
        (lambda spark, _: spark.read.schema(ORDERS).csv("/in"),
         (("id", "BIGINT"), ("a,`b", "decimal(10,2)"), ("tags", "map<string,array<int>>"))),
        (lambda spark, _: spark.readStream.schema(spark.range(1).schema).json("/in"), (("id", "bigint"),)),
        (lambda spark, _: spark.read.text("/in").selectExpr("upper(value) as line"), (("value", "string"),)),
        (lambda spark, _: spark.read.json("/in"), ()),
        (lambda spark, top: spark.read.parquet(f"{top}/nothing"), ()),
        (lambda spark, _: spark.read.schema("struct<a:int>").json("/in"), ()),
    ],
)  # fmt: skip
def test_columns_of_places(
    local: InProcess, tmp_path: Path, read: Callable[[Any, Path], Any], columns: Columns
) -> None:
    (found,) = places_of(read(local.spark, tmp_path), local.spark.client, ()).values()
    assert found == columns


def test_a_broken_file_costs_nothing_but_its_columns(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    assert columns_at(str(tmp_path / "x")) == ()
    (tmp_path / "x" / "part.parquet").write_text("no Parquet")
    assert columns_at(str(tmp_path / "x")) == ()
    assert columns_at(str(tmp_path / "none")) == ()
