"""The stream of `saving`: the last payload of each key, in RocksDB; each batch notes when it was written."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

import firesteel as fs
from benchmarks.streamjob import noting

SCHEMA = "k long, v long, payload string"

pipeline = fs.Pipeline("large-state", mode="streaming")


@pipeline.source
def rows(spark: SparkSession, input: str) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(input)


@pipeline.transform
def newest(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").agg(F.max_by("payload", "v").alias("payload"))


@pipeline.sink
def noted(newest: DataFrame, notes: str) -> DataStreamWriter:
    return newest.writeStream.outputMode("update").foreachBatch(noting(notes))
