"""TPC-H 15: the suppliers with the highest revenue of a quarter."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tpch_tables import table

import firesteel as fs

pipeline = fs.Pipeline("tpch-q15")


@pipeline.source
def items(spark: SparkSession, tables: str) -> DataFrame:
    shipped = table(spark, tables, "lineitem").where("l_shipdate >= '1996-01-01' and l_shipdate < '1996-04-01'")
    return shipped.select("l_suppkey", "l_extendedprice", "l_discount")


@pipeline.source
def suppliers(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "supplier").select("s_suppkey", "s_name", "s_address", "s_phone")


@pipeline.transform(share="recompute", inputs={"items": fs.hash_by("l_suppkey")})
def revenues(items: DataFrame) -> DataFrame:
    volume = F.col("l_extendedprice") * (1 - F.col("l_discount"))
    return items.groupBy(F.col("l_suppkey").alias("supplier_no")).agg(F.sum(volume).alias("total_revenue"))


@pipeline.transform(parallelism=1)
def highest(revenues: DataFrame) -> DataFrame:
    return revenues.agg(F.max("total_revenue").alias("highest_revenue"))


@pipeline.transform(
    inputs={"suppliers": fs.hash_by("s_suppkey"), "revenues": fs.hash_by("supplier_no"), "highest": fs.broadcast()}
)
def best(suppliers: DataFrame, revenues: DataFrame, highest: DataFrame) -> DataFrame:
    top = revenues.join(highest, revenues.total_revenue == highest.highest_revenue, "left_semi")
    found = suppliers.join(top, suppliers.s_suppkey == top.supplier_no)
    return found.select("s_suppkey", "s_name", "s_address", "s_phone", "total_revenue")


@pipeline.transform(parallelism=1)
def ordered(best: DataFrame) -> DataFrame:
    return best.orderBy("s_suppkey")


@pipeline.sink(parallelism=1)
def answer(ordered: DataFrame, output: str) -> None:
    fs.write_parquet(ordered, output)
