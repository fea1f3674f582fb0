"""TPC-H 13: customers by the number of their orders, those without any among them."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tpch_tables import table

import firesteel as fs

pipeline = fs.Pipeline("tpch-q13")


@pipeline.source
def customers(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "customer").select("c_custkey")


@pipeline.source
def orders(spark: SparkSession, tables: str) -> DataFrame:
    plain = table(spark, tables, "orders").where(~F.col("o_comment").like("%special%requests%"))
    return plain.select("o_orderkey", "o_custkey")


@pipeline.transform(inputs={"customers": fs.hash_by("c_custkey"), "orders": fs.hash_by("o_custkey")})
def order_counts(customers: DataFrame, orders: DataFrame) -> DataFrame:
    theirs = customers.alias("c").join(orders.alias("o"), F.col("c.c_custkey") == F.col("o.o_custkey"), "left")
    return theirs.groupBy("c.c_custkey").agg(F.count("o.o_orderkey").alias("c_count"))


@pipeline.transform(inputs={"order_counts": fs.hash_by("c_count")})
def distribution(order_counts: DataFrame) -> DataFrame:
    return order_counts.groupBy("c_count").count().withColumnRenamed("count", "custdist")


@pipeline.transform(parallelism=1)
def ordered(distribution: DataFrame) -> DataFrame:
    return distribution.orderBy("custdist", "c_count", ascending=[False, False])


@pipeline.sink(parallelism=1)
def answer(ordered: DataFrame, output: str) -> None:
    fs.write_parquet(ordered, output)
