"""The stream of `streaming`, as a pipeline: rows counted by key, one file a batch; each batch notes when it was written."""

import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

import firesteel as fs

SCHEMA = "id long, k long, v long"

pipeline = fs.Pipeline("stream", mode="streaming")


@pipeline.source
def rows(spark: SparkSession, input: str) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(input)


@pipeline.transform
def counts(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("total"))


@pipeline.sink
def noted(counts: DataFrame, notes: str) -> DataStreamWriter:
    return counts.writeStream.outputMode("update").foreachBatch(noting(notes))


def noting(notes: str) -> Any:
    """A writer of batches that adds a line, the time in seconds, to the file."""

    def note(batch: DataFrame, number: int) -> None:
        batch.write.format("noop").mode("overwrite").save()
        with open(notes, "a") as file:
            file.write(f"{time.time()}\n")

    return note
