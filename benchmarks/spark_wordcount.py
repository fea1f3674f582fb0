"""The word count of examples/wordcount.py as one writes it without firesteel: the same query, to the letter.

`spark-submit spark_wordcount.py INPUT OUTPUT`
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def main(source: str, target: str) -> None:
    spark = SparkSession.builder.appName("wordcount").getOrCreate()
    count_words(spark, source, target)
    spark.stop()


def count_words(spark: SparkSession, source: str, target: str) -> None:
    """One query: texts in, Parquet out."""
    lines = spark.read.option("recursiveFileLookup", True).text(source)
    words = lines.select(F.explode(F.split(F.make_valid_utf8("value"), r"\s+")).alias("word")).where("word <> ''")
    words.groupBy("word").count().write.mode("overwrite").parquet(target)


if __name__ == "__main__":
    main(*sys.argv[1:])
