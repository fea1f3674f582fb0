"""Rows into a table of a database: staged by Spark in a table beside it, and committed in one transaction."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from firesteel.adapters.spark.exchange.storable import types_within
from firesteel.adapters.spark.gateway import class_path_of
from firesteel.adapters.spark.properties import resolved
from firesteel.adapters.spark.refusals import SinkRefused, TargetExists, UserError
from firesteel.adapters.spark.session.columns import columns_of
from firesteel.adapters.spark.session.context import AttemptContext, current_attempt
from firesteel.adapters.spark.sinks import writeroptions
from firesteel.adapters.spark.sinks.database import DatabaseError, connected
from firesteel.adapters.spark.sinks.jdbccommit import StagedTable, column_types, place_of, schema_prefix
from firesteel.adapters.spark.sinks.writeroptions import TABLE_MODES, UPSERT
from firesteel.adapters.spark.staged.references import JDBC_SCHEME, encode
from firesteel.model.tasks import SinkCommit

SECRET = re.compile(r"pass(word|wd|phrase)?$|secret|token|credential", re.IGNORECASE)
_URL_SECRET = re.compile(r"[?&;](password|sslpassword)=|//[^/@]*:[^/@]*@", re.IGNORECASE)


def write_jdbc(
    df: Any,
    url: str,
    table: str,
    mode: str = "append",
    *,
    properties: Mapping[str, str] | None = None,
    key: str | Sequence[str] = (),
    **options: Any,
) -> None:
    """Write `df` into `table` (`name` or `schema.name`) of the PostgreSQL database at `url`, exactly once.

    `mode`: `append`; `overwrite`, which deletes the rows that are there and keeps the table; `upsert`, which replaces
    the rows whose `key` columns are equal; `error` and `ignore`, for a table that is not there yet. `properties` are
    the connection's: user, password, driver and others. A password is best given as `env:NAME` or `file:/path`, to be
    read where it is used; it is kept out of journal, views and logs either way. `options` are those of Spark's JDBC
    writer (batchsize, numPartitions, createTableColumnTypes, ...).
    Raises ValueError for what can't be done, FileExistsError for mode "error" on an existing table.
    """
    checked = writeroptions.checked_mode("write_jdbc", mode, TABLE_MODES)
    keys = writeroptions.checked_columns("write_jdbc", "key", key)
    settings = writeroptions.checked_options("write_jdbc", "jdbc", options)
    _check_call(url, table, checked, keys)
    given = {str(name): str(value) for name, value in (properties or {}).items()}
    with current_attempt.writing() as attempt:
        if attempt is not None:
            staged = _Staging(attempt, df, url, table, given)
            staged.write(checked, keys, settings)
        elif checked == UPSERT:
            raise SinkRefused("write_jdbc: mode='upsert' works in a pipeline only; Spark itself has none")
        else:
            _write(df, url, table, checked, {**settings, **resolved("write_jdbc", given)})


class _Staging:
    """One call of write_jdbc in an attempt."""

    def __init__(self, attempt: AttemptContext, df: Any, url: str, table: str, properties: Mapping[str, str]) -> None:
        self._attempt, self._df, self._url, self._table = attempt, df, url, table
        self._secrets = {name: text for name, text in properties.items() if _is_literal_secret(name, text)}
        self._public = {name: text for name, text in properties.items() if name not in self._secrets}
        self._place = len(attempt.sinks)
        self._id = attempt.new_commit_id()
        self._class_path = class_path_of(df.sparkSession)

    def write(self, mode: str, keys: tuple[str, ...], options: Mapping[str, str]) -> None:
        """Look at the target, write the rows beside it, note the commit."""
        types, place = self._target()
        if types and mode == "ignore":
            writeroptions.note_ignored("write_jdbc", self._table)
            return
        if types and mode == "error":
            raise TargetExists(f"table {self._table} exists; use mode='overwrite' or 'append', or another table")
        _check_types(self._df.schema)
        columns = _matched(self._df.columns, list(types) or self._df.columns, self._table)
        key = tuple(name for _, name in _matched(keys, [name for _, name in columns], "the rows, as key"))
        staging = f"{schema_prefix(self._table)}_firesteel_{self._id[:24]}"
        reference = encode(
            JDBC_SCHEME,
            StagedTable(
                url=self._url,
                target=self._table,
                staging=staging,
                columns=columns,
                key=key,
                properties=self._public,
                class_path=self._class_path,
                unwritten=tuple(self._secrets),
            ),
        )
        assert self._attempt.function is not None, "a sink runs inside a function"
        commit = SinkCommit(
            commit_id=self._id,
            vertex_id=self._attempt.vertex_id,
            function=self._attempt.function.name,
            format="jdbc",
            mode=mode,
            target=f"{self._url.partition('?')[0]} {self._table}",
            place=place,
            staging=reference,
            files=(),
            columns=columns_of(self._df.schema),
        )
        self._attempt.check_target(commit)
        self._attempt.report_staging(reference, self._secrets)
        self._attempt.allow_write(staging)
        connection = resolved("write_jdbc", {**self._public, **self._secrets})
        _write(self._df, self._url, staging, "overwrite", {**options, **connection})
        self._attempt.sinks.append(commit)

    def _target(self) -> tuple[dict[str, str], str]:
        """The types of its columns, if there is such a table, and what it is."""
        properties = resolved("write_jdbc", {**self._public, **self._secrets})
        try:
            with connected(self._url, properties, self._class_path) as database:
                return column_types(database, self._table), place_of(database, self._table)
        except DatabaseError as error:
            raise UserError(f"write_jdbc: {self._url.partition('?')[0]}: {error}") from None


def _matched(names: Sequence[str], columns: Sequence[str], where: str) -> tuple[tuple[str, str], ...]:
    """Pairs of each name with the column that it means, whatever the case, as Spark matches them."""
    lowered = {column.lower(): column for column in reversed(columns)}
    found = [(name, name if name in columns else lowered.get(name.lower())) for name in names]
    missing = [name for name, column in found if column is None]
    if missing:
        raise SinkRefused(f"write_jdbc: {where} has no column {', '.join(missing)}; it has {', '.join(columns)}")
    return tuple((name, column) for name, column in found if column is not None)


def _check_types(schema: Any) -> None:
    """Raises SinkRefused for a type that PostgreSQL has nothing for in Spark."""
    from pyspark.sql import types as T

    without = (
        T.StructType,
        T.MapType,
        T.VariantType,
        T.CalendarIntervalType,
        T.NullType,
        T.GeometryType,
        T.GeographyType,
    )
    for field in schema.fields:
        kinds = [*types_within(field.dataType)]
        if any(isinstance(kind, (*without, T.DayTimeIntervalType, T.YearMonthIntervalType)) for kind in kinds):
            raise SinkRefused(
                f"write_jdbc: a table can't hold column {field.name!r} of type {field.dataType.simpleString()}: cast it to"
                " string, make text of it with F.to_json(...), or leave it out"
            )


def _check_call(url: str, table: str, mode: str, keys: tuple[str, ...]) -> None:
    if not url.startswith("jdbc:postgresql:"):
        raise SinkRefused(
            f"write_jdbc: {url.split('/', 1)[0]} is not supported: rows are committed in one transaction, which is made"
            " for jdbc:postgresql only; for other databases write a two-phase sink, or use Spark's own df.write.jdbc in a"
            " sink that is declared idempotent=True"
        )
    if _URL_SECRET.search(url):
        raise SinkRefused('write_jdbc: the URL holds a password: give it as properties={"password": "env:NAME"}')
    if bool(keys) != (mode == UPSERT):
        raise SinkRefused("write_jdbc: key=[...] goes with mode='upsert'")
    try:
        schema_prefix(table)
    except ValueError as error:
        raise SinkRefused(f"write_jdbc: {error}") from None


def _write(df: Any, url: str, table: str, mode: str, options: Mapping[str, str]) -> None:
    df.write.format("jdbc").mode(mode).options(**options).options(url=url, dbtable=table).save()


def _is_literal_secret(name: str, value: str) -> bool:
    return bool(SECRET.search(name)) and not value.startswith(("env:", "file:"))
