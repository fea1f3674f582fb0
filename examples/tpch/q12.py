"""TPC-H 12: items that came late by two ship modes, counted by whether their order was urgent."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tpch_tables import table

import firesteel as fs

pipeline = fs.Pipeline("tpch-q12")


@pipeline.source
def orders(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "orders").select("o_orderkey", "o_orderpriority")


@pipeline.source
def late_items(spark: SparkSession, tables: str) -> DataFrame:
    items = table(spark, tables, "lineitem").where(F.col("l_shipmode").isin("MAIL", "SHIP"))
    late = items.where("l_commitdate < l_receiptdate and l_shipdate < l_commitdate")
    return late.where("l_receiptdate >= '1994-01-01' and l_receiptdate < '1995-01-01'").select(
        "l_orderkey", "l_shipmode"
    )


@pipeline.transform(inputs={"orders": fs.hash_by("o_orderkey"), "late_items": fs.hash_by("l_orderkey")})
def late(orders: DataFrame, late_items: DataFrame) -> DataFrame:
    found = orders.join(late_items, orders.o_orderkey == late_items.l_orderkey)
    urgent = F.col("o_orderpriority").isin("1-URGENT", "2-HIGH")
    return found.select("l_shipmode", F.when(urgent, 1).otherwise(0).alias("is_urgent"))


@pipeline.transform(inputs={"late": fs.hash_by("l_shipmode")})
def counts(late: DataFrame) -> DataFrame:
    return late.groupBy("l_shipmode").agg(
        F.sum("is_urgent").alias("high_line_count"), F.sum(1 - F.col("is_urgent")).alias("low_line_count")
    )


@pipeline.transform(parallelism=1)
def ordered(counts: DataFrame) -> DataFrame:
    return counts.orderBy("l_shipmode")


@pipeline.sink(parallelism=1)
def answer(ordered: DataFrame, output: str) -> None:
    fs.write_parquet(ordered, output)
