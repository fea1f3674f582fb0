"""TPC-H 8: a nation's share of the market for a part type in a region, by year."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tpch_tables import nations, table

import firesteel as fs

pipeline = fs.Pipeline("tpch-q08")


@pipeline.source
def parts(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "part").where("p_type = 'ECONOMY ANODIZED STEEL'").select("p_partkey")


@pipeline.source
def suppliers(spark: SparkSession, tables: str) -> DataFrame:
    found = table(spark, tables, "supplier").join(nations(spark, tables), F.col("s_nationkey") == F.col("n_nationkey"))
    return found.select("s_suppkey", F.col("n_name").alias("nation"))


@pipeline.source
def customers(spark: SparkSession, tables: str) -> DataFrame:
    here = nations(spark, tables, region="AMERICA")
    found = table(spark, tables, "customer").join(here, F.col("c_nationkey") == F.col("n_nationkey"))
    return found.select("c_custkey")


@pipeline.source
def orders(spark: SparkSession, tables: str) -> DataFrame:
    placed = table(spark, tables, "orders").where(F.col("o_orderdate").between("1995-01-01", "1996-12-31"))
    return placed.select("o_orderkey", "o_custkey", F.year("o_orderdate").alias("o_year"))


@pipeline.source
def items(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "lineitem").select(
        "l_orderkey", "l_partkey", "l_suppkey", "l_extendedprice", "l_discount"
    )


@pipeline.transform(parallelism=1)
def sold(parts: DataFrame, suppliers: DataFrame, items: DataFrame) -> DataFrame:
    of_type = items.join(F.broadcast(parts), F.col("l_partkey") == F.col("p_partkey"))
    return of_type.join(suppliers, F.col("l_suppkey") == F.col("s_suppkey")).select(
        "l_orderkey", "nation", (F.col("l_extendedprice") * (1 - F.col("l_discount"))).alias("volume")
    )


@pipeline.transform(parallelism=1)
def placed(orders: DataFrame, customers: DataFrame) -> DataFrame:
    return orders.join(customers, F.col("o_custkey") == F.col("c_custkey"), "left_semi")


@pipeline.transform(inputs={"sold": fs.hash_by("l_orderkey"), "placed": fs.hash_by("o_orderkey")})
def sales(sold: DataFrame, placed: DataFrame) -> DataFrame:
    return sold.join(placed, F.col("l_orderkey") == F.col("o_orderkey")).select("o_year", "nation", "volume")


@pipeline.transform(inputs={"sales": fs.hash_by("o_year")})
def shares(sales: DataFrame) -> DataFrame:
    ours = F.when(F.col("nation") == "BRAZIL", F.col("volume")).otherwise(0)
    return sales.groupBy("o_year").agg((F.sum(ours) / F.sum("volume")).alias("mkt_share"))


@pipeline.transform(parallelism=1)
def ordered(shares: DataFrame) -> DataFrame:
    return shares.orderBy("o_year")


@pipeline.sink(parallelism=1)
def answer(ordered: DataFrame, output: str) -> None:
    fs.write_parquet(ordered, output)
