"""What plans of `test_shares.py` have in common. `i` has the inputs, as frames of every distribution."""

from collections.abc import Callable
from typing import Any


def F() -> Any:
    from pyspark.sql import functions

    return functions


def W() -> Any:
    from pyspark.sql import Window

    return Window


def viewed(i: Any, text: str) -> Any:
    i.hashed.createOrReplaceTempView("ta")
    i.small.createOrReplaceTempView("tiny")
    return i.spark.sql(text)


def sensitive(i: Any, made: Callable[[Any], Any]) -> Any:
    """With columns that differ in case only: `k` is a key, `K` is none."""
    i.spark.conf.set("spark.sql.caseSensitive", "true")
    return made(i.cased)


def lost(i: Any, made: Callable[[Any, Any], Any]) -> Any:
    """Columns of a frame that was joined with its own groups are dropped, so that its key is gone."""
    i.hashed = i.renamed
    r = i.hashed.groupBy(F().col("k").alias("g")).agg(F().max("v").alias("mx"))
    return made(i.hashed.join(r, i.hashed.k == r.g), r)


def counted_at_the_end(i: Any) -> Any:
    """By a function that says a thing when a partition ends."""

    class Count:
        def __init__(self) -> None:
            self.seen = 0

        def eval(self, row: Any) -> Any:
            self.seen += 1
            yield from ()

        def terminate(self) -> Any:
            yield (self.seen,)

    i.spark.udtf.register("counted", F().udtf(Count, returnType="n int"))
    return viewed(i, "select * from counted(table(ta))")


def decided(i: Any) -> Any:
    return i.hashed if i.hashed.isEmpty() or i.hashed.count() * 2 > 10 else i.hashed.where("v > 1")
