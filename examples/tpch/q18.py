"""TPC-H 18: the customers who placed the largest orders."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tpch_tables import table

import firesteel as fs

pipeline = fs.Pipeline("tpch-q18")


@pipeline.source
def customers(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "customer").select("c_custkey", "c_name")


@pipeline.source
def orders(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "orders").select("o_orderkey", "o_custkey", "o_orderdate", "o_totalprice")


@pipeline.source(share="recompute")
def items(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "lineitem").select("l_orderkey", "l_quantity")


@pipeline.transform(inputs={"items": fs.hash_by("l_orderkey")})
def large(items: DataFrame) -> DataFrame:
    return (
        items.groupBy("l_orderkey").agg(F.sum("l_quantity").alias("quantity")).where("quantity > 300").drop("quantity")
    )


@pipeline.transform(
    inputs={
        "customers": fs.broadcast(),
        "orders": fs.hash_by("o_orderkey"),
        "items": fs.hash_by("l_orderkey"),
        "large": fs.forward(),
    }
)
def quantities(customers: DataFrame, orders: DataFrame, items: DataFrame, large: DataFrame) -> DataFrame:
    found = orders.join(large, orders.o_orderkey == large.l_orderkey, "left_semi")
    named = found.join(customers, F.col("c_custkey") == F.col("o_custkey"))
    bought = named.join(items, F.col("o_orderkey") == F.col("l_orderkey"))
    keys = ("c_name", "c_custkey", "o_orderkey", "o_orderdate", "o_totalprice")
    return bought.groupBy(*keys).agg(F.sum("l_quantity").alias("sum_qty"))


@pipeline.transform(parallelism=1)
def first(quantities: DataFrame) -> DataFrame:
    return quantities.orderBy(F.desc("o_totalprice"), "o_orderdate").limit(100)


@pipeline.sink(parallelism=1)
def answer(first: DataFrame, output: str) -> None:
    fs.write_parquet(first, output)
