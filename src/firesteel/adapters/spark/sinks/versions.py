"""Versioned tables (Delta, Iceberg) by Spark's own means: found, made, written to."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from firesteel.adapters.spark.refusals import SinkRefused
from firesteel.adapters.spark.sinks import catalog
from firesteel.adapters.spark.sinks.catalog import (
    MADE_BY,
    SESSION_CATALOG,
    TableName,
    first_line,
    partition_column,
    quoted,
    whole_name,
)

FORMATS = ("delta", "iceberg")
DYNAMIC = "overwrite-partitions"
_NOT_THERE = (
    "TABLE_OR_VIEW_NOT_FOUND",
    "SCHEMA_NOT_FOUND",
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
)
EXISTS = ("TABLE_OR_VIEW_ALREADY_EXISTS", "DELTA_TABLE_ALREADY_EXISTS", "DELTA_PATH_EXISTS")
_PARTITIONS = ("# Partition Information", "# Partitioning")
_NO_CLASS = ("CANNOT_LOAD_CATALOG.PLUGIN_CLASS_NOT_FOUND", "Cannot find catalog plugin class")
_NOT_LINKED = re.compile(r"not an interface|but class was expected|but interface was expected|<init>\(|NoSuchMethod")
"""What a JVM says of a jar that was compiled for another version of Spark."""


class VersionedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table, there or to be made."""

    name: str
    """Full name as SQL takes it."""
    format: str
    exists: bool
    location: str = ""
    partitioning: tuple[str, ...] = ()
    """Columns, or transforms of columns."""
    made_by: str = ""


def described(spark: Any, name: TableName) -> VersionedTable | None:
    """The table that is there, of whatever format. Raises SinkRefused where its catalog can't be opened."""
    from pyspark.errors import PySparkException

    try:
        if not _is_there(spark, name):
            return None
        rows = [tuple(row)[:2] for row in spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()]
    except PySparkException as error:
        if error.getCondition() in _NOT_THERE:
            return None
        raise _unusable(spark, name, error) from None
    details = {str(key): str(value) for key, value in rows if key and value}
    made_by = re.search(rf"[\[,]{re.escape(MADE_BY)}=(\w+)", details.get("Table Properties", ""))
    return VersionedTable(
        name=str(name),
        format=details.get("Provider", "").lower(),
        exists=True,
        location=details.get("Location", ""),
        partitioning=_partitioning(rows),
        made_by=made_by[1] if made_by else "",
    )


def _is_there(spark: Any, name: TableName) -> bool:
    """Asked first, since PySpark logs every query that fails."""
    if name.catalog:
        return bool(spark.catalog.tableExists(str(name)))
    return Path(urlsplit(name.table).path, "_delta_log").is_dir()


def found(spark: Any, name: str) -> VersionedTable | None:
    """As `described`, by the full name as SQL takes it."""
    return described(spark, whole_name(spark, name))


def _partitioning(rows: Sequence[tuple[Any, ...]]) -> tuple[str, ...]:
    names = [str(row[0]) for row in rows]
    start = next((names.index(heading) + 1 for heading in _PARTITIONS if heading in names), len(names))
    keys = []
    for key, value in rows[start:]:
        if not key or (key.startswith("# ") and key != "# col_name"):
            break
        if key not in ("# col_name", "Not partitioned"):
            keys.append(str(value) if key.startswith("Part ") else str(key))
    return tuple(keys)


def _unusable(spark: Any, name: TableName, error: Exception) -> SinkRefused:
    catalog_name = name.catalog or SESSION_CATALOG
    if any(each in str(error) for each in _NO_CLASS):
        missing = spark.conf.get(f"spark.sql.catalog.{catalog_name}", "")
        return SinkRefused(
            f"write_table: catalog {catalog_name} can't be opened: its class {missing} is in none of Spark's jars; name the"
            " package by spark.jars.packages"
        )
    said = misfit(spark, error) or first_line(error)
    return SinkRefused(f"write_table: table {name} can't be looked up: {said}")


def misfit(spark: Any, error: Exception) -> str:
    """A sentence on a connector that is made for another Spark, if that is what an error says; or empty."""
    detail = re.search(r'details = "(.*)"', str(error))
    said = detail[1] if detail else first_line(error)
    if not _NOT_LINKED.search(said):
        return ""
    return f"the connector's jar was made for another version of Spark than {spark.version}, use one that fits: {said[:300]}"


def future_location(spark: Any, table: VersionedTable) -> str:
    """Where its catalog may make a table; empty if it can't be told."""
    name = whole_name(spark, table.name)
    if not name.catalog:
        return name.table
    if name.catalog == SESSION_CATALOG:
        return catalog.future_location(spark, name)
    warehouse = spark.conf.get(f"spark.sql.catalog.{name.catalog}.warehouse", "")
    return "/".join([warehouse.rstrip("/"), *name.namespace, name.table]) if warehouse else ""


def create(df: Any, table: VersionedTable, partition_by: Sequence[str], options: Mapping[str, str]) -> None:
    """Make the table with these rows, in one step of its catalog. Raises AnalysisException of EXISTS for one that is there."""
    writer = df.writeTo(table.name).using(table.format)
    for name, value in options.items():
        if "." in name and not name.startswith("snapshot-property."):
            writer = writer.tableProperty(name, value)
        else:
            writer = writer.option(name, value)
    if partition_by:
        writer = writer.partitionedBy(*[partition_column(each) for each in partition_by])
    writer.create()


def put(writer: Any, mode: str) -> None:
    """Have Spark's writer of a table that is there write by this mode."""
    from pyspark.sql import functions as F

    match mode:
        case "overwrite":
            writer.overwrite(F.lit(True))
        case "overwrite-partitions":
            writer.overwritePartitions()
        case _:
            writer.append()


def merge_statement(target: str, source: str, key: Sequence[str]) -> str:
    """Rows whose keys are equal are replaced, others are added; a null key equals nothing."""
    condition = " AND ".join(f"t.{quoted(each)} = s.{quoted(each)}" for each in key)
    return (
        f"MERGE INTO {target} AS t USING {source} AS s ON {condition}"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
