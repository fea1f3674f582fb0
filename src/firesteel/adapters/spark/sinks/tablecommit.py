"""Files that were staged for a table of Spark's catalog become the table's.

The files are committed as those of every file sink, once and resumably. Around that the catalog is told: the table is
made, if there was none; partitions are added, and removed where all rows were replaced. That may be repeated without harm.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from firesteel.adapters.spark.sinks.catalog import MADE_BY, CatalogTable, first_line, look_up, partition_column
from firesteel.adapters.spark.sinks.commitsession import commit_session
from firesteel.adapters.spark.staged.references import SinkWork, StagedFiles, decode
from firesteel.adapters.storage import local
from firesteel.adapters.storage.errors import CommitRefused, TargetTaken
from firesteel.adapters.storage.manifest import is_done
from firesteel.adapters.storage.rivals import left_alone
from firesteel.model.tasks import Committed, SinkCommit, StagedPart


def perform(payload: bytes) -> bytes:
    """Commit what a SinkWork names. Run in a process of its own. Raises CommitRefused, OSError, Spark's errors."""
    work = msgspec.json.decode(payload, type=SinkWork)
    staged = [decode(reference, StagedFiles) for reference in work.references]
    with commit_session(work, dict(staged[0].settings)) as spark:
        return msgspec.json.encode(_commit(spark, work, staged))


def files_of(commit: SinkCommit) -> SinkCommit:
    """The commit of the staged files of all subtasks, with the table's directory as target."""
    return _as_one(commit.commit_id, [decode(reference, StagedFiles).files for reference in commit.stagings])


def _as_one(commit_id: str, staged: Sequence[SinkCommit]) -> SinkCommit:
    first, *others = staged
    parts = tuple(StagedPart(staging=each.staging, files=each.files) for each in others)
    size_bytes = sum(each.size_bytes for each in staged)
    return msgspec.structs.replace(first, commit_id=commit_id, parts=parts, size_bytes=size_bytes)


def _commit(spark: Any, work: SinkWork, staged: Sequence[StagedFiles]) -> Committed:
    first = staged[0]
    files = _as_one(work.commit_id, [each.files for each in staged])
    table = look_up(spark, first.table) or _made(spark, first, work.commit_id)
    location, is_own = Path(first.location), table.table_properties.get(MADE_BY) == work.commit_id
    if files.mode in ("error", "ignore"):
        if not is_own and files.mode == "error":
            raise TargetTaken(f"table {first.table} exists", "table")
        if not is_own:
            _remove(staged)
            return left_alone(f"table {first.table}")
        files = msgspec.structs.replace(files, mode="append")  # another job may have added rows since it was made
    if not is_done(local.TREE, files, first.location):
        _check(spark, table, first)
    done = local.commit(files, location, Path(files.staging))
    if first.partition_columns:
        change = "SYNC" if files.mode == "overwrite" else "ADD"
        spark.sql(f"MSCK REPAIR TABLE {first.table} {change} PARTITIONS")
    spark.sql(f"REFRESH TABLE {first.table}")
    return done


def _remove(staged: Sequence[StagedFiles]) -> None:
    for each in staged:
        local.TREE.remove(each.files.staging)


def _made(spark: Any, staged: StagedFiles, commit_id: str) -> CatalogTable:
    """A table without rows; that of another job which was faster."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    if not staged.is_new:
        raise CommitRefused(
            f"table {staged.table} is gone since its rows were staged: it was dropped, or the catalog is in the memory of a"
            " Spark JVM that has ended or is another worker's (spark.sql.catalogImplementation=hive keeps it elsewhere)"
        )
    fields = StructType.fromJson(json.loads(staged.schema)).fields
    nothing = spark.range(0).select([F.lit(None).cast(field.dataType).alias(field.name) for field in fields])
    writer = nothing.writeTo(staged.table).using(staged.files.format).tableProperty(MADE_BY, commit_id)
    for name, value in staged.options.items():
        writer = writer.option(name, value)
    if staged.partition_columns:
        writer = writer.partitionedBy(*[partition_column(name) for name in staged.partition_columns])
    try:
        writer.create()
    except AnalysisException as error:
        if error.getCondition() != "TABLE_OR_VIEW_ALREADY_EXISTS":
            raise CommitRefused(f"table {staged.table} can't be made: {first_line(error)}") from None
    made = look_up(spark, staged.table)
    if made is None:
        raise CommitRefused(f"table {staged.table} was dropped while it was being written")
    return made


def _check(spark: Any, table: CatalogTable, staged: StagedFiles) -> None:
    """The table may have been changed, or made, by somebody else since the rows were staged."""
    from pyspark.sql.types import StructType

    problem = table.problem
    if not problem and table.location.removeprefix("file:").rstrip("/") != staged.location:
        problem = f"is now in {table.location}, and its rows were staged beside {staged.location}"
    if not problem and [each.lower() for each in table.partition_columns] != _lowered(staged.partition_columns):
        problem = f"is now partitioned by {', '.join(table.partition_columns) or 'nothing'}"
    if not problem and table.provider.lower() != staged.files.format:
        problem = f"has now the format {table.provider}"
    if not problem:
        now = {field.name.lower(): field.dataType.simpleString() for field in spark.table(staged.table).schema.fields}
        rows = StructType.fromJson(json.loads(staged.schema)).fields
        other = next((each for each in rows if now.get(each.name.lower()) != each.dataType.simpleString()), None)
        if other is not None:
            problem = f"has now no column {other.name} of type {other.dataType.simpleString()}"
    if problem:
        raise CommitRefused(f"table {staged.table} {problem}: run the job again")


def _lowered(names: Sequence[str]) -> list[str]:
    return [name.lower() for name in names]
