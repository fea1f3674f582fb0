"""TPC-H 6: what small discounts on small quantities have cost in a year."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tpch_tables import table

import firesteel as fs

pipeline = fs.Pipeline("tpch-q06")


@pipeline.source
def discounted(spark: SparkSession, tables: str) -> DataFrame:
    items = table(spark, tables, "lineitem").where(
        (F.col("l_shipdate") >= "1994-01-01")
        & (F.col("l_shipdate") < "1995-01-01")
        & F.col("l_discount").between(F.lit("0.05").cast("decimal(15,2)"), F.lit("0.07").cast("decimal(15,2)"))
        & (F.col("l_quantity") < 24)
    )
    return items.select("l_extendedprice", "l_discount")


@pipeline.transform(inputs={"discounted": fs.rebalance()}, per_share=True)
def parts(discounted: DataFrame) -> DataFrame:
    """A sum for each share: they are summed up behind it."""
    return discounted.agg(F.sum(F.col("l_extendedprice") * F.col("l_discount")).alias("part"))


@pipeline.transform(parallelism=1)
def total(parts: DataFrame) -> DataFrame:
    return parts.agg(F.sum("part").alias("revenue"))


@pipeline.sink(parallelism=1)
def answer(total: DataFrame, output: str) -> None:
    fs.write_parquet(total, output)
