"""Stored files as Spark reads them: a list in a directory of the reader's, in the form of a streaming file sink's log.

Given files or directories, Spark takes every column for nullable and reads the files in the order of their sizes. Of what a
log lists it believes the schema that it is told, and it lists and parses nothing itself. One list is one scan, which packs
files by size; so where their order counts each has a list of its own, and the scans follow one another.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from firesteel.adapters.spark.exchange.buckets import NONE, Buckets
from firesteel.adapters.spark.exchange.forms import PARQUET, ROWS, Form, by_form

ORDERED_MARK = "firesteel-in-order"
"""Begins the names of directories with lists of files whose order counts: a plan that has one reads rows in order."""
ROW_BYTES = "rowBytes"
"""Option: how our data source is told what the rows of a list have in memory."""
_UNLISTED = "read only with spark.sql.streaming.fileStreamSink.ignoreMetadata at false.parquet"
"""A file beside the list that can't be read, and has a byte for Spark to try. With that setting Spark would take a list for an
empty directory."""
_BLOCK_BYTES = 32 * 1024 * 1024


def read_files(
    spark: Any,
    schema: Any,
    files: Mapping[str, int],
    directory: Path,
    *,
    in_order: bool,
    expansion: float = 1.0,
    buckets: Buckets = NONE,
) -> Any:
    """A frame of these files, with their sizes in bytes, with exactly that schema. They are named as Spark names them, and are
    all of these buckets; files of rows have `expansion` times as many bytes in memory. `directory` is the caller's own, on this
    machine, for the lists."""
    reader = spark.read.schema(schema)  # a known schema saves Spark a job
    # A job that is lenient with the files of its sources must still not lose rows of its own results.
    reader = reader.options(ignoreMissingFiles="false", ignoreCorruptFiles="false", recursiveFileLookup="true")
    reader = reader.options(**(buckets.options() if buckets != NONE else {}))
    parts = [
        (form, part)
        for form, found in by_form(files).items()
        for part in ([{name: size} for name, size in found.items()] if in_order else [found])
    ] or [(PARQUET, {})]
    name = ORDERED_MARK if in_order else "files"
    return _one_after_another(
        [
            reader.format(form.source)
            .option(ROW_BYTES, math.ceil(expansion * sum(part.values())))
            .load(_listed(form, part, directory / f"{name}-{n}"))
            for n, (form, part) in enumerate(parts)
        ]
    )


def _listed(form: Form, files: Mapping[str, int], directory: Path) -> str:
    log = directory / "_spark_metadata"
    log.mkdir(parents=True, exist_ok=True)
    if form is not ROWS:  # those read a list, whatever is set
        (directory / _UNLISTED).write_bytes(b"-")
    (log / "0").write_text("\n".join(["v1", *(_entry(*file) for file in files.items())]))
    return str(directory)


def _entry(file: str, size_bytes: int) -> str:
    return json.dumps(
        {
            "path": _as_uri(file),
            "size": size_bytes,
            "isDir": False,
            "modificationTime": 0,  # which nobody may ask for
            "blockReplication": 1,
            "blockSize": _BLOCK_BYTES,
            "action": "add",
        }
    )


def _as_uri(file: str) -> str:
    scheme, separator, rest = file.partition("://")
    authority, _, path = rest.partition("/")
    return f"{scheme}://{authority}/{quote(path)}" if separator else Path(file).absolute().as_uri()


def _one_after_another(frames: list[Any]) -> Any:
    """Their union; balanced, since a plan may be nested a hundred deep only."""
    while len(frames) > 1:
        pairs = [frames[n : n + 2] for n in range(0, len(frames), 2)]
        frames = [pair[0].union(pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]
    return frames[0]
