"""TPC-H 21: suppliers of a nation who alone kept an order of several suppliers waiting."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tpch_tables import nations, table

import firesteel as fs

pipeline = fs.Pipeline("tpch-q21")


@pipeline.source
def suppliers(spark: SparkSession, tables: str) -> DataFrame:
    here = nations(spark, tables).where("n_name = 'SAUDI ARABIA'")
    found = table(spark, tables, "supplier").join(here, F.col("s_nationkey") == F.col("n_nationkey"))
    return found.select("s_suppkey", "s_name")


@pipeline.source
def orders(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "orders").where("o_orderstatus = 'F'").select("o_orderkey")


@pipeline.source
def items(spark: SparkSession, tables: str) -> DataFrame:
    is_late = F.col("l_receiptdate") > F.col("l_commitdate")
    return table(spark, tables, "lineitem").select("l_orderkey", "l_suppkey", is_late.alias("is_late"))


@pipeline.transform(
    inputs={
        "suppliers": fs.broadcast(),
        "orders": fs.hash_by("o_orderkey"),
        "items": fs.hash_by("l_orderkey"),
    }
)
def waits(suppliers: DataFrame, orders: DataFrame, items: DataFrame) -> DataFrame:
    late = items.where("is_late").alias("mine")
    ours = late.join(orders, F.col("l_orderkey") == F.col("o_orderkey"), "left_semi")
    same_order = F.col("mine.l_orderkey") == F.col("other.l_orderkey")
    another = same_order & (F.col("mine.l_suppkey") != F.col("other.l_suppkey"))
    of_several = ours.join(items.alias("other"), another, "left_semi")
    alone = of_several.join(items.where("is_late").alias("other"), another, "left_anti")
    return alone.join(suppliers, F.col("mine.l_suppkey") == F.col("s_suppkey")).select("s_name")


@pipeline.transform(inputs={"waits": fs.hash_by("s_name")})
def counts(waits: DataFrame) -> DataFrame:
    return waits.groupBy("s_name").agg(F.count("*").alias("numwait"))


@pipeline.transform(parallelism=1)
def first(counts: DataFrame) -> DataFrame:
    return counts.orderBy(F.desc("numwait"), "s_name").limit(100)


@pipeline.sink(parallelism=1)
def answer(first: DataFrame, output: str) -> None:
    fs.write_parquet(first, output)
