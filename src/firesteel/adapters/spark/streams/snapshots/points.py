"""The last committed point of a query, and copies of it that Spark starts from, made while the query runs."""

import contextlib
import hashlib
import json
import os
import shutil
import time
import uuid
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from firesteel.adapters.spark.streams.snapshots import changelogs
from firesteel.adapters.spark.streams.snapshots.checkpointlog import (
    Operator,
    batch_of,
    commit_entry,
    offset_entry,
    operator,
    query_id,
    relocated,
)
from firesteel.adapters.spark.streams.snapshots.errors import (
    CheckpointDamaged,
    CheckpointMissing,
    NothingCommitted,
    SnapshotOvertaken,
    StorageUnsupported,
    TargetTaken,
    TargetUnwritable,
)
from firesteel.adapters.spark.streams.snapshots.listing import OFFSETS, Listing, listing_of
from firesteel.adapters.spark.streams.snapshots.partials import partial_directory
from firesteel.adapters.spark.streams.snapshots.placing import Placed, Placing, pins_beside
from firesteel.adapters.spark.streams.snapshots.pointfiles import (
    COMMITS,
    LOG_HEADING,
    METADATA,
    Kind,
    PointFacts,
    PointFile,
    operator_metadata,
    operators_of,
    point_files,
)
from firesteel.adapters.spark.streams.snapshots.storefiles import SNAPSHOT_OF_ROCKSDB, Gone, Lineage, named_files
from firesteel.adapters.storage.localdirectories import written_path
from firesteel.core.checkpoint.beginning import Missing, missing_file


class CommittedPoint(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint records of a query: enough to know it again, nothing is copied."""

    batch: int
    query_id: str
    commit_sha256: str
    """Of the file of the commit."""
    settings: dict[str, str]
    """What Spark pins in the log of offsets: shuffle partitions, state store provider, formats."""


BEGINNING = CommittedPoint(batch=-1, query_id="", commit_sha256="", settings={})
"""Of a query that has committed nothing: whoever goes on from it begins."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of a committed point: a checkpoint directory of its own."""

    directory: str
    point: CommittedPoint
    files: int
    linked: int
    """How many of them share their content with the original."""
    size_bytes: int
    attempts: int
    """1, or more if retention had overtaken it."""


@dataclass(frozen=True, slots=True)
class Copied:
    """A snapshot with its files by name, for a manifest."""

    snapshot: Snapshot
    placed: Mapping[str, Placed]


@dataclass(frozen=True, slots=True)
class Manner:
    """How a copy is made."""

    link: bool = True
    """Files that Spark never rewrites may be hard links."""
    digests: bool = False
    durable: bool = False
    query_id: str = ""
    """If not empty, the copy's query gets this id: for a branch that writes to sinks which go by it (Delta)."""
    home: str = ""
    """Where the copy will be at last, if not where it is made."""


def last_committed(checkpoint: str) -> int | None:
    """The last committed batch of the query with that checkpoint directory; None before the first."""
    try:
        names = os.listdir(local_path(checkpoint) / COMMITS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return max((number for number in map(batch_of, names) if number is not None), default=None)


def query_id_of(checkpoint: str) -> str:
    """Of the query with that checkpoint directory; empty before Spark has given it one. Raises CheckpointUnknown."""
    try:
        return query_id(_text(local_path(checkpoint), METADATA), METADATA)
    except Gone:
        return ""


def committed_point(checkpoint: str, batch: int | None = None) -> CommittedPoint:
    """The point after `batch`, or after the last committed one. Raises a SnapshotError."""
    source = local_path(checkpoint)
    number = _wanted(checkpoint, batch)
    try:
        return _read_point(source, number)
    except Gone as gone:
        if batch is None and last_committed(checkpoint) != number:
            return committed_point(checkpoint)
        raise CheckpointDamaged(checkpoint, number, gone.path) from None


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """A committed point that is whole: all files that it needs are there."""

    point: CommittedPoint
    size_bytes: int
    oldest_batch: int
    """The oldest one whose commit is there; -1 before the first."""


def survey(checkpoint: str, give_up_s: float = 0.0) -> Survey:
    """The last committed point of the query with that checkpoint directory, which may be running. Where retention overtakes
    it, it looks again at the newest one, until `give_up_s` of the monotonic clock if that is to come, some times at least.
    Raises a SnapshotError."""
    attempt = 0
    while (number := last_committed(checkpoint)) is not None:
        attempt += 1
        try:
            return _survey(local_path(checkpoint), number)
        except Gone as gone:
            what = missing_file(number, last_committed(checkpoint), attempt)
            if what is not Missing.TOO_OFTEN or time.monotonic() >= give_up_s:
                _bear(gone, checkpoint, number, what, attempt)
    if not local_path(checkpoint).is_dir():
        raise CheckpointMissing(checkpoint)
    return Survey(point=BEGINNING, size_bytes=0, oldest_batch=-1)


def _bear(gone: Gone, checkpoint: str, batch: int, what: Missing, copies: int) -> None:
    """Nothing, where it is to begin again. Raises CheckpointDamaged, SnapshotOvertaken."""
    if what is Missing.DAMAGED:
        raise CheckpointDamaged(checkpoint, batch, gone.path) from None
    if what is Missing.TOO_OFTEN:
        raise SnapshotOvertaken(checkpoint, batch, gone.path, copies) from None


def _survey(checkpoint: Path, batch: int) -> Survey:
    listing = listing_of(checkpoint)
    files = point_files(listing, read_facts(checkpoint, listing, batch), _Lineages(checkpoint))
    size_bytes = 0
    for file in (each for each in files if each.kind is not Kind.PRETENDED):
        with contextlib.nullcontext() if file.needed else contextlib.suppress(Gone):
            size_bytes += _size(checkpoint, file.path)
            if _names_others(file):
                size_bytes += _size_of_named(checkpoint, file.path)
    commits = (batch_of(name) for name in os.listdir(checkpoint / COMMITS))
    oldest = min((number for number in commits if number is not None), default=batch)
    return Survey(point=_read_point(checkpoint, batch), size_bytes=size_bytes, oldest_batch=oldest)


def _size_of_named(checkpoint: Path, snapshot: str) -> int:
    """Raises Gone where one of them is not what the snapshot says."""
    named = _named(checkpoint / snapshot, snapshot)
    for path, size in named.items():
        if _size(checkpoint, path) != size:
            raise Gone(path)
    return sum(named.values())


def _size(checkpoint: Path, name: str) -> int:
    try:
        return os.stat(checkpoint / name).st_size
    except FileNotFoundError:
        raise Gone(name) from None


def copy_point(
    source: str, target: str, batch: int | None = None, *, link: bool = True, query_id: str = ""
) -> Snapshot:
    """Make `target` a checkpoint directory that a query goes on from at the batch after `batch`, or after the last
    committed one of `source`, whose query may be running. `target` is there whole, or not at all.

    With `link` files that Spark never rewrites are hard links where both are on one file system: next to no time and
    space; else copies. `query_id`, if given, becomes the id of the copy's query.
    Raises a SnapshotError.
    """
    place = local_path(target)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise TargetTaken(target)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with partial_directory(place.parent) as partial:
            manner = Manner(link=link, query_id=query_id, home=str(place))
            copied = copy_into(source, partial, batch, manner)
            os.rename(partial, place)
    except OSError as error:
        raise TargetUnwritable(target, error) from error
    return msgspec.structs.replace(copied.snapshot, directory=str(place))


def copy_into(source: str, partial: Path, batch: int | None, manner: Manner) -> Copied:
    """The same into an empty directory of the caller's. Raises a SnapshotError or OSError."""
    attempt = 0
    while True:
        attempt += 1
        number = _wanted(source, batch)
        try:
            return _attempt(local_path(source), partial, number, manner, attempt)
        except Gone as gone:
            what = missing_file(number, last_committed(source), attempt, is_fixed=batch is not None)
            _bear(gone, source, number, what, attempt)


def _attempt(checkpoint: Path, partial: Path, batch: int, manner: Manner, attempt: int) -> Copied:
    made = partial / f"attempt-{attempt}"
    try:
        placed = _copy(checkpoint, made, batch, manner)
        point = _read_point(made, batch)
    except Gone:
        shutil.rmtree(made, ignore_errors=True)
        raise
    for name in os.listdir(made):
        os.rename(made / name, partial / name)
    made.rmdir()
    snapshot = Snapshot(
        directory=str(partial),
        point=point,
        files=len(placed),
        linked=sum(each.linked for each in placed.values()),
        size_bytes=sum(each.size_bytes for each in placed.values()),
        attempts=attempt,
    )
    return Copied(snapshot, placed)


def _copy(checkpoint: Path, made: Path, batch: int, manner: Manner) -> dict[str, Placed]:
    made.mkdir()
    listing = listing_of(checkpoint)
    files = point_files(listing, read_facts(checkpoint, listing, batch), _Lineages(checkpoint))
    with pins_beside(checkpoint) as pins:
        placing = Placing(checkpoint, made, manner.link, manner.digests, manner.durable, pins)
        for file in files:
            _place(placing, file, manner)
        return placing.finish()


def _place(placing: Placing, file: PointFile, manner: Manner) -> None:
    with contextlib.nullcontext() if file.needed else contextlib.suppress(Gone):
        if file.kind is Kind.RELOCATED:
            placing.write(file.path, relocated(_text(placing.source, file.path), manner.home).encode())
        elif file.kind is Kind.PRETENDED:
            placing.write(file.path, LOG_HEADING.encode())
        elif file.path == METADATA and manner.query_id:
            placing.write(file.path, json.dumps({"id": manner.query_id}).encode())
        else:
            placing.take(file.path, immutable=file.kind is Kind.IMMUTABLE)
        if _names_others(file):
            _take_named(placing, file.path)


def _take_named(placing: Placing, snapshot: str) -> None:
    """What a snapshot of RocksDB names, of the very snapshot that was taken: it may be another by now."""
    for path, size in _named(placing.held(snapshot), snapshot).items():
        placing.take(path, immutable=True)
        if placing.size_of(path) != size:
            raise Gone(path)


def _names_others(file: PointFile) -> bool:
    return file.path.endswith(SNAPSHOT_OF_ROCKSDB) and file.kind is Kind.IMMUTABLE


def _named(archived: Path, snapshot: str) -> dict[str, int]:
    """Sizes of the files that a snapshot of RocksDB names, by their paths in the checkpoint. Raises Gone if it can't be read."""
    try:
        with zipfile.ZipFile(archived) as archive:
            named = named_files(archive.read("metadata").decode(), _mapping)
    except (zipfile.BadZipFile, KeyError, FileNotFoundError):
        raise Gone(snapshot) from None
    directory = snapshot.rpartition("/")[0]
    return {f"{directory}/{name}": size for name, size in named.items()}


@dataclass(frozen=True, slots=True)
class _Lineages:
    checkpoint: Path

    def __call__(self, path: str) -> Lineage | None:
        try:
            with open(self.checkpoint / path, "rb") as file:
                return changelogs.lineage(file, path)
        except FileNotFoundError:
            raise Gone(path) from None


def read_facts(checkpoint: Path, listing: Listing, batch: int) -> PointFacts:
    """What the logs say about the point after `batch`. Raises Gone, CheckpointUnknown."""
    operators: dict[str, Operator] = {}
    for name in operators_of(listing):
        path = operator_metadata(listing, name, batch)
        operators[name] = operator(_text(checkpoint, path), path)
    offsets, commits = f"{OFFSETS}/{batch}", f"{COMMITS}/{batch}"
    return PointFacts(
        batch=batch,
        offset=offset_entry(_text(checkpoint, offsets), offsets),
        commit=commit_entry(_text(checkpoint, commits), commits),
        operators=operators,
    )


def _read_point(checkpoint: Path, batch: int) -> CommittedPoint:
    commit = _text(checkpoint, f"{COMMITS}/{batch}")
    offsets = f"{OFFSETS}/{batch}"
    return CommittedPoint(
        batch=batch,
        query_id=query_id(_text(checkpoint, METADATA), METADATA),
        commit_sha256=hashlib.sha256(commit.encode()).hexdigest(),
        settings=dict(offset_entry(_text(checkpoint, offsets), offsets).settings),
    )


def _wanted(checkpoint: str, batch: int | None) -> int:
    last = last_committed(checkpoint)
    if last is None or (batch is not None and batch > last):
        raise NothingCommitted(checkpoint)
    return last if batch is None else batch


def _text(checkpoint: Path, path: str) -> str:
    try:
        return (checkpoint / path).read_text()
    except FileNotFoundError:
        raise Gone(path) from None


def _mapping(text: str) -> Mapping[str, Any]:
    return msgspec.json.decode(text, type=dict[str, Any])


def new_query_id() -> str:
    return str(uuid.uuid4())


def local_path(location: str) -> Path:
    """The directory that an absolute path or `file:` URI names, as Spark reads it. Raises StorageUnsupported."""
    scheme, plain = written_path(location)
    path = Path(plain)
    if scheme not in ("", "file") or not path.is_absolute():
        raise StorageUnsupported(location)
    return path
