"""The TPC-H tables as `tpchgen-cli --format parquet --output-dir TABLES` writes them."""

from pyspark.sql import DataFrame, SparkSession


def table(spark: SparkSession, tables: str, name: str) -> DataFrame:
    """One of the eight tables."""
    return spark.read.parquet(f"{tables}/{name}.parquet")


def nations(spark: SparkSession, tables: str, region: str = "") -> DataFrame:
    """The nations (n_nationkey, n_name), of one region or all."""
    found = table(spark, tables, "nation")
    if region:
        here = table(spark, tables, "region").where(f"r_name = '{region}'")
        found = found.join(here, found.n_regionkey == here.r_regionkey)
    return found.select("n_nationkey", "n_name")
