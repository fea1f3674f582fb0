"""TPC-H 7: volume shipped between two nations, by year and direction."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tpch_tables import nations, table

import firesteel as fs

pipeline = fs.Pipeline("tpch-q07")


NATIONS = ("FRANCE", "GERMANY")


@pipeline.source
def suppliers(spark: SparkSession, tables: str) -> DataFrame:
    two = nations(spark, tables).where(F.col("n_name").isin(*NATIONS))
    found = table(spark, tables, "supplier").join(two, F.col("s_nationkey") == F.col("n_nationkey"))
    return found.select("s_suppkey", F.col("n_name").alias("supp_nation"))


@pipeline.source
def customers(spark: SparkSession, tables: str) -> DataFrame:
    two = nations(spark, tables).where(F.col("n_name").isin(*NATIONS))
    found = table(spark, tables, "customer").join(two, F.col("c_nationkey") == F.col("n_nationkey"))
    return found.select("c_custkey", F.col("n_name").alias("cust_nation"))


@pipeline.source
def orders(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "orders").select("o_orderkey", "o_custkey")


@pipeline.source
def items(spark: SparkSession, tables: str) -> DataFrame:
    shipped = table(spark, tables, "lineitem").where(F.col("l_shipdate").between("1995-01-01", "1996-12-31"))
    return shipped.select("l_orderkey", "l_suppkey", "l_shipdate", "l_extendedprice", "l_discount")


@pipeline.transform(parallelism=1)
def supplied(items: DataFrame, suppliers: DataFrame) -> DataFrame:
    return items.join(suppliers, items["l_suppkey"] == suppliers["s_suppkey"])


@pipeline.transform(parallelism=1)
def bought(orders: DataFrame, customers: DataFrame) -> DataFrame:
    return orders.join(customers, orders["o_custkey"] == customers["c_custkey"])


@pipeline.transform(inputs={"supplied": fs.hash_by("l_orderkey"), "bought": fs.hash_by("o_orderkey")})
def shipments(supplied: DataFrame, bought: DataFrame) -> DataFrame:
    both = supplied.join(bought, supplied["l_orderkey"] == bought["o_orderkey"])
    return both.where("supp_nation <> cust_nation").select(
        "supp_nation",
        "cust_nation",
        F.year("l_shipdate").alias("l_year"),
        (F.col("l_extendedprice") * (1 - F.col("l_discount"))).alias("volume"),
    )


@pipeline.transform(inputs={"shipments": fs.hash_by("supp_nation", "cust_nation", "l_year")})
def revenues(shipments: DataFrame) -> DataFrame:
    return shipments.groupBy("supp_nation", "cust_nation", "l_year").agg(F.sum("volume").alias("revenue"))


@pipeline.transform(parallelism=1)
def ordered(revenues: DataFrame) -> DataFrame:
    return revenues.orderBy("supp_nation", "cust_nation", "l_year")


@pipeline.sink(parallelism=1)
def answer(ordered: DataFrame, output: str) -> None:
    fs.write_parquet(ordered, output)
