"""Columns of the rows that a sink writes, as lineage tells them."""

from typing import Any

COLUMNS_MAX = 1_000
"""Columns that are told: they travel with the commit, and are kept with it."""


def columns_of(df: Any) -> tuple[tuple[str, str], ...]:
    """(name, type as Spark writes it in SQL) of each of the first columns. Asks Spark, once for a DataFrame."""
    return tuple((field.name, field.dataType.simpleString()) for field in df.schema.fields[:COLUMNS_MAX])
