"""Rows that Spark has staged in a table of the target's database become the target's, in one transaction.

The transaction also notes the commit's id in `_firesteel_commits`, beside the target. So a commit that is repeated, by
whomever, finds the note and does nothing; two that are performed at once wait for one another on it. PostgreSQL.
"""

import re
import time
from collections.abc import Mapping, Sequence

import msgspec

from firesteel.adapters.spark.properties import resolved
from firesteel.adapters.spark.sinks.database import Database, DatabaseError, connected
from firesteel.adapters.spark.staged.references import SinkWork, decode
from firesteel.adapters.storage.errors import CommitRefused, TargetTaken, TargetUnreachable
from firesteel.adapters.storage.rivals import left_alone
from firesteel.model.stored import StoredRecord
from firesteel.model.tasks import Committed

COMMITS_TABLE = "_firesteel_commits"
IGNORED = "ignored"
"""Mode that is noted of a commit in mode `ignore` which has found a table: whoever repeats it tells the same."""
CONNECT_ATTEMPTS, CONNECT_PAUSE_S = 30, 1.0
"""A database that restarts is waited for so long."""
_DUPLICATE_STATES = ("23505", "42P07", "42710")
_NAME = re.compile(r'(?:(?P<schema>\w+|"[^"]+")\.)?(?P<table>\w+|"[^"]+")')


class StagedTable(StoredRecord, frozen=True, kw_only=True):
    """The rows that one subtask has staged, and where they are to go."""

    url: str
    target: str
    """Name of the table as the user wrote it, and as SQL takes it."""
    staging: str
    columns: tuple[tuple[str, str], ...]
    """Columns of the staged rows, each with the name it has in the target."""
    key: tuple[str, ...] = ()
    """Columns of the target that are the key of mode `upsert`."""
    unwritten: tuple[str, ...] = ()
    """Properties that only the worker which staged the rows knows."""
    properties: Mapping[str, str]
    class_path: str = ""


def schema_prefix(table: str) -> str:
    """`schema.` of a table's name as the user wrote it. Raises ValueError for what is no name."""
    match = _NAME.fullmatch(table)
    if match is None:
        raise ValueError(f"{table!r} is no name of a table: write table or schema.table, in double quotes if need be")
    return f"{match['schema']}." if match["schema"] else ""


def quoted(name: str) -> str:
    """A column's name as SQL takes it, whatever it is."""
    return '"' + name.replace('"', '""') + '"'


def column_types(database: Database, table: str) -> dict[str, str]:
    """Columns of a table with their types, in order; empty when there is no such table."""
    sql = (
        "SELECT attname::text, format_type(atttypid, NULL) FROM pg_attribute"
        " WHERE attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
    )
    return {str(name): str(kind) for name, kind in database.rows(sql, [table])}


def place_of(database: Database, table: str) -> str:
    """Identity of the table, however its name, its server's and its schema are spelled."""
    match = _NAME.fullmatch(table)
    assert match is not None, "schema_prefix has looked at it"
    schema, name = (_folded(match[part] or "") for part in ("schema", "table"))
    sql = (
        "SELECT coalesce(host(inet_server_addr()), '') || ':' || coalesce(inet_server_port(), 0) || '/' ||"
        " current_database() || ' ' || coalesce((SELECT n.nspname || '.' || c.relname FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(?)),"
        " coalesce(nullif(?, ''), current_schema()) || '.' || ?)"
    )
    ((found,),) = database.rows(sql, [table, schema, name])
    return f"postgresql:{found}"


def _folded(name: str) -> str:
    """An identifier as the database keeps it."""
    return name[1:-1] if name.startswith('"') else name.lower()


def perform(payload: bytes) -> bytes:
    """Commit, or remove, what a SinkWork names. Run in a process of its own. Raises CommitRefused, DatabaseError,
    TargetUnreachable."""
    work = msgspec.json.decode(payload, type=SinkWork)
    staged = [decode(reference, StagedTable) for reference in work.references]
    first = staged[0]
    if work.commit_id and not work.secrets.keys() >= set(first.unwritten):
        raise TargetUnreachable(
            f"table {first.target}: only the worker that has staged its rows knows the {' and '.join(first.unwritten)},"
            " which was given as text; with env:NAME or file:/path in its place any worker can commit"
        )
    properties = resolved("write_jdbc", {**first.properties, **work.secrets})
    for attempt in range(1, CONNECT_ATTEMPTS + 1):
        try:
            with connected(first.url, properties, first.class_path) as database:
                if work.commit_id:
                    return msgspec.json.encode(commit(database, work, staged))
                drop(database, staged)
            return b""
        except DatabaseError as error:
            if not error.is_unreachable or not work.commit_id:
                raise
            if attempt == CONNECT_ATTEMPTS:
                raise TargetUnreachable(f"the database of {first.target} does not answer: {error}") from error
        time.sleep(CONNECT_PAUSE_S)
    raise AssertionError("the last attempt returns or raises")


def commit(database: Database, work: SinkWork, staged: Sequence[StagedTable]) -> Committed:
    """One transaction. Repeating it does nothing."""
    first = staged[0]
    commits = schema_prefix(first.target) + COMMITS_TABLE
    _make_commits_table(database, commits)
    sql = f"INSERT INTO {commits} (commit_id, target, mode) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
    is_new = database.execute(sql, [work.commit_id, first.target, work.mode]) == 1
    if is_new:
        _check_staged(database, staged)
        _move(database, work, staged)
    is_ignored = bool(
        database.rows(f"SELECT 1 FROM {commits} WHERE commit_id = ? AND mode = ?", [work.commit_id, IGNORED])
    )
    drop(database, staged)
    return left_alone(f"table {first.target}") if is_ignored else Committed()


def drop(database: Database, staged: Sequence[StagedTable]) -> None:
    """Remove the staged tables; ends the transaction."""
    for each in staged:
        database.execute(f"DROP TABLE IF EXISTS {each.staging}")
    database.commit()


def _move(database: Database, work: SinkWork, staged: Sequence[StagedTable]) -> None:
    first, mode = staged[0], work.mode
    types = column_types(database, first.target)
    if types and mode == "ignore":
        commits = schema_prefix(first.target) + COMMITS_TABLE
        database.execute(f"UPDATE {commits} SET mode = ? WHERE commit_id = ?", [IGNORED, work.commit_id])
        return
    if types and mode == "error":
        raise TargetTaken(f"table {first.target} exists", "table")
    if not types:
        database.execute(f"CREATE TABLE {first.target} (LIKE {first.staging} INCLUDING ALL)")
        types = column_types(database, first.target)
    missing = next((name for each in staged for _, name in each.columns if name not in types), None)
    if missing is not None:
        raise CommitRefused(f"table {first.target} has lost its column {missing!r} since the rows were staged")
    if mode in ("overwrite", "upsert"):  # else rows that another commit inserts meanwhile would not be seen, and stay
        database.execute(f"LOCK TABLE {first.target} IN SHARE ROW EXCLUSIVE MODE")
    if mode == "overwrite":
        database.execute(f"DELETE FROM {first.target}")
    elif mode == "upsert":
        for each in staged:
            database.execute(_delete_by_key(each))
    for each in staged:
        into = ", ".join(quoted(name) for _, name in each.columns)
        values = ", ".join(f"CAST({quoted(own)} AS {types[name]})" for own, name in each.columns)
        database.execute(f"INSERT INTO {each.target} ({into}) SELECT {values} FROM {each.staging}")


def _delete_by_key(staged: StagedTable) -> str:
    own = {name: own for own, name in staged.columns}
    same = " AND ".join(f"old.{quoted(name)} = new.{quoted(own[name])}" for name in staged.key)
    return f"DELETE FROM {staged.target} old USING {staged.staging} new WHERE {same}"


def _make_commits_table(database: Database, commits: str) -> None:
    """Make the table in a transaction of its own: two that do so at once must not fail one another's commit."""
    if column_types(database, commits):
        return
    sql = (
        f"CREATE TABLE IF NOT EXISTS {commits} (commit_id text PRIMARY KEY, target text NOT NULL, mode text NOT NULL,"
        " committed_at timestamptz NOT NULL DEFAULT now())"
    )
    try:
        database.execute(sql)
        database.commit()
    except DatabaseError as error:
        if error.state not in _DUPLICATE_STATES:
            raise
        database.rollback()


def _check_staged(database: Database, staged: Sequence[StagedTable]) -> None:
    gone = next((each.staging for each in staged if not column_types(database, each.staging)), None)
    if gone is not None:
        raise CommitRefused(
            f"the staged rows for {staged[0].target} are gone (table {gone}): something outside firesteel removed them;"
            " run the job again"
        )
