"""TPC-H 5: revenue in a region where customer and supplier are of one nation, by nation."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tpch_tables import nations, table

import firesteel as fs

pipeline = fs.Pipeline("tpch-q05")


@pipeline.source
def customers(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "customer").select("c_custkey", "c_nationkey")


@pipeline.source
def suppliers(spark: SparkSession, tables: str) -> DataFrame:
    here = nations(spark, tables, region="ASIA")
    local = table(spark, tables, "supplier").join(here, F.col("s_nationkey") == F.col("n_nationkey"))
    return local.select("s_suppkey", "s_nationkey", "n_name")


@pipeline.source
def orders(spark: SparkSession, tables: str) -> DataFrame:
    placed = table(spark, tables, "orders").where("o_orderdate >= '1994-01-01' and o_orderdate < '1995-01-01'")
    return placed.select("o_orderkey", "o_custkey")


@pipeline.source
def items(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "lineitem").select("l_orderkey", "l_suppkey", "l_extendedprice", "l_discount")


@pipeline.transform(
    inputs={
        "customers": fs.broadcast(),
        "suppliers": fs.broadcast(),
        "orders": fs.hash_by("o_orderkey"),
        "items": fs.hash_by("l_orderkey"),
    }
)
def sales(customers: DataFrame, suppliers: DataFrame, orders: DataFrame, items: DataFrame) -> DataFrame:
    sold = orders.join(items, orders.o_orderkey == items.l_orderkey)
    bought = sold.join(customers, sold.o_custkey == customers.c_custkey)
    local = (bought.l_suppkey == suppliers.s_suppkey) & (bought.c_nationkey == suppliers.s_nationkey)
    return bought.join(suppliers, local).selectExpr("n_name", "l_extendedprice * (1 - l_discount) as volume")


@pipeline.transform(inputs={"sales": fs.hash_by("n_name")})
def revenues(sales: DataFrame) -> DataFrame:
    return sales.groupBy("n_name").agg(F.sum("volume").alias("revenue"))


@pipeline.transform(parallelism=1)
def ordered(revenues: DataFrame) -> DataFrame:
    return revenues.orderBy(F.desc("revenue"))


@pipeline.sink(parallelism=1)
def answer(ordered: DataFrame, output: str) -> None:
    fs.write_parquet(ordered, output)
