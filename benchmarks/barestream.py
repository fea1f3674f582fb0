"""The bare side of `streaming`: the same query by PySpark alone, from a client that has its session open.

`python -m benchmarks.barestream PORT TOKEN` reads a line for each time it is to run: input, file of notes and checkpoint
directory, with tabs between. It answers with an empty line when the query has ended.
"""

import sys

from pyspark.sql import SparkSession

from benchmarks.streamjob import counts, noting, rows


def main(port: str, token: str) -> None:
    """Serve until standard input ends."""
    spark = SparkSession.builder.remote(f"sc://localhost:{port}/;token={token}").getOrCreate()
    for line in sys.stdin:
        source, notes, checkpoint = line.rstrip("\n").split("\t")
        writer = counts(rows(spark, source)).writeStream.outputMode("update").foreachBatch(noting(notes))
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        print(flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
