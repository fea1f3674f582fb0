"""Orders joined with their customers: revenue by country, and the customers who ordered nothing.

    firesteel run examples/join.py --param orders=ORDERS_DIR --param customers=CUSTOMERS_DIR --param output=RESULT_DIR

Both inputs are CSV with a header: orders (customer_id, amount), customers (customer_id, country).
The joined data set has two consumers, so it is computed and stored once, and each sink reads it:
when one sink fails, only that sink runs again.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import firesteel as fs

pipeline = fs.Pipeline("join")


@pipeline.source
def order_lines(spark: SparkSession, orders: str) -> DataFrame:
    return spark.read.csv(orders, header=True, schema="customer_id bigint, amount decimal(18,2)")


@pipeline.source
def customer_list(spark: SparkSession, customers: str) -> DataFrame:
    return spark.read.csv(customers, header=True, schema="customer_id bigint, country string")


@pipeline.transform
def joined(order_lines: DataFrame, customer_list: DataFrame) -> DataFrame:
    return customer_list.join(order_lines, "customer_id", "left")


@pipeline.transform
def revenue(joined: DataFrame, minimum: float = 0.0) -> DataFrame:
    totals = joined.groupBy("country").agg(F.sum("amount").alias("revenue"))
    return totals.where(F.col("revenue") >= minimum)


@pipeline.sink
def revenue_by_country(revenue: DataFrame, output: str) -> None:
    fs.write_parquet(revenue, f"{output}/revenue", mode="overwrite")


@pipeline.sink
def customers_without_orders(joined: DataFrame, output: str) -> None:
    idle = joined.where(F.col("amount").isNull()).select("customer_id", "country")
    fs.write_parquet(idle, f"{output}/without_orders", mode="overwrite")
