"""TPC-H 10: the twenty customers who have cost the most by returning items of a quarter."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tpch_tables import nations, table

import firesteel as fs

pipeline = fs.Pipeline("tpch-q10")


@pipeline.source
def customers(spark: SparkSession, tables: str) -> DataFrame:
    found = table(spark, tables, "customer").join(nations(spark, tables), F.col("c_nationkey") == F.col("n_nationkey"))
    return found.select("c_custkey", "c_name", "c_acctbal", "n_name", "c_address", "c_phone", "c_comment")


@pipeline.source
def orders(spark: SparkSession, tables: str) -> DataFrame:
    placed = table(spark, tables, "orders").where("o_orderdate >= '1993-10-01' and o_orderdate < '1994-01-01'")
    return placed.select("o_orderkey", "o_custkey")


@pipeline.source
def returned(spark: SparkSession, tables: str) -> DataFrame:
    items = table(spark, tables, "lineitem").where("l_returnflag = 'R'")
    return items.select("l_orderkey", F.expr("l_extendedprice * (1 - l_discount)").alias("volume"))


@pipeline.transform(inputs={"orders": fs.hash_by("o_orderkey"), "returned": fs.hash_by("l_orderkey")})
def losses(orders: DataFrame, returned: DataFrame) -> DataFrame:
    lost = orders.join(returned.withColumnRenamed("l_orderkey", "o_orderkey"), "o_orderkey")
    return lost.select(F.col("o_custkey").alias("c_custkey"), "volume")


@pipeline.transform(inputs={"losses": fs.hash_by("c_custkey"), "customers": fs.hash_by("c_custkey")})
def revenues(losses: DataFrame, customers: DataFrame) -> DataFrame:
    totals = losses.groupBy("c_custkey").agg(F.sum("volume").alias("revenue"))
    return totals.join(customers, on=["c_custkey"]).select(
        "c_custkey", "c_name", "revenue", "c_acctbal", "n_name", "c_address", "c_phone", "c_comment"
    )


@pipeline.transform(parallelism=1)
def first(revenues: DataFrame) -> DataFrame:
    return revenues.sort(F.col("revenue").desc()).limit(20)


@pipeline.sink(parallelism=1)
def answer(first: DataFrame, output: str) -> None:
    fs.write_parquet(first, output)
