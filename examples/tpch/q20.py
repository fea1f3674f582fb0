"""TPC-H 20: suppliers of a nation with more forest parts than they sell in half a year."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tpch_tables import nations, table

import firesteel as fs

pipeline = fs.Pipeline("tpch-q20")


@pipeline.source
def parts(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "part").where("p_name like 'forest%'").select("p_partkey")


@pipeline.source
def offers(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "partsupp").select("ps_partkey", "ps_suppkey", "ps_availqty")


@pipeline.source
def items(spark: SparkSession, tables: str) -> DataFrame:
    shipped = table(spark, tables, "lineitem").where("l_shipdate >= '1994-01-01' and l_shipdate < '1995-01-01'")
    return shipped.select("l_partkey", "l_suppkey", "l_quantity")


@pipeline.source
def suppliers(spark: SparkSession, tables: str) -> DataFrame:
    here = nations(spark, tables).where("n_name = 'CANADA'")
    found = table(spark, tables, "supplier").join(here, F.col("s_nationkey") == F.col("n_nationkey"))
    return found.select("s_suppkey", "s_name", "s_address")


@pipeline.transform(parallelism=1)
def forest(offers: DataFrame, parts: DataFrame) -> DataFrame:
    return offers.join(parts, offers.ps_partkey == parts.p_partkey, "left_semi")


@pipeline.transform(
    inputs={"forest": fs.hash_by("ps_suppkey", "ps_partkey"), "items": fs.hash_by("l_suppkey", "l_partkey")}
)
def surplus(forest: DataFrame, items: DataFrame) -> DataFrame:
    sold = items.groupBy("l_partkey", "l_suppkey").agg((F.sum("l_quantity") * 0.5).alias("half"))
    same = (forest.ps_partkey == sold.l_partkey) & (forest.ps_suppkey == sold.l_suppkey)
    return forest.join(sold, same).where("ps_availqty > half").select("ps_suppkey")


@pipeline.transform(inputs={"suppliers": fs.hash_by("s_suppkey"), "surplus": fs.hash_by("ps_suppkey")})
def with_surplus(suppliers: DataFrame, surplus: DataFrame) -> DataFrame:
    found = suppliers.join(surplus.distinct(), F.col("s_suppkey") == F.col("ps_suppkey"), "left_semi")
    return found.select("s_name", "s_address")


@pipeline.transform(parallelism=1)
def ordered(with_surplus: DataFrame) -> DataFrame:
    return with_surplus.orderBy("s_name")


@pipeline.sink(parallelism=1)
def answer(ordered: DataFrame, output: str) -> None:
    fs.write_parquet(ordered, output)
