"""TPC-H 16: how many suppliers without complaints offer parts of a kind."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tpch_tables import table

import firesteel as fs

pipeline = fs.Pipeline("tpch-q16")


@pipeline.source
def parts(spark: SparkSession, tables: str) -> DataFrame:
    wanted = table(spark, tables, "part").where(
        (F.col("p_brand") != "Brand#45")
        & ~F.col("p_type").startswith("MEDIUM POLISHED")
        & F.col("p_size").isin(49, 14, 23, 45, 19, 3, 36, 9)
    )
    return wanted.select("p_partkey", "p_brand", "p_type", "p_size")


@pipeline.source
def offers(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "partsupp").select("ps_partkey", "ps_suppkey")


@pipeline.source
def complaints(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "supplier").where("s_comment like '%Customer%Complaints%'").select("s_suppkey")


@pipeline.transform(
    inputs={"parts": fs.hash_by("p_partkey"), "offers": fs.hash_by("ps_partkey"), "complaints": fs.broadcast()}
)
def wanted(parts: DataFrame, offers: DataFrame, complaints: DataFrame) -> DataFrame:
    good = offers.join(complaints, F.col("ps_suppkey") == F.col("s_suppkey"), "left_anti")
    return good.join(parts, F.col("p_partkey") == F.col("ps_partkey"))


@pipeline.transform(inputs={"wanted": fs.hash_by("p_brand", "p_type", "p_size")})
def counts(wanted: DataFrame) -> DataFrame:
    return wanted.groupBy("p_brand", "p_type", "p_size").agg(F.countDistinct("ps_suppkey").alias("supplier_cnt"))


@pipeline.transform(parallelism=1)
def ordered(counts: DataFrame) -> DataFrame:
    return counts.orderBy(F.desc("supplier_cnt"), "p_brand", "p_type", "p_size")


@pipeline.sink(parallelism=1)
def answer(ordered: DataFrame, output: str) -> None:
    fs.write_parquet(ordered, output)
