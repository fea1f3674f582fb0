"""TPC-H 9: profit on green parts, by the supplier's nation and year."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tpch_tables import nations, table

import firesteel as fs

pipeline = fs.Pipeline("tpch-q09")


@pipeline.source
def parts(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "part").where(F.col("p_name").contains("green")).select("p_partkey")


@pipeline.source
def suppliers(spark: SparkSession, tables: str) -> DataFrame:
    found = table(spark, tables, "supplier").join(nations(spark, tables), F.col("s_nationkey") == F.col("n_nationkey"))
    return found.select("s_suppkey", F.col("n_name").alias("nation"))


@pipeline.source
def costs(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "partsupp").select("ps_partkey", "ps_suppkey", "ps_supplycost")


@pipeline.source
def orders(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "orders").select("o_orderkey", F.year("o_orderdate").alias("o_year"))


@pipeline.source
def items(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "lineitem").select(
        "l_orderkey", "l_partkey", "l_suppkey", "l_quantity", "l_extendedprice", "l_discount"
    )


@pipeline.transform(parallelism=1)
def green(items: DataFrame, parts: DataFrame) -> DataFrame:
    return items.join(parts, items.l_partkey == parts.p_partkey, "leftsemi")


@pipeline.transform(
    inputs={
        "suppliers": fs.broadcast(),
        "costs": fs.hash_by("ps_partkey", "ps_suppkey"),
        "green": fs.hash_by("l_partkey", "l_suppkey"),
    }
)
def amounts(suppliers: DataFrame, costs: DataFrame, green: DataFrame) -> DataFrame:
    priced = green.join(costs, (green.l_suppkey == costs.ps_suppkey) & (green.l_partkey == costs.ps_partkey))
    located = priced.join(suppliers, F.col("l_suppkey") == F.col("s_suppkey"))
    amount = F.expr("l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity")
    return located.select("l_orderkey", "nation", amount.alias("amount"))


@pipeline.transform(inputs={"amounts": fs.hash_by("l_orderkey"), "orders": fs.hash_by("o_orderkey")})
def dated(amounts: DataFrame, orders: DataFrame) -> DataFrame:
    return amounts.join(orders, F.expr("l_orderkey = o_orderkey")).select("nation", "o_year", "amount")


@pipeline.transform(inputs={"dated": fs.hash_by("nation", "o_year")})
def profits(dated: DataFrame) -> DataFrame:
    return dated.groupBy("nation", "o_year").agg(F.sum("amount").alias("sum_profit"))


@pipeline.transform(parallelism=1)
def ordered(profits: DataFrame) -> DataFrame:
    return profits.orderBy(F.asc("nation"), F.desc("o_year"))


@pipeline.sink(parallelism=1)
def answer(ordered: DataFrame, output: str) -> None:
    fs.write_parquet(ordered, output)
