"""Places that sources read, as their plans name them: nothing is asked of Spark, nothing of them is there."""

from collections.abc import Callable
from typing import Any

import pytest

from firesteel.adapters.spark.session.places import places_of
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
    assert places_of(read(local.spark), local.spark.client, {"mine"}) == places
