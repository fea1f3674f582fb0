"""Words of the text files that come into a directory, with their counts so far: a table that is replaced with each batch.

    firesteel run examples/streaming_wordcount.py --param input=DIR --param output=RESULT_DIR

It runs until it is cancelled. With `-D execution.streaming.trigger=available-now` it reads what is there, and ends.
"""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

import firesteel as fs

pipeline = fs.Pipeline("streaming-wordcount", mode="streaming")


@pipeline.source
def lines(spark: SparkSession, input: str) -> DataFrame:
    return spark.readStream.text(input)


@pipeline.transform
def counts(lines: DataFrame) -> DataFrame:
    words = lines.select(F.explode(F.split("value", r"\s+")).alias("word")).where("word <> ''")
    return words.groupBy("word").count()


@pipeline.sink
def result(counts: DataFrame, output: Path) -> DataStreamWriter:
    def replace(batch: DataFrame, batch_id: int) -> None:
        batch.write.mode("overwrite").parquet(str(output))

    return counts.writeStream.outputMode("complete").foreachBatch(replace)
