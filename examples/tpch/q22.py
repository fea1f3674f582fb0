"""TPC-H 22: well-off customers of some countries who have not ordered, by country."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tpch_tables import table

import firesteel as fs

pipeline = fs.Pipeline("tpch-q22")


@pipeline.source(share="recompute")
def customers(spark: SparkSession, tables: str) -> DataFrame:
    code = F.substring("c_phone", 1, 2)
    there = table(spark, tables, "customer").where(code.isin("13", "31", "23", "29", "30", "18", "17"))
    return there.select("c_custkey", "c_acctbal", code.alias("cntrycode"))


@pipeline.source
def orders(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "orders").select("o_custkey")


@pipeline.transform(parallelism=1)
def average(customers: DataFrame) -> DataFrame:
    return customers.where("c_acctbal > 0.00").agg(F.avg("c_acctbal").alias("average"))


@pipeline.transform(
    inputs={"customers": fs.hash_by("c_custkey"), "orders": fs.hash_by("o_custkey"), "average": fs.broadcast()}
)
def idle(customers: DataFrame, orders: DataFrame, average: DataFrame) -> DataFrame:
    well_off = customers.join(average, customers.c_acctbal > average.average)
    without = well_off.join(orders, well_off.c_custkey == orders.o_custkey, "left_anti")
    return without.select("cntrycode", "c_acctbal")


@pipeline.transform(inputs={"idle": fs.hash_by("cntrycode")})
def by_country(idle: DataFrame) -> DataFrame:
    return idle.groupBy("cntrycode").agg(F.count("*").alias("numcust"), F.sum("c_acctbal").alias("totacctbal"))


@pipeline.transform(parallelism=1)
def ordered(by_country: DataFrame) -> DataFrame:
    return by_country.orderBy("cntrycode")


@pipeline.sink(parallelism=1)
def answer(ordered: DataFrame, output: str) -> None:
    fs.write_parquet(ordered, output)
