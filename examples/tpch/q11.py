"""TPC-H 11: the parts that make up most of a nation's stock."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tpch_tables import nations, table

import firesteel as fs

pipeline = fs.Pipeline("tpch-q11")


@pipeline.source(share="recompute")
def stock(spark: SparkSession, tables: str) -> DataFrame:
    here = nations(spark, tables).where("n_name = 'GERMANY'")
    suppliers = table(spark, tables, "supplier").join(here, F.col("s_nationkey") == F.col("n_nationkey"))
    offers = table(spark, tables, "partsupp").join(suppliers, F.col("ps_suppkey") == F.col("s_suppkey"))
    return offers.select("ps_partkey", (F.col("ps_supplycost") * F.col("ps_availqty")).alias("value"))


@pipeline.transform(parallelism=1)
def total(stock: DataFrame) -> DataFrame:
    return stock.agg(F.sum("value").alias("total"))


@pipeline.transform(inputs={"stock": fs.hash_by("ps_partkey")})
def values(stock: DataFrame) -> DataFrame:
    return stock.groupBy("ps_partkey").agg(F.sum("value").alias("value"))


@pipeline.transform(inputs={"values": fs.forward(), "total": fs.broadcast()})
def important(values: DataFrame, total: DataFrame, fraction: float = 0.0001) -> DataFrame:
    """`fraction` is 0.0001 for the tables of scale factor 1, and 0.0001 / SF for others."""
    return values.crossJoin(total).where(F.col("value") > F.col("total") * fraction).drop("total")


@pipeline.transform(parallelism=1)
def ordered(important: DataFrame) -> DataFrame:
    return important.orderBy(F.desc("value"))


@pipeline.sink(parallelism=1)
def answer(ordered: DataFrame, output: str) -> None:
    fs.write_parquet(ordered, output)
