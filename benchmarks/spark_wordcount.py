"""The word count as one writes it without firesteel: `spark-submit spark_wordcount.py INPUT OUTPUT`."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def main(source: str, target: str) -> None:
    spark = SparkSession.builder.appName("wordcount").getOrCreate()
    words = spark.read.text(source).select(F.explode(F.split("value", r"[ \t\r\n\f]+")).alias("word"))
    words.where("word <> ''").groupBy("word").count().write.mode("overwrite").parquet(target)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
