"""The bare side of `warm`: the same query by PySpark alone, from a client that has its session open.

`python -m benchmarks.bare PORT TOKEN` reads an input and an output directory a line, with a tab between, and answers
with the seconds that the query took.
"""

import sys
import time

from pyspark.sql import SparkSession

from benchmarks.spark_wordcount import count_words


def main(port: str, token: str) -> None:
    """Serve until standard input ends."""
    # By the name "localhost" a token goes without TLS.
    spark = SparkSession.builder.remote(f"sc://localhost:{port}/;token={token}").getOrCreate()
    for line in sys.stdin:
        source, output = line.rstrip("\n").split("\t")
        started = time.perf_counter()
        count_words(spark, source, output)
        print(time.perf_counter() - started, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
