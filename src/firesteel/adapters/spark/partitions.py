"""Results that outlive their attempt: Parquet, columns by position, in a directory of the attempt's own."""

import os
from pathlib import Path
from typing import Any

from firesteel.adapters.spark import footers
from firesteel.model.ids import DataSetID
from firesteel.model.tasks import ResultPartition

SCHEMA_FILE = "_schema.json"
"""Spark's schema of the files beside it; Spark itself ignores names that begin with an underscore."""


class PartitionLost(Exception):
    """A registered result is not where it was: its producer must run again."""

    def __init__(self, location: str) -> None:
        super().__init__(f"the stored result {location} is gone")
        self.location = location


def store(frame: Any, directory: Path, dataset_id: DataSetID, subtask: int) -> ResultPartition:
    """One action: write `frame` and describe it. A frame without columns keeps its number of rows."""
    columns = tuple(frame.columns)
    by_position = frame.toDF(*(f"c{index}" for index in range(len(columns)))) if columns else _counted(frame)
    schema = by_position.schema
    by_position.write.mode("overwrite").parquet(str(directory))
    (directory / SCHEMA_FILE).write_text(schema.json())
    rows, size = footers.count(directory, _parquet_files(directory))
    return ResultPartition(
        dataset_id=dataset_id, subtask=subtask, location=str(directory), rows=rows, size_bytes=size, columns=columns
    )


def read(spark: Any, partition: ResultPartition) -> Any:
    """The stored frame, with the user's column names. Raises PartitionLost."""
    from pyspark.sql.types import StructType

    try:
        schema = StructType.fromJson(_load(Path(partition.location, SCHEMA_FILE)))
    except FileNotFoundError:
        raise PartitionLost(partition.location) from None
    frame = spark.read.schema(schema).parquet(partition.location)  # a known schema saves Spark a job
    return frame.toDF(*partition.columns) if partition.columns else frame.select()


def _counted(frame: Any) -> Any:
    from pyspark.sql import functions

    return frame.select(functions.lit(True).alias("c0"))


def _load(path: Path) -> Any:
    import json

    return json.loads(path.read_text())


def _parquet_files(directory: Path) -> list[str]:
    return sorted(name for name in os.listdir(directory) if name.endswith(".parquet"))
