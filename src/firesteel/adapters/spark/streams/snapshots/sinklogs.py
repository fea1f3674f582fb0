"""The log of Spark's own streaming file sink, which lies in the sink's output and not in the checkpoint.

`OUT/_spark_metadata` names the files that count, batch by batch. A query that goes on from an older point finds batches
there that it is yet to run, and writes nothing for them, whatever they hold now: so the log up to the point belongs to a
savepoint, and is put back before the query starts.
"""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from firesteel.adapters.spark.streams.snapshots.checkpointlog import COMPACT_SUFFIX, batch_of
from firesteel.adapters.spark.streams.snapshots.errors import OutputRefused, TargetUnwritable
from firesteel.adapters.spark.streams.snapshots.manifest import SavepointFile, SavepointQuery, SinkLog
from firesteel.adapters.spark.streams.snapshots.partials import partial_directory
from firesteel.adapters.spark.streams.snapshots.placing import Placing
from firesteel.adapters.spark.streams.snapshots.pointfiles import LOG_HEADING, log_files, pretended_compaction
from firesteel.adapters.spark.streams.snapshots.points import local_path
from firesteel.adapters.storage.swap import put_in_place
from firesteel.model.counts import counted

LOG = "_spark_metadata"
SINK_LOG = "sink-log"
"""The log's directory in the part of a savepoint that is the query's."""
COMPACT_INTERVAL = 10
"""Spark's default for spark.sql.streaming.fileSink.log.compactInterval."""


def last_written(output: str) -> int:
    """The last batch that the log of `output` knows; -1 where there is none. Raises StorageUnsupported."""
    try:
        names = os.listdir(local_path(output) / LOG)
    except FileNotFoundError:
        return -1
    return max((number for number in map(batch_of, names) if number is not None), default=-1)


def take(output: str, batch: int, part: Path, elsewhere: Path | None = None) -> tuple[SinkLog, list[SavepointFile]]:
    """Copy what the log held at `batch` into `part`/sink-log: nothing at -1. It lies in the output, or `elsewhere`. Raises
    Gone where it has not all of that (any more), OutputRefused or OSError."""
    if batch < 0:
        return SinkLog(output=str(local_path(output)), directory=SINK_LOG), []
    log = elsewhere or local_path(output) / LOG
    if not log.is_dir():
        raise OutputRefused(output, f"it has no {LOG}: Spark's own file sink has never written there")
    (part / SINK_LOG).mkdir()
    placing = Placing(log, part / SINK_LOG, link=False, digests=True, durable=True)
    names = log_files(os.listdir(log), batch, LOG)
    for name in names:
        placing.take(name, immutable=True)
    for name in pretended_compaction(names):
        placing.write(name, LOG_HEADING.encode())
    placed = placing.finish()
    files = [SavepointFile(f"{SINK_LOG}/{name}", each.size_bytes, each.sha256) for name, each in placed.items()]
    return SinkLog(output=str(local_path(output)), directory=SINK_LOG), files


def put_back(log: Path, query: SavepointQuery, output: str, *, compact_interval: int = COMPACT_INTERVAL) -> None:
    """Make the log of `output` fit the point of `query`, before the query starts there.

    In the output that the query wrote to, the log becomes what it was: files of later batches stay, and are named by it no
    longer. A new output begins with what comes after the point: its log is one that knows of the batches before, and of no
    file. `log` is where the savepoint's is, if it has any file; `compact_interval` is the sink's, if the session sets it.
    Raises OutputRefused, TargetUnwritable.
    """
    check_fit(log, query, output, compact_interval=compact_interval)
    place = local_path(output)
    try:
        place.mkdir(parents=True, exist_ok=True)
        with partial_directory(place) as partial:
            saved = _saved_log(log, query, output)
            if saved is None:
                for name in _beginning(query.point.batch, compact_interval):
                    (partial / name).write_text(LOG_HEADING)
            else:
                for name in _listed(saved):
                    shutil.copyfile(saved / name, partial / name)
            put_in_place(partial, place / LOG, place / f".{LOG}.replaced")
            shutil.rmtree(place / f".{LOG}.replaced", ignore_errors=True)
    except OSError as error:
        raise TargetUnwritable(output, error) from error


def check_fit(log: Path, query: SavepointQuery, output: str, *, compact_interval: int = COMPACT_INTERVAL) -> None:
    """Whether the log of `output` can be made to fit; nothing is touched. Raises OutputRefused."""
    saved = _saved_log(log, query, output)
    if saved is None:
        there = local_path(output) / LOG
        if there.exists() and not _is_just_begun(there, _beginning(query.point.batch, compact_interval)):
            raise OutputRefused(
                output,
                f"it has a {LOG} of another query, or of a savepoint taken without it; name the output that the"
                " savepoint's query wrote to, or a directory that nobody has streamed to",
            )
        return
    missing = [path for path in _named(saved) if not os.path.exists(path)]
    if missing:
        raise OutputRefused(
            output,
            f"of what its log held {counted(len(missing), 'file')} cannot be found, {missing[0]} for one, so rows would be"
            " missing; restore what is gone, or give the query a new output",
        )


def _saved_log(log: Path, query: SavepointQuery, output: str) -> Path | None:
    """The savepoint's log of `output`; None of an output that is not the one that the query wrote to."""
    known = query.sink_log
    if known is None or os.path.realpath(local_path(output)) != os.path.realpath(known.output):
        return None
    return log


def _named(saved: Path) -> Iterator[str]:
    """Files of this machine that a log names and has not deleted."""
    kept: dict[str, None] = {}
    for name in sorted((each for each in _listed(saved) if batch_of(each) is not None), key=lambda n: batch_of(n) or 0):
        for line in (saved / name).read_text().splitlines()[1:]:
            entry = json.loads(line)
            parts = urlsplit(entry["path"])
            if parts.scheme not in ("", "file"):
                continue
            if entry["action"] == "add":
                kept[unquote(parts.path)] = None
            else:
                kept.pop(unquote(parts.path), None)
    return iter(kept)


def _listed(saved: Path) -> list[str]:
    """A log without any file needs no directory in the savepoint."""
    return os.listdir(saved) if saved.is_dir() else []


def _beginning(batch: int, interval: int) -> list[str]:
    """Files of a log of empty batches up to `batch`, compacted where Spark looks for that: at multiples of the interval."""
    last_compacted = (batch + 1) // interval * interval - 1
    compacted = [f"{last_compacted}{COMPACT_SUFFIX}"] if last_compacted >= 0 else []
    return compacted + [str(number) for number in range(last_compacted + 1, batch + 1)]


def _is_just_begun(log: Path, names: list[str]) -> bool:
    """Whether it is one that an attempt has begun which never ran: it knows of the same batches, and of no file."""
    found = sorted(name for name in os.listdir(log) if not name.startswith("."))
    return found == sorted(names) and all((log / name).read_text() == LOG_HEADING for name in found)
