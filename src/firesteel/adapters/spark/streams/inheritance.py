"""What a query that starts from a savepoint has of it besides its checkpoint, until it is looked at: its plan's fingerprint, and the
log of Spark's own file sink.

A job can be saved again before its code was imported, when nobody knows yet what its plan is and where it writes. Then these
are what they were; the savepoint they are from may be gone by that time.
"""

import os
import shutil
from pathlib import Path

import msgspec

from firesteel.adapters.spark.streams.notes import fingerprint_of
from firesteel.adapters.spark.streams.snapshots.manifest import SavepointQuery
from firesteel.adapters.spark.streams.snapshots.partials import partial_directory
from firesteel.adapters.spark.streams.snapshots.places import Location, place_at
from firesteel.adapters.spark.streams.snapshots.points import last_committed
from firesteel.adapters.spark.streams.snapshots.savepoints import fetch_log, query_of

_NAME, _QUERY, _LOG = "restored", "query.json", "sink-log"
"""Beside the checkpoints of a query's attempts."""


def keep(home: Path, savepoint: Location) -> None:
    """Keep it beside the checkpoints in `home`, which are about to be made from the savepoint. Raises a SnapshotError or
    OSError."""
    place = place_at(savepoint)
    query = query_of(place, home.name)
    home.mkdir(parents=True, exist_ok=True)
    with partial_directory(home) as made:
        (made / _QUERY).write_bytes(msgspec.json.encode(msgspec.structs.replace(query, files=())))
        fetch_log(place, query, made / _LOG)
        shutil.rmtree(home / _NAME, ignore_errors=True)
        os.rename(made, home / _NAME)


def kept(home: Path) -> SavepointQuery | None:
    """What is kept of the savepoint that the query began with; its files are not told."""
    try:
        return msgspec.json.decode((home / _NAME / _QUERY).read_bytes(), type=SavepointQuery)
    except FileNotFoundError:
        return None


def kept_log(home: Path, checkpoint: str) -> tuple[str, Path] | None:
    """The output and its log as they were, of a query that is still where it began."""
    query = kept(home)
    committed = last_committed(checkpoint)
    if query is None or query.sink_log is None or query.point.batch != (-1 if committed is None else committed):
        return None
    return query.sink_log.output, log_beside(home)


def log_beside(home: Path) -> Path:
    """Where the log of its output is that is kept of the savepoint; a log without any file is not there."""
    return home / _NAME / _LOG


def known_fingerprint(home: Path) -> str | None:
    """Before it is known, that of the savepoint that the query began with."""
    found, before = fingerprint_of(home), kept(home)
    return before.fingerprint if found is None and before is not None else found
