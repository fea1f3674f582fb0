"""Rows that were staged for a versioned table (Delta, Iceberg) become its next version, once.

What keeps a commit from being carried out twice is in the table itself, so that it holds whoever tries and whenever: a
process that was killed leaves its query running in Spark, and another worker may be at the same commit. `deltacommit` and
`icebergcommit` say how. A table that is not there yet is made with its rows in one step, and names its commit.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from firesteel.adapters.spark.refusals import UserError
from firesteel.adapters.spark.sinks import deltacommit, icebergcommit, versions
from firesteel.adapters.spark.sinks.catalog import MADE_BY, first_line, quoted
from firesteel.adapters.spark.sinks.commitsession import commit_session
from firesteel.adapters.spark.sinks.versions import VersionedTable
from firesteel.adapters.spark.staged.references import SinkWork, StagedRows, decode
from firesteel.adapters.storage import local
from firesteel.adapters.storage.errors import CommitRefused, TargetTaken
from firesteel.adapters.storage.rivals import left_alone
from firesteel.model.tasks import Committed

TRIES_MAX = 30
"""Times that a commit is begun again since others have changed the table meanwhile, before that is a failure."""
PAUSE_S = 0.2


class Contended(Exception):
    """Others have changed the table each time, before this commit could."""


def perform(payload: bytes) -> bytes:
    """Commit what a SinkWork names. Run in a process of its own. Raises CommitRefused, Contended, Spark's errors."""
    work = msgspec.json.decode(payload, type=SinkWork)
    staged = [decode(reference, StagedRows) for reference in work.references]
    settings = {**staged[0].settings, **work.secrets, **icebergcommit.fresh(staged[0])}
    with commit_session(work, settings) as spark:
        return msgspec.json.encode(commit(spark, work.commit_id, staged))


def commit(spark: Any, commit_id: str, staged: Sequence[StagedRows]) -> Committed:
    """Idempotent, also when it is carried out by several at once."""
    for _ in range(TRIES_MAX):
        try:
            if (done := _done(spark, commit_id, staged)) is not None:
                break
        except UserError as error:
            raise CommitRefused(str(error)) from None
        except PySparkException as error:
            unfit = versions.misfit(spark, error)
            if unfit:
                raise CommitRefused(f"table {staged[0].table} can't be written: {unfit}") from None
            if not isinstance(error, AnalysisException):
                raise
            if error.getCondition() not in versions.EXISTS:
                raise CommitRefused(f"table {staged[0].table} can't be written: {first_line(error)}") from None
        time.sleep(PAUSE_S)
    else:
        raise Contended(f"table {staged[0].table} was changed by others {TRIES_MAX} times while it was being written")
    for each in staged:
        local.TREE.remove(each.files.staging)
    return done


def _done(spark: Any, commit_id: str, staged: Sequence[StagedRows]) -> Committed | None:
    """One try. None: another has been faster, at this commit or at one of its own."""
    first = staged[0]
    table = versions.found(spark, first.table)
    if table is None:
        _create(spark, commit_id, staged)
        return Committed()
    if table.made_by == commit_id:
        return Committed()
    if table.format != first.format:
        raise CommitRefused(f"table {first.table} has now the format {table.format}: run the job again")
    if first.files.mode == "ignore":
        return left_alone(f"table {first.table}")
    if first.files.mode == "error":
        raise TargetTaken(f"table {first.table} exists", "table")
    return Committed() if _put(spark, commit_id, staged) else None


def _put(spark: Any, commit_id: str, staged: Sequence[StagedRows]) -> bool:
    first, rows = staged[0], None
    if all(Path(each.files.staging).is_dir() for each in staged):
        rows = _rows(spark, staged)
        if first.key:
            _check_keys(rows, first)
    elif first.files.mode == versions.DYNAMIC and not any(each.files.rows for each in staged):
        return True  # which leaves no trace in Iceberg, and was done before
    put = deltacommit.put if first.format == "delta" else icebergcommit.put
    return put(spark, commit_id, first, rows)


def _create(spark: Any, commit_id: str, staged: Sequence[StagedRows]) -> None:
    first = staged[0]
    if not first.is_new:
        raise CommitRefused(
            f"table {first.table} is gone since its rows were staged: it was dropped, or the catalog is in the memory of a"
            " Spark JVM that has ended or is another worker's"
        )
    own = deltacommit.options if first.format == "delta" else icebergcommit.options
    options = {**first.options, **own(commit_id), MADE_BY: commit_id}
    table = VersionedTable(name=first.table, format=first.format, exists=False)
    rows = _rows(spark, staged)
    if first.key:
        _check_keys(rows, first)
    versions.create(rows, table, first.partition_columns, options)


def _rows(spark: Any, staged: Sequence[StagedRows]) -> Any:
    schema = StructType.fromJson(json.loads(staged[0].schema))
    return spark.read.schema(schema).parquet(*[each.files.staging for each in staged])


def _check_keys(rows: Any, staged: StagedRows) -> None:
    """Of two rows with one key, which one would stay is chance. Raises CommitRefused."""
    columns = [F.col(quoted(name)) for name in staged.key]
    twice = rows.dropna(subset=list(staged.key)).groupBy(*columns).count().where("count > 1").limit(1).collect()
    if twice:
        shown = ", ".join(f"{name}={twice[0][place]!r}" for place, name in enumerate(staged.key))
        raise CommitRefused(f"table {staged.table}: several rows to be written have the key {shown}: keep one of each")
