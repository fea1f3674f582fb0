"""TPC-H 4: orders of a quarter with an item that came late, counted by priority."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tpch_tables import table

import firesteel as fs

pipeline = fs.Pipeline("tpch-q04")


@pipeline.source
def orders(spark: SparkSession, tables: str) -> DataFrame:
    placed = table(spark, tables, "orders").where("o_orderdate >= '1993-07-01' and o_orderdate < '1993-10-01'")
    return placed.select("o_orderkey", "o_orderpriority")


@pipeline.source
def late_items(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "lineitem").where("l_commitdate < l_receiptdate").select("l_orderkey")


@pipeline.transform(inputs={"orders": fs.hash_by("o_orderkey"), "late_items": fs.hash_by("l_orderkey")})
def late_orders(orders: DataFrame, late_items: DataFrame) -> DataFrame:
    return orders.join(late_items, orders["o_orderkey"] == late_items["l_orderkey"], "left_semi")


@pipeline.transform(inputs={"late_orders": fs.hash_by("o_orderpriority")})
def counts(late_orders: DataFrame) -> DataFrame:
    return late_orders.groupBy("o_orderpriority").agg(F.count("*").alias("order_count"))


@pipeline.transform(parallelism=1)
def ordered(counts: DataFrame) -> DataFrame:
    return counts.orderBy("o_orderpriority")


@pipeline.sink(parallelism=1)
def answer(ordered: DataFrame, output: str) -> None:
    fs.write_parquet(ordered, output)
