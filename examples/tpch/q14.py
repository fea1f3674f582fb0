"""TPC-H 14: which part of a month's revenue came from promoted parts."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tpch_tables import table

import firesteel as fs

pipeline = fs.Pipeline("tpch-q14")


@pipeline.source
def parts(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "part").select("p_partkey", "p_type")


@pipeline.source
def items(spark: SparkSession, tables: str) -> DataFrame:
    shipped = table(spark, tables, "lineitem").where("l_shipdate >= '1995-09-01' and l_shipdate < '1995-10-01'")
    return shipped.selectExpr("l_partkey", "l_extendedprice * (1 - l_discount) as volume")


@pipeline.transform(inputs={"parts": fs.hash_by("p_partkey"), "items": fs.hash_by("l_partkey")})
def sales(parts: DataFrame, items: DataFrame) -> DataFrame:
    sold = items.join(parts, F.col("l_partkey") == F.col("p_partkey"))
    promoted = F.when(F.col("p_type").startswith("PROMO"), F.col("volume")).otherwise(0)
    return sold.select("volume", promoted.alias("promoted"))


@pipeline.transform(parallelism=1)
def promotion(sales: DataFrame) -> DataFrame:
    return sales.agg((100.00 * F.sum("promoted") / F.sum("volume")).alias("promo_revenue"))


@pipeline.sink(parallelism=1)
def answer(promotion: DataFrame, output: str) -> None:
    fs.write_parquet(promotion, output)
