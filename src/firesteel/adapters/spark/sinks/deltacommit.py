"""A commit to a Delta table is its transaction number 1 of an application that is named after the commit.

Delta notes the application's last transaction with the rows, and skips one that it knows. Of two transactions of one
application at the same time the later one fails (ConcurrentTransactionException): so there is one version of each commit,
whoever carries it out. That is Delta's idempotent write, `txnAppId` and `txnVersion`.
"""

from typing import Any

from pyspark.errors import PySparkException

from firesteel.adapters.spark.sinks import versions
from firesteel.adapters.spark.staged.references import StagedRows
from firesteel.adapters.storage.errors import CommitRefused

_VIEW = "_firesteel_rows"
_CONFLICTS = ("DELTA_CONCURRENT_", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED")
_SESSION = "spark.databricks.delta."


def options(commit_id: str) -> dict[str, str]:
    """Of Spark's writer."""
    return {"txnAppId": f"firesteel-{commit_id}", "txnVersion": "1", "userMetadata": _note(commit_id)}


def put(spark: Any, commit_id: str, staged: StagedRows, rows: Any) -> bool:
    """Write the rows; None where they are no longer staged. False: others were faster, try again."""
    if rows is None:
        _check_committed(spark, commit_id, staged.table)
        return True
    try:
        if staged.key:
            _merge(spark, commit_id, staged, rows)
        else:
            plain = {name: text for name, text in staged.options.items() if "." not in name}
            writer = rows.writeTo(staged.table).options(**plain, **options(commit_id))
            versions.put(writer, staged.files.mode)
    except PySparkException as error:
        if not _is_conflict(error):
            raise
        return False
    return True


def _merge(spark: Any, commit_id: str, staged: StagedRows, rows: Any) -> None:
    """A statement takes by the session what a writer takes by its options."""
    given = options(commit_id)
    for setting in ("txnAppId", "txnVersion"):
        spark.conf.set(f"{_SESSION}write.{setting}", given[setting])
    spark.conf.set(f"{_SESSION}commitInfo.userMetadata", given["userMetadata"])
    rows.createOrReplaceTempView(_VIEW)
    spark.sql(versions.merge_statement(staged.table, _VIEW, staged.key)).collect()


def _check_committed(spark: Any, commit_id: str, table: str) -> None:
    """What was staged is removed by a commit at its end. Raises CommitRefused where there is none."""
    history = spark.sql(f"DESCRIBE HISTORY {table}")
    if history.where(history.userMetadata == _note(commit_id)).isEmpty():
        raise CommitRefused(f"table {table}: the rows that were staged for it are gone: run the job again")


def _note(commit_id: str) -> str:
    return f"firesteel.commit-id={commit_id}"


def _is_conflict(error: PySparkException) -> bool:
    condition = error.getCondition() or ""
    return condition.startswith(_CONFLICTS) or any(each in str(error) for each in _CONFLICTS)
