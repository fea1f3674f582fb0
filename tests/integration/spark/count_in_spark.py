"""Counts words by the functions of the example; as a program, in a Spark session without Spark Connect, as JSON."""

import json
import os
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

EXAMPLE = Path(__file__).parents[3] / "examples" / "wordcount.py"


def counted(spark: Any, tree: str | os.PathLike[str]) -> dict[str, int]:
    wordcount = SimpleNamespace(**runpy.run_path(str(EXAMPLE)))
    rows = wordcount.counts(wordcount.words(wordcount.lines(spark, os.fspath(tree)))).collect()
    return {row["word"]: row["count"] for row in rows}


def main(trees: list[str]) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    found = [counted(spark, tree) for tree in trees]
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
