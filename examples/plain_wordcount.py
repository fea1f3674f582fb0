"""The word count as a plain PySpark script, which knows nothing of firesteel.

firesteel run plain_wordcount.py INPUT OUTPUT, or spark-submit plain_wordcount.py INPUT OUTPUT
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def main(source: str, target: str) -> None:
    spark = SparkSession.builder.appName("wordcount").getOrCreate()
    lines = spark.read.option("recursiveFileLookup", True).text(source)
    words = lines.select(F.explode(F.split("value", r"\s+")).alias("word")).where("word <> ''")
    words.groupBy("word").count().write.mode("overwrite").parquet(target)
    counts = spark.read.parquet(target)
    print(f"{counts.count():,} words in {target}, most often:")
    counts.orderBy(F.desc("count"), "word").show(10, truncate=False)
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
