"""TPC-H 1: what was ordered, discounted and charged, by return flag and status, of items shipped until a date."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tpch_tables import table

import firesteel as fs

pipeline = fs.Pipeline("tpch-q01")


@pipeline.source
def shipped(spark: SparkSession, tables: str) -> DataFrame:
    items = table(spark, tables, "lineitem").where(F.col("l_shipdate") <= F.lit("1998-09-02").cast("date"))
    return items.select("l_returnflag", "l_linestatus", "l_quantity", "l_extendedprice", "l_discount", "l_tax")


@pipeline.transform(inputs={"shipped": fs.hash_by("l_returnflag", "l_linestatus")})
def summary(shipped: DataFrame) -> DataFrame:
    discounted = F.col("l_extendedprice") * (1 - F.col("l_discount"))
    return shipped.groupBy("l_returnflag", "l_linestatus").agg(
        F.sum("l_quantity").alias("sum_qty"),
        F.sum("l_extendedprice").alias("sum_base_price"),
        F.sum(discounted).alias("sum_disc_price"),
        F.sum(discounted * (1 + F.col("l_tax"))).alias("sum_charge"),
        F.avg("l_quantity").alias("avg_qty"),
        F.avg("l_extendedprice").alias("avg_price"),
        F.avg("l_discount").alias("avg_disc"),
        F.count("*").alias("count_order"),
    )


@pipeline.transform(parallelism=1)
def ordered(summary: DataFrame) -> DataFrame:
    return summary.orderBy("l_returnflag", "l_linestatus")


@pipeline.sink(parallelism=1)
def answer(ordered: DataFrame, output: str) -> None:
    fs.write_parquet(ordered, output)
