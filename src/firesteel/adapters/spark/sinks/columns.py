"""Columns of the rows that a sink writes, as lineage tells them. Spark is asked for none."""

import json
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

COLUMNS_MAX = 1_000
"""Columns that are told: they travel with the commit, and are kept with it."""
_SPARKS_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"

Columns = tuple[tuple[str, str], ...]
"""Name, and type as Spark writes it in SQL, of each of the first columns."""


def columns_of(schema: Any) -> Columns:
    return tuple((field.name, field.dataType.simpleString()) for field in schema.fields[:COLUMNS_MAX])


def columns_in(open_file: Callable[[str], BinaryIO], files: Sequence[str], keys: Sequence[str]) -> Columns:
    """Those in the first of these Parquet files, and `keys`, of which directories have the values and nobody the types.
    Empty where there is no file, or none that can be read."""
    import pyarrow.parquet
    from pyspark.sql.types import StructType

    try:
        with open_file(files[0]) as file:
            told = pyarrow.parquet.read_metadata(file).metadata[_SPARKS_SCHEMA]
    except (IndexError, KeyError, TypeError, OSError, ValueError):  # TypeError: no metadata at all
        return ()
    return columns_of(StructType.fromJson(json.loads(told))) + tuple((key, "") for key in keys)
