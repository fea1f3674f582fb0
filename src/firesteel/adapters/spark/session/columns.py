"""Columns of what a sink writes or a source reads, as lineage tells them. Spark is asked for the types of partitions only."""

import glob
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from firesteel.model.tasks import Columns

COLUMNS_MAX = 1_000
"""Columns of a place that are told: they travel with what an attempt leaves behind, and are kept with it."""
_SPARKS_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_MARK = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[<(>),]", re.DOTALL)
_FIELD = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^\s:`<>(),]+))(?:\s*:\s*|\s+)"
    r"(?P<type>.+?)(?:\s+(?:not\s+null|comment|default)\b.*)?\s*",
    re.DOTALL | re.IGNORECASE,
)


def columns_of(schema: Any) -> Columns:
    """Of a StructType."""
    return tuple((field.name, field.dataType.simpleString()) for field in schema.fields[:COLUMNS_MAX])


def columns_declared(schema: str) -> Columns:
    """Of a schema as a reader is given it: JSON, or DDL, whose types are told as they are written."""
    from pyspark.sql.types import StructType

    if schema.startswith("{"):
        return columns_of(StructType.fromJson(json.loads(schema)))
    found = [_FIELD.fullmatch(text) for text in _fields(schema)]
    told = [((each["quoted"] or "").replace("``", "`") or each["plain"], each["type"]) for each in found if each]
    return tuple(told[:COLUMNS_MAX]) if len(told) == len(found) else ()


def columns_in(footer: Any, keys: Sequence[str], schema_of: Callable[[], Any] | None = None) -> Columns:
    """Of a Parquet file: as Spark has noted them, else by its own types; and behind them `keys`, the columns of partitions.
    Of those directories have the values, and the rows' schema, which `schema_of` gives, the types; without it nobody has. A
    file that was written without rows has them itself."""
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    told = (footer.metadata or {}).get(_SPARKS_SCHEMA)
    if told is not None:
        schema = StructType.fromJson(json.loads(told))
    else:
        schema = from_arrow_schema(footer.schema.to_arrow_schema())
    found, wanted = columns_of(schema), {key.lower() for key in keys}
    types = {name.lower(): kind for name, kind in found if name.lower() in wanted}
    if len(types) < len(wanted) and schema_of is not None:
        types = {field.name.lower(): field.dataType.simpleString() for field in schema_of().fields}
    rest = tuple(each for each in found if each[0].lower() not in wanted)
    return rest + tuple((key, types.get(key.lower(), "")) for key in keys)


def columns_at(path: str) -> Columns:
    """Of Parquet files of this machine, as one of them has them. Empty where there is none, or it can't be read."""
    import pyarrow.parquet
    from pyspark.errors import PySparkException

    try:
        top = next(glob.iglob(path), "")
        file = _first_file(top) if top else ""
        if not file:
            return ()
        steps = os.path.relpath(os.path.dirname(file), top).split(os.sep)
        return columns_in(pyarrow.parquet.read_metadata(file), [step.split("=")[0] for step in steps if "=" in step])
    except (OSError, ValueError, PySparkException):
        return ()


def _first_file(path: str) -> str:
    """The file that is found first at or below `path`, by Spark's rule for what is data; empty where there is none."""
    if os.path.isfile(path):
        return path
    with os.scandir(path) as entries:
        data = (each for each in entries if each.name[0] != "." and (each.name[0] != "_" or "=" in each.name))
        return next(filter(None, (_first_file(each.path) for each in data)), "")


def _fields(ddl: str) -> Iterator[str]:
    """What is between the commas of a list of columns."""
    depth = start = 0
    for mark in _MARK.finditer(ddl):
        if mark[0] in "<(":
            depth += 1
        elif mark[0] in ">)":
            depth -= 1
        elif mark[0] == "," and depth == 0:
            yield ddl[start : mark.start()]
            start = mark.end()
    yield ddl[start:]
