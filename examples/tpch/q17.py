"""TPC-H 17: yearly revenue that would be lost without small orders of some parts."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tpch_tables import table

import firesteel as fs

pipeline = fs.Pipeline("tpch-q17")


@pipeline.source
def parts(spark: SparkSession, tables: str) -> DataFrame:
    found = table(spark, tables, "part").where("p_brand = 'Brand#23' and p_container = 'MED BOX'")
    return found.select("p_partkey")


@pipeline.source
def items(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "lineitem").select("l_partkey", "l_quantity", "l_extendedprice")


@pipeline.transform(share="recompute", parallelism=1)
def sold(parts: DataFrame, items: DataFrame) -> DataFrame:
    return items.join(parts, items.l_partkey == parts.p_partkey)


@pipeline.transform(inputs={"sold": fs.hash_by("p_partkey")})
def averages(sold: DataFrame) -> DataFrame:
    limit = (F.lit("0.2").cast("decimal(2,1)") * F.avg("l_quantity")).alias("limit")
    return sold.groupBy(F.col("p_partkey").alias("a_partkey")).agg(limit)


@pipeline.transform(inputs={"sold": fs.hash_by("p_partkey"), "averages": fs.forward()})
def small(sold: DataFrame, averages: DataFrame) -> DataFrame:
    both = sold.join(averages, F.col("p_partkey") == F.col("a_partkey"))
    return both.where(F.col("l_quantity") < F.col("limit")).select("l_extendedprice")


@pipeline.transform(parallelism=1)
def yearly(small: DataFrame) -> DataFrame:
    return small.agg((F.sum("l_extendedprice") / 7.0).alias("avg_yearly"))


@pipeline.sink(parallelism=1)
def answer(yearly: DataFrame, output: str) -> None:
    fs.write_parquet(yearly, output)
