"""The bare side of `warm`: the same query by PySpark alone, from a client that has its session open.

`python -m benchmarks.bare PORT TOKEN` reads an input and an output directory a line, with a tab between, and answers
with the seconds that the query took. With a further argument, `new-sessions`, each query has a session of its own, and
the seconds are those of both.
"""

import sys
import time

from pyspark.sql import SparkSession

from benchmarks.spark_wordcount import count_words

NEW_SESSIONS = "new-sessions"


def main(port: str, token: str, *settings: str) -> None:
    """Serve until standard input ends."""
    # By the name "localhost" a token goes without TLS.
    builder = SparkSession.builder.remote(f"sc://localhost:{port}/;token={token}")
    spark = builder.getOrCreate()
    for line in sys.stdin:
        source, output = line.rstrip("\n").split("\t")
        started = time.perf_counter()
        session = builder.create() if NEW_SESSIONS in settings else spark
        count_words(session, source, output)
        print(time.perf_counter() - started, flush=True)
        if session is not spark:
            session.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
