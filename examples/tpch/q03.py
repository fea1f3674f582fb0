"""TPC-H 3: the ten orders of a market segment with the highest revenue not shipped on a date."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tpch_tables import table

import firesteel as fs

pipeline = fs.Pipeline("tpch-q03")


@pipeline.source
def customers(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "customer").where("c_mktsegment = 'BUILDING'").select("c_custkey")


@pipeline.source
def orders(spark: SparkSession, tables: str) -> DataFrame:
    placed = table(spark, tables, "orders").where("o_orderdate < date '1995-03-15'")
    return placed.select("o_orderkey", "o_custkey", "o_orderdate", "o_shippriority")


@pipeline.source
def items(spark: SparkSession, tables: str) -> DataFrame:
    unshipped = table(spark, tables, "lineitem").where("l_shipdate > date '1995-03-15'")
    return unshipped.select("l_orderkey", "l_extendedprice", "l_discount")


@pipeline.transform(parallelism=1)
def theirs(customers: DataFrame, orders: DataFrame) -> DataFrame:
    return customers.join(orders, F.col("c_custkey") == F.col("o_custkey"))


@pipeline.transform(inputs={"theirs": fs.hash_by("o_orderkey"), "items": fs.hash_by("l_orderkey")})
def revenues(theirs: DataFrame, items: DataFrame) -> DataFrame:
    bought = theirs.join(items, F.col("l_orderkey") == F.col("o_orderkey"))
    return bought.groupBy("l_orderkey", "o_orderdate", "o_shippriority").agg(
        F.sum(F.expr("l_extendedprice * (1 - l_discount)")).alias("revenue")
    )


@pipeline.transform(parallelism=1)
def first(revenues: DataFrame) -> DataFrame:
    columns = revenues.select("l_orderkey", "revenue", "o_orderdate", "o_shippriority")
    return columns.orderBy(F.desc("revenue"), "o_orderdate").limit(10)


@pipeline.sink(parallelism=1)
def answer(first: DataFrame, output: str) -> None:
    fs.write_parquet(first, output)
