"""Arguments of an `fs.write_*`: checked before Spark is asked, so that a slip is told by its name."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from firesteel.adapters.spark.refusals import SinkRefused
from firesteel.pipeline.definition import did_you_mean

MODES = ("overwrite", "append", "error", "ignore")
UPSERT = "upsert"
"""A mode of tables only: rows whose key is equal are replaced."""
TABLE_MODES = (*MODES, UPSERT)

_SPELLINGS = {"errorifexists": "error", "default": "error"}
PARTITION_OVERWRITE_MODE = "partitionOverwriteMode"

_COMMON = ("compression", "maxRecordsPerFile", PARTITION_OVERWRITE_MODE)
_TEXTUAL = (*_COMMON, "codec", "encoding", "charset", "lineSep")
_DATES = ("dateFormat", "timestampFormat", "timestampNTZFormat", "timeFormat", "timeZone", "locale")
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "parquet": (*_COMMON, "mergeSchema", "datetimeRebaseMode"),
    "orc": (*_COMMON, "mergeSchema"),
    "text": (*_TEXTUAL, "wholetext"),
    "json": (
        *(*_TEXTUAL, *_DATES),
        *("ignoreNullFields", "pretty", "sortKeys", "writeNonAsciiCharacterAsCodePoint", "dropFieldIfAllNull"),
    ),
    "csv": (
        *(*_TEXTUAL, *_DATES),
        *("sep", "delimiter", "header", "quote", "escape", "quoteAll", "escapeQuotes", "charToEscapeQuoteEscaping"),
        *("nullValue", "emptyValue", "nanValue", "positiveInf", "negativeInf", "comment", "extension"),
        *("ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace"),
    ),
    "delta": _COMMON,
    "iceberg": (
        *("write-format", "compression-codec", "compression-level", "target-file-size-bytes"),
        *("distribution-mode", "fanout-enabled"),
    ),
    "jdbc": (
        "batchsize",
        "numPartitions",
        "createTableColumnTypes",
        "createTableOptions",
        "isolationLevel",
        "queryTimeout",
    ),
}
"""Spark's writer options by format. A name with a dot (`parquet.block.size`) is Hadoop's, of which there is no list."""


def checked_mode(call: str, mode: str, known: Sequence[str] = MODES) -> str:
    """One of those known to the sink, for Spark's other spellings too. Raises SinkRefused."""
    name = mode.lower() if isinstance(mode, str) else mode
    name = _SPELLINGS.get(name, name)
    if name not in known:
        raise SinkRefused(f"{call}: mode {mode!r} is none of {', '.join(known)}{did_you_mean(str(mode), known)}")
    return name


def checked_columns(call: str, argument: str, columns: str | Sequence[str]) -> tuple[str, ...]:
    """Column names, given as one or several. Raises SinkRefused."""
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if not all(isinstance(name, str) and name for name in names):
        raise SinkRefused(f"{call}: {argument}={columns!r} must be names of columns")
    return names


def checked_options(call: str, form: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Options as Spark takes them. Raises SinkRefused for one that the format does not have."""
    known = OPTIONS[form]
    lowered = {name.lower() for name in known}
    for name, value in options.items():
        if "." not in name and name.lower() not in lowered:
            raise SinkRefused(f"{call}: {form} has no option {name!r}{did_you_mean(name, known)}")
        if not isinstance(value, str | bool | int | float):
            raise SinkRefused(f"{call}: option {name}={value!r} must be a text, a number, True or False")
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}


def note_ignored(call: str, target: object) -> None:
    """A line in what the function prints: it succeeds, and has written nothing."""
    print(f"{call}: {target} exists, so that mode='ignore' writes nothing", file=sys.stderr, flush=True)
