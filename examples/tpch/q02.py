"""TPC-H 2: for each brass part of a size, the European suppliers that offer it at the lowest price."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tpch_tables import nations, table

import firesteel as fs

pipeline = fs.Pipeline("tpch-q02")


@pipeline.source
def parts(spark: SparkSession, tables: str) -> DataFrame:
    brass = table(spark, tables, "part").where("p_size = 15 and p_type like '%BRASS'")
    return brass.select("p_partkey", "p_mfgr")


@pipeline.source
def offers(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "partsupp").select("ps_partkey", "ps_suppkey", "ps_supplycost")


@pipeline.source
def suppliers(spark: SparkSession, tables: str) -> DataFrame:
    here = nations(spark, tables, region="EUROPE")
    return table(spark, tables, "supplier").join(here, F.col("s_nationkey") == F.col("n_nationkey"))


@pipeline.transform(parallelism=1)
def offered(parts: DataFrame, offers: DataFrame) -> DataFrame:
    return parts.join(offers, parts.p_partkey == offers.ps_partkey)


@pipeline.transform(share="recompute", inputs={"offered": fs.hash_by("p_partkey"), "suppliers": fs.broadcast()})
def candidates(offered: DataFrame, suppliers: DataFrame) -> DataFrame:
    return offered.join(suppliers, offered.ps_suppkey == suppliers.s_suppkey)


@pipeline.transform(inputs={"candidates": fs.forward()})
def lowest(candidates: DataFrame) -> DataFrame:
    return candidates.groupBy(F.col("p_partkey").alias("part")).agg(F.min("ps_supplycost").alias("lowest_cost"))


@pipeline.transform(inputs={"candidates": fs.forward(), "lowest": fs.forward()})
def cheapest(candidates: DataFrame, lowest: DataFrame) -> DataFrame:
    same_part = candidates["p_partkey"] == lowest["part"]
    found = candidates.join(lowest, same_part & (candidates["ps_supplycost"] == lowest["lowest_cost"]))
    return found.select("s_acctbal", "s_name", "n_name", "p_partkey", "p_mfgr", "s_address", "s_phone", "s_comment")


@pipeline.transform(parallelism=1)
def first(cheapest: DataFrame) -> DataFrame:
    return cheapest.orderBy(F.desc("s_acctbal"), "n_name", "s_name", "p_partkey").limit(100)


@pipeline.sink(parallelism=1)
def answer(first: DataFrame, output: str) -> None:
    fs.write_parquet(first, output)
