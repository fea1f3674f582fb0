"""Rows of CSV files as Spark writes them: what is quoted is told from what is not, so that null is not the empty text.

A quote within a text is escaped by a backslash unless the options say otherwise, which Python's own reader does not know
beside backslashes that stand for themselves. Options: https://spark.apache.org/docs/latest/sql-data-sources-csv.html. Pure.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

Value = str | None


class Delimited:
    """How the fields of a file are written; `options` are those of Spark's writer, by names in lower case."""

    def __init__(self, options: Mapping[str, str]) -> None:
        separator = options.get("sep", options.get("delimiter", ","))
        separator = {"\\t": "\t"}.get(separator, separator)
        self._null = options.get("nullvalue", "")
        q, e, sep = map(re.escape, (options.get("quote", '"'), options.get("escape") or "\\", separator))
        inner = f"[^{q}{e}]|{e}[{q}{e}]|{e}(?!{q})" if q != e else f"[^{q}]|{q}{q}"
        quoted = f"{q}(?P<quoted>(?:{inner})*+){q}" if q else "(?!)(?P<quoted>)"
        bare = f"(?!{q})" if q else ""
        self._field = re.compile(f"(?:{quoted}|{bare}(?P<bare>(?:(?!{sep}).)*))(?P<end>{sep}|$)", re.DOTALL)
        self._escaped = re.compile(f"{e}([{q}{e}])") if q else re.compile("(?!)")
        self._has_header = options.get("header", "").lower() == "true"

    def rows(self, lines: Iterable[str], newline: str = "\n") -> Iterator[dict[str, Value]]:
        """The rows of a file's lines, which lack what ends them; a text in quotes may go over several. Raises ValueError."""
        records = self._records(lines, newline)
        names = [name or "" for name in next(records, [])] if self._has_header else None
        for number, record in enumerate(records, 1):
            of = names if names is not None else [f"_c{place}" for place in range(len(record))]
            if len(of) != len(record):
                raise ValueError(f"row {number} has {len(record)} fields, and the header {len(of)}")
            yield dict(zip(of, record, strict=True))

    def _records(self, lines: Iterable[str], newline: str) -> Iterator[list[Value]]:
        begun: list[str] = []
        for line in lines:
            begun.append(line)
            found = self._fields(newline.join(begun))
            if found is not None:
                yield found
                begun.clear()
        if begun:
            raise ValueError("a quote is never closed")

    def _fields(self, text: str) -> list[Value] | None:
        """None while a quote is open."""
        found: list[Value] = []
        place = 0
        while (match := self._field.match(text, place)) is not None:
            quoted, bare = match["quoted"], match["bare"]
            if quoted is not None:
                found.append(self._escaped.sub(r"\1", quoted))
            else:
                found.append(None if bare == self._null else bare)
            place = match.end()
            if not match["end"]:
                return found
        return None
