"""Columns of the rows that a sink writes, as lineage tells them. Spark is asked for none."""

import json
from collections.abc import Sequence
from typing import Any

COLUMNS_MAX = 1_000
"""Columns that are told: they travel with the commit, and are kept with it."""
_SPARKS_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"

Columns = tuple[tuple[str, str], ...]
"""Name, and type as Spark writes it in SQL, of each of the first columns."""


def columns_of(schema: Any) -> Columns:
    return tuple((field.name, field.dataType.simpleString()) for field in schema.fields[:COLUMNS_MAX])


def columns_in(footers: Sequence[Any] | None, keys: Sequence[str]) -> Columns:
    """Those that Spark has noted in the first of these footers, and `keys`, of which directories have the values and nobody the
    types. Empty where there is none."""
    from pyspark.sql.types import StructType

    told = (footers[0].metadata or {}).get(_SPARKS_SCHEMA) if footers else None
    if told is None:
        return ()
    return columns_of(StructType.fromJson(json.loads(told))) + tuple((key, "") for key in keys)
