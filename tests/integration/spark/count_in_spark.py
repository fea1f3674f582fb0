"""Run by test_wordcount: counts the words of each argument's tree in one Spark session, as JSON."""

import json
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[2] / "examples" / "wordcount.py"


def main(kind: str, inputs: list[str]) -> None:
    builder = SparkSession.builder.remote("local[2]") if kind == "connect" else SparkSession.builder.master("local[2]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.pyspark.python": sys.executable,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    wordcount = SimpleNamespace(**runpy.run_path(str(EXAMPLE)))
    found = []
    for path in inputs:
        rows = wordcount.counts(wordcount.words(wordcount.lines(spark, path))).collect()
        found.append({row["word"]: row["count"] for row in rows})
    spark.stop()
    print(json.dumps(found))


main(sys.argv[1], sys.argv[2:])
