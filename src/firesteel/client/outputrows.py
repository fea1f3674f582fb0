"""Rows of a stream's output, as far as they count: of `fs.stream_files`, and of Spark's own file sink."""

import io
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from urllib.parse import unquote, urlsplit

from firesteel.adapters.spark.exchange.plainvalues import plain_values
from firesteel.adapters.spark.streams.snapshots.checkpointlog import batch_of
from firesteel.adapters.spark.streams.snapshots.errors import SnapshotError
from firesteel.adapters.spark.streams.snapshots.places import place_at
from firesteel.adapters.spark.streams.snapshots.pointfiles import log_files
from firesteel.adapters.spark.streams.snapshots.savepoints import query_of
from firesteel.adapters.spark.streams.snapshots.sinklogs import LOG
from firesteel.adapters.spark.streams.snapshots.storefiles import Gone
from firesteel.adapters.storage.batchfiles import BatchFiles
from firesteel.adapters.storage.serving import NOTHING_SET
from firesteel.client.comparison import BatchRow, Row
from firesteel.client.delimited import Delimited
from firesteel.model.streams import SPARK_FILES, StreamOutput

FORMATS = ("parquet", "orc", "json", "csv", "text")
ROWS_AT_ONCE = 10_000
_COLUMNAR = ("parquet", "orc")
_OF_HADOOP = (".snappy", ".deflate", ".lz4")


class NotReadable(RuntimeError):
    """The output can't be read from here, or not up to the batch that was asked for; the text says why."""


def rows_of(
    output: StreamOutput,
    uid: str,
    after: int,
    up_to: int,
    savepoint: str = "",
    *,
    storage: Mapping[str, str] = NOTHING_SET,
) -> Iterator[BatchRow]:
    """Rows of the batches from `after` + 1 to `up_to`; `savepoint` is one of batch `after`, if any, and `storage` the settings by
    which it is reached in another storage. Raises NotReadable."""
    root = Path(output.place)
    if not root.is_dir():
        raise NotReadable(f"{output.place} is not to be seen from here: compare where the workers' directories are")
    if output.format not in FORMATS:
        raise NotReadable(f"{output.place} has files of {output.format}, and {', '.join(FORMATS)} can be compared")
    if output.kind == SPARK_FILES:
        named = _by_log(root, up_to, _named_in_savepoint(savepoint, uid, storage) if savepoint else ())
    else:
        named = _by_records(root, after, up_to)
    for batch, name in named:
        try:
            for row in _read(root / name, output):
                yield batch, {**row, **_partitions(os.path.relpath(root / name, root))}
        except FileNotFoundError:
            raise NotReadable(f"{root / name} is gone") from None


def _by_records(root: Path, after: int, up_to: int) -> Iterator[tuple[int, str]]:
    for batch, names in BatchFiles(root, 0).files().items():
        if after < batch <= up_to:
            yield from ((batch, name) for name in names)


def _by_log(root: Path, up_to: int, before: Collection[str]) -> Iterator[tuple[int, str]]:
    """Files that Spark's log names up to a batch, but for those that it named `before`. Of a log that was compacted
    meanwhile batches can't be told any more."""
    log = root / LOG
    try:
        names = log_files(os.listdir(log), up_to, LOG)
        for name in names:
            paths = _paths((log / name).read_text())
            yield from ((batch_of(name) or 0, path) for path in paths if path not in before)
    except (FileNotFoundError, Gone):
        raise NotReadable(
            f"the log of {root} can't be read up to batch {up_to}: it was compacted beyond that meanwhile; try again"
        ) from None


def _named_in_savepoint(savepoint: str, uid: str, storage: Mapping[str, str]) -> Collection[str]:
    try:
        place = place_at(savepoint, storage)
        query = query_of(place, uid)
        logs = [place.read(f"{query.directory}/{each.name}") for each in query.log_files]
    except (SnapshotError, FileNotFoundError) as error:
        raise NotReadable(f"what both had in common is in the savepoint of the branch: {error}") from None
    return frozenset(path for each in logs for path in _paths(each.decode()))


def _paths(log: str) -> list[str]:
    entries = [json.loads(line) for line in log.splitlines()[1:]]
    return [unquote(urlsplit(each["path"]).path) for each in entries if each["action"] == "add"]


def _partitions(name: str) -> Row:
    """Columns that are in the directory's names, as texts."""
    pairs = (part.partition("=") for part in name.split("/")[:-1])
    return {unquote(key): unquote(value) for key, sign, value in pairs if sign}


def _read(path: Path, output: StreamOutput) -> Iterator[Row]:
    """Raises FileNotFoundError, NotReadable."""
    if not path.exists():
        raise FileNotFoundError(path)
    try:
        yield from _columnar(path, output.format) if output.format in _COLUMNAR else _lines(path, output)
    except (
        ValueError,
        LookupError,
        OSError,
    ) as error:  # of pyarrow, too; of ORC it reads no time before 1677 or after 2262
        raise NotReadable(f"{path} can't be read for the comparison: {error}") from None


def _columnar(path: Path, form: str) -> Iterator[Row]:
    from pyarrow import dataset

    for batch in dataset.dataset(str(path), format=form).to_batches(batch_size=ROWS_AT_ONCE):
        for values in zip(*map(plain_values, batch.columns), strict=True):
            yield dict(zip(batch.schema.names, values, strict=True))


def _lines(path: Path, output: StreamOutput) -> Iterator[Row]:
    """Of JSON, CSV and text. What Hadoop alone unpacks is refused."""
    import pyarrow

    if path.suffix in _OF_HADOOP:
        raise ValueError(f"only Hadoop unpacks {path.suffix}")
    options = {name.lower(): value for name, value in output.options.items()}
    encoding, newline = options.get("encoding", options.get("charset", "UTF-8")), options.get("linesep", "\n")
    with pyarrow.input_stream(str(path), compression="detect") as file:
        text = io.TextIOWrapper(file, encoding=encoding, newline="\n")
        lines = _ended(text) if newline == "\n" else iter(text.read().removesuffix(newline).split(newline))
        match output.format:
            case "json":
                yield from (json.loads(line, parse_float=_number) for line in lines if line.strip())
            case "csv":
                yield from Delimited(options).rows(lines, newline)
            case _:
                yield from ({"value": line} for line in lines)


def _ended(text: Iterable[str]) -> Iterator[str]:
    return (line.removesuffix("\n") for line in text)


def _number(text: str) -> float | Decimal:
    """A float where it is this number: no two are taken for one."""
    value = float(text)
    return value if Decimal(repr(value)) == Decimal(text) else Decimal(text)
