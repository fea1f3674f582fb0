"""The word count of `phases`, as a pipeline: the query of the bare side, with notes of when its functions were called."""

import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import firesteel as fs

pipeline = fs.Pipeline("phases")


@pipeline.source
def lines(spark: SparkSession, input: str, notes: str) -> DataFrame:
    note(notes)
    return spark.read.option("recursiveFileLookup", True).text(input)


@pipeline.transform
def words(lines: DataFrame) -> DataFrame:
    return lines.select(F.explode(F.split(F.make_valid_utf8("value"), r"\s+")).alias("word")).where("word <> ''")


@pipeline.transform
def counts(words: DataFrame) -> DataFrame:
    return words.groupBy("word").count()


@pipeline.sink
def result(counts: DataFrame, output: str, notes: str) -> None:
    note(notes)
    fs.write_parquet(counts, output, mode="overwrite")
    note(notes)


def note(notes: str) -> None:
    """Add a line to the file: the time in seconds."""
    with open(notes, "a") as file:
        file.write(f"{time.time()}\n")
