"""The word count as one writes it without firesteel: `spark-submit spark_wordcount.py INPUT OUTPUT`."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def main(source: str, target: str) -> None:
    spark = SparkSession.builder.appName("wordcount").getOrCreate()
    count_words(spark, source, target)
    spark.stop()


def count_words(spark: SparkSession, source: str, target: str) -> None:
    """One query: texts in, Parquet out."""
    words = spark.read.text(source).select(F.explode(F.split("value", r"[ \t\r\n\f]+")).alias("word"))
    words.where("word <> ''").groupBy("word").count().write.mode("overwrite").parquet(target)


if __name__ == "__main__":
    main(*sys.argv[1:])
