"""TPC-H 19: revenue of parts of three kinds, shipped by air and handed over in person."""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from tpch_tables import table

import firesteel as fs

pipeline = fs.Pipeline("tpch-q19")

SHAPES = {
    "SM": ("CASE", "BOX", "PACK", "PKG"),
    "MED": ("BAG", "BOX", "PKG", "PACK"),
    "LG": ("CASE", "BOX", "PACK", "PKG"),
}


@pipeline.source
def parts(spark: SparkSession, tables: str) -> DataFrame:
    return table(spark, tables, "part").select("p_partkey", "p_brand", "p_container", "p_size")


@pipeline.source
def items(spark: SparkSession, tables: str) -> DataFrame:
    shipped = table(spark, tables, "lineitem").where(
        "l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON'"
    )
    return shipped.select("l_partkey", "l_quantity", "l_extendedprice", "l_discount")


@pipeline.transform(inputs={"parts": fs.hash_by("p_partkey"), "items": fs.hash_by("l_partkey")})
def of_three_kinds(parts: DataFrame, items: DataFrame) -> DataFrame:
    def kind(brand: str, containers: str, quantity: int, size: int) -> Column:
        return (
            (F.col("p_brand") == brand)
            & F.col("p_container").isin(*(f"{containers} {shape}" for shape in SHAPES[containers]))
            & F.col("l_quantity").between(quantity, quantity + 10)
            & F.col("p_size").between(1, size)
        )

    same_part = F.col("p_partkey") == F.col("l_partkey")
    kinds = kind("Brand#12", "SM", 1, 5) | kind("Brand#23", "MED", 10, 10) | kind("Brand#34", "LG", 20, 15)
    return items.join(parts, same_part & kinds).select("l_extendedprice", "l_discount")


@pipeline.transform(parallelism=1)
def revenue(of_three_kinds: DataFrame) -> DataFrame:
    return of_three_kinds.agg(F.sum(F.col("l_extendedprice") * (1 - F.col("l_discount"))).alias("revenue"))


@pipeline.sink(parallelism=1)
def answer(revenue: DataFrame, output: str) -> None:
    fs.write_parquet(revenue, output)
