"""Rows that a job returned, for a person and for programs."""

import math
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from firesteel.cli.exits import OUTPUT_LOST, CommandError
from firesteel.client.transport import RequestFailed
from firesteel.model.counts import counted
from firesteel.model.views import JobResult
from firesteel.runtime.client import ClusterOperations, StorageFull, UnknownResult

if TYPE_CHECKING:
    from firesteel.adapters.spark.exchange.results import ResultRows

MINUTE = timedelta(minutes=1)

ROWS_SHOWN_MAX = 20
"""Rows of one function on a terminal; who reads with a program, or as `--json`, gets them all."""

RowsByFunction = Mapping[str, "ResultRows"]


async def fetch_rows(client: ClusterOperations, result: JobResult) -> dict[str, "ResultRows"]:
    """Rows that the job returned, by function. Raises CommandError, by which nobody takes the job for one that has failed."""
    if not result.returned:
        return {}
    from firesteel.adapters.spark.exchange.results import ResultRows

    rows: dict[str, ResultRows] = {}
    for each in result.returned:
        try:
            rows[each.function] = ResultRows(await client.fetch_result(result.job_id, each.function))
        except UnknownResult as error:
            click.echo(f"firesteel: {error}", err=True)
        except (OSError, RequestFailed, StorageFull) as error:
            how = (
                f"job {result.job_id} is {result.status.value}, but the rows that {each.function} returned did not come"
            )
            raise CommandError(f"{how} ({error}): `firesteel wait {result.job_id}` asks again", OUTPUT_LOST) from None
    return rows


def records(rows: RowsByFunction) -> dict[str, list[dict[str, Any]]]:
    """Rows for JSON: an object for each row.

    JSON has no NaN and no infinity: they are the texts that Spark's `to_json` writes.
    """
    return {function: _objects(table) for function, table in rows.items()}


def _objects(table: "ResultRows") -> list[dict[str, Any]]:
    names = _members(table.columns)
    return [dict(zip(names, map(_for_json, line), strict=True)) for line in zip(*table.values(), strict=True)]


def _members(columns: list[str]) -> list[str]:
    """Names that are one column's each: the second `a` is `a_1`, or the next that no column has."""
    names: list[str] = []
    for column in columns:
        name, number = column, 0
        while name in names or (number and name in columns):
            number += 1
            name = f"{column}_{number}"
        names.append(name)
    return names


def _for_json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, datetime) and (offset := value.utcoffset()) and offset % MINUTE:
        # Local mean time, as of places before 1900: offsets of ISO 8601 have no seconds.
        return value.isoformat() if value.year == 1 else (value - offset).replace(tzinfo=UTC)
    if isinstance(value, Mapping):
        return {key: _for_json(each) for key, each in value.items()}
    return [_for_json(each) for each in value] if isinstance(value, list | tuple) else value


def show_rows(rows: RowsByFunction) -> None:
    """Print to standard output: the first of them in a table on a terminal, elsewhere lines with tabs below their names."""
    is_terminal = sys.stdout.isatty()
    for function, table in rows.items():
        columns = table.values(ROWS_SHOWN_MAX if is_terminal else None)
        values = [*zip(*(map(_text, column) for column in columns), strict=True)]
        if is_terminal:
            _show_table(function, table.columns, values)
        else:
            click.echo("\n".join("\t".join(line) for line in (map(_text, table.columns), *values)))
        if (left := len(table) - len(values)) > 0:
            click.echo(f"... {counted(left, 'more row')} of {function} (--json prints all)", err=True)


def _show_table(function: str, columns: list[str], values: list[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    shown = Table(*map(escape, columns))
    for line in values:
        shown.add_row(*map(Text, line))
    click.echo(function)
    Console().print(shown)


def _text(value: Any) -> str:
    """The value as a cell: whatever would break the line, or command the terminal, is written as an escape."""
    if value is None:
        return "NULL"
    return str(value).translate(_ESCAPES)


_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
_ESCAPES = {code: f"\\x{code:02x}" for code in _CONTROLS} | str.maketrans(
    {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
)
