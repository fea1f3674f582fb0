"""A commit to an Iceberg table is written on a branch of its own, and published in one step that holds for one only.

Each try looks at the history of `main` for the commit, makes a branch at exactly the snapshot whose history it has looked
at, writes there, and publishes what it has written:

- *append* and *overwrite of partitions* by `cherrypick_snapshot`: the snapshot has the commit's id as its `wap.id`, which
  Iceberg lets be published once; what others have appended meanwhile does no harm.
- *overwrite* and *upsert* by `fast_forward`, which fails if `main` is no longer what was looked at; then all is done again.

Both are checked by Iceberg when it replaces the table's metadata, so they hold against another worker, too, and against a
query that its killed process has left behind in Spark: that one can write on a branch, and publishes nothing.
"""

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from firesteel.adapters.spark.sinks import versions
from firesteel.adapters.spark.sinks.catalog import TableName, quoted, whole_name
from firesteel.adapters.spark.staged.references import StagedRows
from firesteel.adapters.storage.errors import CommitRefused

COMMIT_ID = "firesteel.commit-id"
"""Property of a snapshot."""
_VIEW = "_firesteel_rows"
_SNAPSHOT_OPTION, _SNAPSHOT_SETTING = "snapshot-property.", "spark.sql.iceberg.snapshot-property."
_CONFLICTS = (
    "DuplicateWAPCommitException",
    "CherrypickAncestorCommitException",
    "ValidationException",
    "CommitFailedException",
    "CommitStateUnknownException",
    "Cannot fast-forward",
    "already exists",
    "does not exist",
)
"""Others have changed the table, or have done this commit: to be looked at again."""


class Snapshot(msgspec.Struct, frozen=True):
    """What of a snapshot is of interest here."""

    parent: int | None
    commit_id: str
    """The commit that it publishes, or has written."""


class History(msgspec.Struct, frozen=True):
    """Snapshots of a table, and where its branches stand."""

    snapshots: Mapping[int, Snapshot]
    branches: Mapping[str, int]

    @property
    def head(self) -> int | None:
        return self.branches.get("main")

    def has(self, commit_id: str) -> bool:
        """Whether a commit is in what readers see, or was, and has been replaced since."""
        return any(self.snapshots[each].commit_id == commit_id for each in self._line(self.head))

    def written(self, branch: str) -> int | None:
        """The snapshot at a branch's end."""
        return self.branches.get(branch)

    def is_child(self, snapshot: int, parent: int) -> bool:
        return snapshot in self.snapshots and self.snapshots[snapshot].parent == parent

    def _line(self, snapshot: int | None) -> Iterator[int]:
        """It, and those that it goes back to."""
        while snapshot is not None and snapshot in self.snapshots:
            yield snapshot
            snapshot = self.snapshots[snapshot].parent


def options(commit_id: str) -> dict[str, str]:
    """Of Spark's writer: properties of the snapshot."""
    return {f"{_SNAPSHOT_OPTION}{name}": text for name, text in _properties(commit_id).items()}


def fresh(staged: StagedRows) -> dict[str, str]:
    """Settings of a session that sees what other sessions have committed a moment ago."""
    of_table = staged.table.partition(".")[0].strip("`")
    return {f"spark.sql.catalog.{of_table}.cache-enabled": "false"} if staged.format == "iceberg" else {}


def put(spark: Any, commit_id: str, staged: StagedRows, rows: Any) -> bool:
    """Write the rows; None where they are no longer staged. False: others were faster, try again."""
    table = whole_name(spark, staged.table)
    history = look(spark, table)
    if history.has(commit_id):
        _drop_branches(spark, table, history, commit_id)
        return True
    if rows is None:
        raise CommitRefused(f"table {table}: the rows that were staged for it are gone: run the job again")
    try:
        if history.head is None:
            _write_first(commit_id, staged, rows)
        else:
            _Try(spark, commit_id, (table, staged)).run(rows, history.head)
    except PySparkException as error:
        if not any(each in str(error) for each in _CONFLICTS):
            raise
        return False
    _drop_branches(spark, table, look(spark, table), commit_id)
    return True


def look(spark: Any, table: TableName) -> History:
    """The history, as it is now."""
    snapshots = spark.sql(
        f"SELECT snapshot_id, parent_id, coalesce(summary['published-wap-id'], summary['{COMMIT_ID}'], '')"
        f" FROM {table}.snapshots"
    ).collect()
    branches = spark.sql(f"SELECT name, snapshot_id FROM {table}.refs WHERE type = 'BRANCH'").collect()
    return History(
        {own: Snapshot(parent, by) for own, parent, by in snapshots},
        {str(name): int(at) for name, at in map(tuple, branches)},
    )


class _Try:
    """One try at a commit to a table that has a snapshot."""

    def __init__(self, spark: Any, commit_id: str, what: tuple[TableName, StagedRows]) -> None:
        self._spark, self._commit_id, (self._table, self._staged) = spark, commit_id, what
        self._branch = f"{_prefix(commit_id)}{uuid.uuid4().hex[:8]}"

    def run(self, rows: Any, head: int) -> None:
        """Raises PySparkException of _CONFLICTS, and others."""
        branch = quoted(self._branch)
        self._spark.sql(
            f"ALTER TABLE {self._table} CREATE BRANCH {branch} AS OF VERSION {head} RETAIN 1 DAYS"
        ).collect()
        self._write(rows, f"{self._table}.{quoted(f'branch_{self._branch}')}")
        history = look(self._spark, self._table)
        written = history.written(self._branch)
        if written == head:  # no rows for any partition: nothing changes
            return
        if written is None or not history.is_child(written, head):  # somebody has removed the branch meanwhile
            raise PySparkException(message="ValidationException: not what was looked at")
        self._publish(written)

    def _write(self, rows: Any, target: str) -> None:
        if not self._staged.key:
            writer = rows.writeTo(target).options(**_plain(self._staged), **options(self._commit_id))
            versions.put(writer, self._staged.files.mode)
            return
        for name, text in _properties(self._commit_id).items():  # a statement takes them by the session
            self._spark.conf.set(f"{_SNAPSHOT_SETTING}{name}", text)
        rows.createOrReplaceTempView(_VIEW)
        self._spark.sql(versions.merge_statement(target, _VIEW, self._staged.key)).collect()

    def _publish(self, snapshot: int) -> None:
        system, table = f"{quoted(self._table.catalog)}.system", self._table.within.replace("'", "\\'")
        if self._staged.files.mode in ("append", versions.DYNAMIC):
            call = f"cherrypick_snapshot(table => '{table}', snapshot_id => {snapshot})"
        else:
            call = f"fast_forward(table => '{table}', branch => 'main', to => '{self._branch}')"
        self._spark.sql(f"CALL {system}.{call}").collect()


def _write_first(commit_id: str, staged: StagedRows, rows: Any) -> None:
    """Into a table without a snapshot, which has nothing to branch off: Iceberg validates that there still is none."""
    writer = rows.writeTo(staged.table).options(**_plain(staged), **options(commit_id))
    writer.option("isolation-level", "serializable").overwrite(F.lit(True))


def _drop_branches(spark: Any, table: TableName, history: History, commit_id: str) -> None:
    for name in history.branches:
        if name.startswith(_prefix(commit_id)):
            spark.sql(f"ALTER TABLE {table} DROP BRANCH IF EXISTS {quoted(name)}").collect()


def _prefix(commit_id: str) -> str:
    return f"firesteel-{commit_id}-"


def _properties(commit_id: str) -> dict[str, str]:
    return {COMMIT_ID: commit_id, "wap.id": commit_id}


def _plain(staged: StagedRows) -> dict[str, str]:
    """The writer's options; those with a dot are properties of a table that is to be made."""
    return {name: text for name, text in staged.options.items() if "." not in name}
