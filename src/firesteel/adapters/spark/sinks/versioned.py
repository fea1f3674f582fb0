"""Rows into a versioned table, one whose format has versions of its own (Delta, Iceberg): staged beside it as Parquet
files, and made its next version with the job."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from firesteel.adapters.spark.refusals import SinkRefused, TargetExists
from firesteel.adapters.spark.session.context import AttemptContext, current_attempt
from firesteel.adapters.spark.sinks import catalog, versions, writeroptions
from firesteel.adapters.spark.sinks.catalog import SESSION_CATALOG, TableName
from firesteel.adapters.spark.sinks.files import FileTarget, settle_partitions, stage_files, told_by
from firesteel.adapters.spark.sinks.jdbc import SECRET
from firesteel.adapters.spark.sinks.versions import FORMATS, VersionedTable
from firesteel.adapters.spark.sinks.writeroptions import TABLE_MODES, UPSERT
from firesteel.adapters.spark.staged.references import VERSIONED_SCHEME, StagedRows, encode
from firesteel.adapters.storage.localsinks import local_path

SETTINGS = "spark.sql.catalog."
"""Settings by which a session knows its catalogs."""
_NEEDS = {
    "delta": "the jars of io.delta:delta-spark by spark.jars.packages, spark.sql.extensions:"
    " io.delta.sql.DeltaSparkSessionExtension, and spark.sql.catalog.spark_catalog:"
    " org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "iceberg": "the jar of org.apache.iceberg:iceberg-spark-runtime by spark.jars.packages, spark.sql.extensions:"
    " org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions, and a catalog by spark.sql.catalog.NAME:"
    " org.apache.iceberg.spark.SparkCatalog",
}


def look_up(spark: Any, name: TableName, using: str) -> VersionedTable | None:
    """The table of that name, there or to be made with `using`; None if it is not a versioned one. Raises SinkRefused."""
    wanted = using.lower()
    setting = f"{SETTINGS}{name.catalog or SESSION_CATALOG}"
    catalog_class = spark.conf.get(setting, "") or ""
    if not catalog_class:
        if wanted in FORMATS or not name.catalog:
            missing = wanted or catalog.PATHS_OF
            raise SinkRefused(f"write_table: tables of {missing} need {_NEEDS[missing]}")
        return None
    found = versions.described(spark, name)
    if found is None:
        of_catalog = "" if name.catalog == SESSION_CATALOG else _format_of(catalog_class)
        found = VersionedTable(name=str(name), format=wanted or of_catalog, exists=False)
    elif wanted and wanted != found.format:
        raise SinkRefused(f"write_table: {name} has the format {found.format or 'unknown'}, not {wanted}")
    if found.format not in FORMATS:
        return None
    extension = {"delta": "DeltaSparkSessionExtension", "iceberg": "IcebergSparkSessionExtensions"}[found.format]
    if extension not in (spark.conf.get("spark.sql.extensions", "") or ""):
        raise SinkRefused(f"write_table: tables of {found.format} need {_NEEDS[found.format]}")
    return found


def write(df: Any, table: VersionedTable, target: FileTarget, key: str | Sequence[str]) -> None:
    """One call of write_table. Raises SinkRefused or TargetExists."""
    key = writeroptions.checked_columns("write_table", "key", key)
    partition_by = writeroptions.checked_columns("write_table", "partition_by", target.keys)
    _check_partitions(table, partition_by)
    target = _checked(table, target, key)
    if table.exists and target.mode == "ignore":
        writeroptions.note_ignored("write_table", table.name)
        return
    if table.exists and target.mode == "error":
        raise TargetExists(f"table {table.name} exists; use mode='overwrite' or 'append', or another table")
    if target.mode != UPSERT:
        settle_partitions(df, target)
    frame = catalog.fitted(df, table.name) if table.exists else df
    columns = {name.lower() for name in frame.columns}
    unknown = [name for name in (*key, *partition_by) if name.lower() not in columns]
    if unknown:
        raise SinkRefused(
            f"write_table: the rows have no column {', '.join(unknown)}; they have {', '.join(df.columns)}"
        )
    with current_attempt.writing() as attempt:
        if attempt is None:
            _at_once(frame, table, target)
        else:
            _stage(attempt, frame, (table, target, key))


def _checked(table: VersionedTable, target: FileTarget, key: tuple[str, ...]) -> FileTarget:
    """The target with the mode as the rest knows it. Of a table that is there, the partitions are its own."""
    mode = writeroptions.checked_mode("write_table", target.mode, TABLE_MODES)
    is_upsert = mode == UPSERT
    if bool(key) != is_upsert:
        raise SinkRefused("write_table: key=[...] goes with mode='upsert'")
    plain = FileTarget(
        target.path,
        "append" if is_upsert else mode,
        table.partitioning if table.exists else target.keys,
        target.overwrite_partitions,
        target.options,
    )
    checked = plain.checked(table.format, "write_table")
    checked.mode = UPSERT if is_upsert else checked.mode
    return checked


def _check_partitions(table: VersionedTable, given: Sequence[str]) -> None:
    own = table.partitioning
    if table.exists and given and [each.lower() for each in given] != [each.lower() for each in own]:
        raise SinkRefused(f"write_table: {table.name} is partitioned by {', '.join(own) or 'nothing'}: leave it out")


def _at_once(frame: Any, table: VersionedTable, target: FileTarget) -> None:
    """Outside a pipeline: by Spark alone."""
    from pyspark.errors import PySparkException

    if target.mode == UPSERT:
        raise SinkRefused("write_table: mode='upsert' works in a pipeline only")
    try:
        if table.exists:
            versions.put(frame.writeTo(table.name).options(**target.options), _mode(target))
        else:
            versions.create(frame, table, target.keys, target.options)
    except PySparkException as error:
        unfit = versions.misfit(frame.sparkSession, error)
        raise SinkRefused(f"write_table: {table.name}: {unfit}") if unfit else error from None


def _mode(target: FileTarget) -> str:
    return versions.DYNAMIC if target.overwrite_partitions == "dynamic" else target.mode


def _stage(attempt: AttemptContext, frame: Any, call: tuple[VersionedTable, FileTarget, tuple[str, ...]]) -> None:
    """Write the rows beside the table's directory, and note the commit."""
    table, target, key = call
    with told_by("write_table"):
        location = _location(frame.sparkSession, table, attempt.client_directory)
    plain = FileTarget(location, target.mode, (), target.overwrite_partitions)
    files = stage_files(frame, "parquet", plain, location)
    known = {**attempt.settings, **frame.sparkSession.conf.getAll}
    every = {name: text for name, text in known.items() if name.startswith(SETTINGS)}
    secrets = {name: attempt.settings.get(name, text) for name, text in every.items() if SECRET.search(name)}
    staged = StagedRows(
        table=table.name,
        format=table.format,
        is_new=not table.exists,
        schema=frame.schema.json(),
        partition_columns=tuple(target.keys),
        key=key,
        options=target.options,
        settings={name: text for name, text in every.items() if name not in secrets},
        files=files,
    )
    reference = encode(VERSIONED_SCHEME, staged)
    if secrets:
        attempt.report_staging(reference, secrets)
    commit = msgspec.structs.replace(
        files, format=f"{table.format} table", target=table.name, staging=reference, files=(), partitions=("",)
    )
    attempt.sinks.append(commit)


def _location(spark: Any, table: VersionedTable, base: Path) -> str:
    """The table's directory, or where it may be made: the rows are staged beside it."""
    place = table.location or versions.future_location(spark, table)
    if not place:
        raise SinkRefused(
            f"write_table: where table {table.name} will be made is not known, and its rows are staged beside it: make it"
            " first (CREATE TABLE ...), or set the catalog's `warehouse`"
        )
    return str(local_path(place, base))


def _format_of(catalog_class: str) -> str:
    """The format of the tables that a catalog makes where nothing else is said."""
    return next((each for each in FORMATS if f".{each}." in catalog_class.lower()), "")
