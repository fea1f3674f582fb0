"""Rows into a table of Spark's catalog: staged as files beside its directory, and made the table's with the job."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from firesteel.adapters.spark.refusals import SinkRefused, TargetExists
from firesteel.adapters.spark.session.context import AttemptContext, current_attempt
from firesteel.adapters.spark.sinks import catalog, versioned, writeroptions
from firesteel.adapters.spark.sinks.catalog import CatalogTable, TableName, look_up, whole_name
from firesteel.adapters.spark.sinks.files import FileTarget, settle_partitions, stage_files, told_by
from firesteel.adapters.spark.sinks.jdbc import SECRET
from firesteel.adapters.spark.sinks.writeroptions import TABLE_MODES, UPSERT
from firesteel.adapters.spark.staged.references import TABLE_SCHEME, StagedFiles, encode
from firesteel.adapters.storage import local
from firesteel.adapters.storage.localdirectories import as_path
from firesteel.adapters.storage.localsinks import local_path
from firesteel.adapters.storage.trees import holds_data
from firesteel.model.options import SPARK_ISOLATION


def write_table(
    df: Any,
    table: str,
    mode: str = "append",
    partition_by: str | Sequence[str] = (),
    *,
    using: str = "",
    overwrite_partitions: str = "",
    key: str | Sequence[str] = (),
    **options: Any,
) -> None:
    """Write `df` into `table` (`name`, `database.name` or `catalog.database.name`) of Spark's catalogs, exactly once.

    `mode`: `append`; `overwrite`, which replaces the rows and keeps the table; `error` and `ignore`, for a table that is
    not there yet; `upsert`, for Delta and Iceberg, which replaces the rows whose `key` columns are equal. A table that is
    not there is made when the job commits: of the format `using` (parquet, csv, json, orc, delta or iceberg; the
    catalog's, or parquet, by default), with partitions by `partition_by` and the format's `options`. Columns are matched
    by name, and values stored as Spark's INSERT would. `overwrite_partitions`: see write_parquet.
    Raises ValueError for what can't be done, FileExistsError for mode "error" on an existing table.
    """
    spark = df.sparkSession
    whole = whole_name(spark, table)
    described = versioned.look_up(spark, whole, using)
    if described is not None:
        versioned.write(df, described, FileTarget(table, mode, partition_by, overwrite_partitions, options), key)
        return
    if whole.catalog != catalog.SESSION_CATALOG:
        raise SinkRefused(
            f"write_table: {whole} is neither a Delta nor an Iceberg table, and catalog {whole.catalog} is not Spark's own"
            f" ({catalog.SESSION_CATALOG}): its rows can't be committed with the job; use fs.write_jdbc or"
            " fs.write_two_phase, or df.writeTo(...) in a sink that is declared idempotent=True"
        )
    _refuse_own_memory(spark, whole)
    mode = writeroptions.checked_mode("write_table", mode, TABLE_MODES)
    if key or mode == UPSERT:
        raise SinkRefused("write_table: mode='upsert' is for tables of Delta and Iceberg")
    known = look_up(spark, str(whole))
    write = _TableWrite(df, whole, known, using or (known.provider if known is not None else "parquet"))
    keys = partition_by if known is None else known.partition_columns
    target = FileTarget(table, mode, keys, overwrite_partitions, options).checked(write.format, "write_table")
    if known is not None:
        write.check_table(target.mode, partition_by)
        if target.mode == "ignore":
            writeroptions.note_ignored("write_table", table)
            return
    settle_partitions(df, target)
    with current_attempt.writing() as attempt:
        if attempt is None:
            write.at_once(target)
        else:
            write.stage(attempt, target)


def _refuse_own_memory(spark: Any, whole: TableName) -> None:
    """Of a catalog that only this attempt's JVM has nothing is left when the job commits, in another one."""
    attempt = current_attempt.get()
    if attempt is not None and not attempt.is_backend_shared and spark.conf.get(catalog.KIND) == catalog.IN_MEMORY:
        raise SinkRefused(
            f"write_table: {whole} is a table of Spark's built-in catalog, which is in the memory of one JVM, and this attempt"
            f" has a JVM of its own ({SPARK_ISOLATION.key}, or a region whose JVMs have died): nothing of it would be left. Use a"
            f" metastore ({catalog.KIND}: hive), {SPARK_ISOLATION.key}: shared, or fs.write_parquet"
        )


class _TableWrite:
    """One call of write_table. `known` is the table, where there is one."""

    def __init__(self, df: Any, whole: TableName, known: CatalogTable | None, file_format: str) -> None:
        self._df, self._whole, self._known, self.format = df, whole, known, file_format.lower()
        self._name = name = str(whole)
        self._spark = df.sparkSession
        if known is not None and known.problem:
            raise SinkRefused(
                f"write_table: {name} {known.problem}: its rows can't be committed with the job; write another table, or use"
                " df.write.insertInto(...) in a sink that is declared idempotent=True"
            )
        if self.format not in catalog.FORMATS:
            raise SinkRefused(f"write_table: using={file_format!r} is none of {', '.join(catalog.FORMATS)}")

    def check_table(self, mode: str, partition_by: str | Sequence[str]) -> None:
        """Whether the table that is there is what the call takes it for. Raises SinkRefused or TargetExists."""
        assert self._known is not None, "there is a table"
        if mode == "error":
            raise TargetExists(f"table {self._name} exists; use mode='overwrite' or 'append', or another table")
        if self._known.provider.lower() != self.format:
            raise SinkRefused(f"write_table: {self._name} has the format {self._known.provider}, not {self.format}")
        own, given = self._known.partition_columns, [partition_by] if isinstance(partition_by, str) else [*partition_by]
        if given and [each.lower() for each in given] != [each.lower() for each in own]:
            raise SinkRefused(
                f"write_table: {self._name} is partitioned by {', '.join(own) or 'nothing'}: leave it out"
            )

    def at_once(self, target: FileTarget) -> None:
        """Outside a pipeline: by Spark alone."""
        if self._known is None:
            writer = self._df.write.format(self.format).mode(target.mode).options(**target.options)
            (writer.partitionBy(*target.keys) if target.keys else writer).saveAsTable(self._name)
        else:
            options = {"partitionOverwriteMode": target.overwrite_partitions} if target.overwrite_partitions else {}
            catalog.fitted(self._df, self._name).write.options(**options).insertInto(
                self._name, overwrite=target.mode == "overwrite"
            )

    def stage(self, attempt: AttemptContext, target: FileTarget) -> None:
        """Write the files beside the table's directory, and note the commit."""
        with told_by("write_table"):
            location = self._location(attempt.client_directory)
        frame = self._df
        if self._known is not None:
            frame = catalog.fitted(self._df, self._name)
            own = {
                name: text for name, text in self._known.storage_properties.items() if name != "serialization.format"
            }
            target.options = {**target.options, **own}
        made_with = dict(target.options)
        files = stage_files(frame, self.format, target, str(location))
        staged = StagedFiles(
            table=self._name,
            location=str(location),
            is_new=self._known is None,
            schema=frame.schema.json(),
            partition_columns=tuple(target.keys),
            options=made_with,
            files=files,
            settings={name: text for name, text in attempt.settings.items() if _is_of_catalog(name)},
        )
        reference = encode(TABLE_SCHEME, staged)
        attempt.sinks.append(
            msgspec.structs.replace(
                files,
                format=f"{self.format} table",
                target=self._name,
                staging=reference,
                files=(),
                partitions=tuple(dict.fromkeys(os.path.dirname(name) for name in files.files)),
            )
        )

    def _location(self, base: Path) -> Path:
        if self._known is None:
            location = local_path(catalog.future_location(self._spark, self._whole), base)
            if holds_data(local.TREE, str(location)):
                raise SinkRefused(
                    f"write_table: there is no table {self._name}, but its directory {location} holds data: remove that, or"
                    f" make a table of it first (CREATE TABLE ... USING {self.format} LOCATION ...)"
                )
            return location
        location = local_path(self._known.location, base)
        files = self._spark.table(self._name).inputFiles() if self._known.partition_columns else []
        elsewhere = next((file for file in files if not _is_below(location, file)), None)
        if elsewhere is not None:
            raise SinkRefused(f"write_table: {self._name} has partitions outside its directory {location}: {elsewhere}")
        return location


def _is_of_catalog(name: str) -> bool:
    """Whether a setting of the job says what the catalog is; what is secret there is the worker's to know."""
    return name.startswith("spark.sql.catalog.") and not SECRET.search(name)


def _is_below(location: Path, file: str) -> bool:
    """`file` is a URI with escapes, as Spark names what a table has."""
    return os.path.realpath(as_path(file)).startswith(f"{location}{os.sep}")
