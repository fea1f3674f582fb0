"""Savepoints: copies of the points of a job's queries in one directory, with a manifest that is written last.

Each query's part is a checkpoint directory as Spark itself knows it. A savepoint holds relative names only, so it can be
moved as a whole; what Spark names by absolute paths (schemas of `transformWithState`) is put right by `restore`.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import msgspec

from firesteel.adapters.spark.streams.snapshots import sinklogs
from firesteel.adapters.spark.streams.snapshots.checkpointlog import offset_entry, relocated
from firesteel.adapters.spark.streams.snapshots.errors import (
    CheckpointMissing,
    NoSavepoint,
    OutputRefused,
    QueryUnknown,
    SavepointDamaged,
    SavepointGivenUp,
    SavepointShared,
    SparkTooOld,
    TargetTaken,
    TargetUnwritable,
)
from firesteel.adapters.spark.streams.snapshots.fences import is_planned
from firesteel.adapters.spark.streams.snapshots.listing import listing_of
from firesteel.adapters.spark.streams.snapshots.manifest import (
    CLAIM_FILE,
    MANIFEST,
    VERSION,
    SavepointFile,
    SavepointHeader,
    SavepointManifest,
    SavepointQuery,
    decode,
    encode,
)
from firesteel.adapters.spark.streams.snapshots.partials import PREFIX, partial_directory
from firesteel.adapters.spark.streams.snapshots.placing import COPY_THREADS, Placed, Placing
from firesteel.adapters.spark.streams.snapshots.pointfiles import METADATA, OFFSETS, SOURCES, Kind, kind_of, log_files
from firesteel.adapters.spark.streams.snapshots.points import (
    BEGINNING,
    Manner,
    copy_into,
    last_committed,
    local_path,
)
from firesteel.adapters.spark.streams.snapshots.storefiles import Gone
from firesteel.adapters.storage.durability import sync
from firesteel.core.checkpoint.beginning import COPIES_MAX, Missing, missing_file
from firesteel.model.streams import RETAINED_NAME

QUERIES = "queries"
_UID_CHARACTERS_MAX = 80


def write_savepoint(
    target: str,
    queries: Mapping[str, str],
    header: SavepointHeader,
    *,
    link: bool = True,
    outputs: Mapping[str, str | tuple[str, Path]] | None = None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> SavepointManifest:
    """Make `target` a savepoint of the queries: their checkpoint directories by uid. It is there whole, or not at all.

    `link`: on the file system of a checkpoint, files are linked and not read, so their digests are missing until `seal`.
    `outputs`: directories to which queries write with Spark's own file sink, by uid; its logs belong to the savepoint. A log
    that lies elsewhere is told with its directory.
    `is_wanted` is asked before it gets its name: it may have been given up meanwhile.
    Raises a SnapshotError.
    """
    place = local_path(target)
    if os.path.lexists(place):
        raise TargetTaken(target)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with partial_directory(place.parent) as partial:
            parts = [
                _write_whole(number, uid, checkpoint, (partial, place), header, (outputs or {}).get(uid), link=link)
                for number, (uid, checkpoint) in enumerate(queries.items())
            ]
            manifest = _manifest(header, tuple(parts))
            _publish(partial, manifest)
            if not is_wanted():
                raise SavepointGivenUp(target, "it took too long, and was given up")
            os.rename(partial, place)
        sync(place.parent)
    except OSError as error:
        raise TargetUnwritable(target, error) from error
    return manifest


def read_manifest(path: str) -> SavepointManifest:
    """Raises NoSavepoint."""
    try:
        data = (local_path(path) / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise NoSavepoint(path, f"it has no {MANIFEST}") from None
    return decode(data, path)


def check_spark(path: str, manifest: SavepointManifest, here: str) -> None:
    """Whether Spark of the version `here` goes on from it: Spark reads what a version before it has written, and no later one.
    Raises SparkTooOld."""
    saved, own = (tuple(map(int, re.findall(r"\d+", version)[:2])) for version in (manifest.spark_version, here))
    if saved > own:
        raise SparkTooOld(path, manifest.spark_version, here)


def verify(path: str, *, digests: bool = True) -> SavepointManifest:
    """Compare every file with the manifest: sizes, and digests where it has them. Raises NoSavepoint, SavepointDamaged."""
    manifest = read_manifest(path)
    root = local_path(path)
    with ThreadPoolExecutor(COPY_THREADS, thread_name_prefix="verify") as threads:
        found = threads.map(lambda each: _problem(root, *each, digests=digests), _files(manifest))
    problems = tuple(problem for problem in found if problem)
    if problems:
        raise SavepointDamaged(path, problems)
    return manifest


def seal(path: str) -> SavepointManifest:
    """Read what was linked, and note its digests: so that whoever moves the savepoint can tell whether it arrived.

    Raises NoSavepoint, SavepointDamaged, TargetUnwritable.
    """
    manifest = verify(path, digests=False)
    root = local_path(path)
    with ThreadPoolExecutor(COPY_THREADS, thread_name_prefix="seal") as threads:
        queries = tuple(
            msgspec.structs.replace(
                query, files=tuple(threads.map(lambda file, q=query: _sealed(root / q.directory, file), query.files))
            )
            for query in manifest.queries
        )
    sealed = msgspec.structs.replace(manifest, queries=queries)
    try:
        _publish(root, sealed)
    except OSError as error:
        raise TargetUnwritable(path, error) from error
    return sealed


def restore(savepoint: str, uid: str, target: str, *, link: bool = True, query_id: str = "") -> SavepointQuery:
    """Make `target` the checkpoint directory of the query `uid`, as it was, but for the `query_id`, if one is given. Copies are
    compared with the manifest.

    The savepoint may be disposed of afterwards. Raises NoSavepoint, QueryUnknown, SavepointDamaged, TargetTaken,
    TargetUnwritable.
    """
    query = query_of(savepoint, uid)
    place, root = local_path(target), local_path(savepoint)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise TargetTaken(target)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with partial_directory(place.parent) as partial:
            _restore_into(root / query.directory, partial, query, (place, link))
            if query_id:
                (partial / METADATA).write_text(json.dumps({"id": query_id}))
            os.rename(partial, place)
    except Gone as gone:
        raise SavepointDamaged(savepoint, (f"{query.directory}/{gone.path} is missing",)) from None
    except OSError as error:
        raise TargetUnwritable(target, error) from error
    return query


def query_of(savepoint: str, uid: str) -> SavepointQuery:
    """Raises NoSavepoint, QueryUnknown."""
    manifest = read_manifest(savepoint)
    found = next((query for query in manifest.queries if query.uid == uid), None)
    if found is None:
        raise QueryUnknown(savepoint, uid, tuple(query.uid for query in manifest.queries))
    return found


def dispose(path: str) -> None:
    """Delete a savepoint, and nothing else. Raises NoSavepoint, SavepointShared, TargetUnwritable."""
    manifest = read_manifest(path)
    root = local_path(path)
    known = {*_names(manifest), MANIFEST, CLAIM_FILE}
    others = sorted(name for name in _all_files(root) if name not in known and not _is_hidden(name))
    if others:
        raise SavepointShared(path, tuple(others))
    try:
        with partial_directory(root.parent) as gone:
            os.rename(
                root, gone / root.name
            )  # from here on it is no savepoint, and the next one here clears what a death leaves
            sync(root.parent)
            shutil.rmtree(gone)
    except OSError as error:
        raise TargetUnwritable(path, error) from error
    if RETAINED_NAME.fullmatch(root.name):
        with contextlib.suppress(OSError):  # its job's directory has others, or has a new job's
            root.parent.rmdir()


def _write_whole(
    number: int,
    uid: str,
    checkpoint: str,
    places: tuple[Path, Path],
    header: SavepointHeader,
    output: str | tuple[str, Path] | None,
    *,
    link: bool,
) -> SavepointQuery:
    """A query's part with the log of its output; begun again when that has been compacted past the point meanwhile."""
    copies = 0
    while True:
        copies += 1
        part = _write_query(number, uid, checkpoint, places, header, link)
        try:
            return _with_log(part, output, places[0])
        except Gone as gone:
            if missing_file(part.point.batch, last_committed(checkpoint), copies) is not Missing.OVERTAKEN:
                place = output if isinstance(output, str) else checkpoint
                raise OutputRefused(place, f"{gone.path} of its log is missing") from None
            shutil.rmtree(places[0] / part.directory)


def _write_query(
    number: int, uid: str, checkpoint: str, places: tuple[Path, Path], header: SavepointHeader, link: bool
) -> SavepointQuery:
    partial, place = places
    directory = f"{QUERIES}/{number}-{quote(uid, safe='')[:_UID_CHARACTERS_MAX]}"
    part = partial / directory
    part.mkdir(parents=True)
    point, placed = BEGINNING, dict[str, Placed]()
    if last_committed(checkpoint) is not None:
        copied = copy_into(
            checkpoint, part, None, Manner(link, digests=True, durable=True, home=str(place / directory))
        )
        point, placed = copied.snapshot.point, {**copied.placed}
    elif not local_path(checkpoint).is_dir():
        raise CheckpointMissing(checkpoint)
    placed |= _planned(checkpoint, part, point.batch)
    files = (SavepointFile(name, each.size_bytes, each.sha256) for name, each in sorted(placed.items()))
    return SavepointQuery(
        uid=uid,
        directory=directory,
        point=point,
        files=tuple(files),
        fingerprint=header.fingerprints.get(uid, ""),
        attempt=header.attempts.get(uid, -1),
    )


def _planned(checkpoint: str, part: Path, batch: int) -> dict[str, Placed]:
    """Take along the batch that is planned after the point, if one is: a sink that knows batches by their number may have
    written it, so it has to run again with the same rows. One that has gone meanwhile is done, and need not."""
    source = local_path(checkpoint)
    for _ in range(COPIES_MAX):  # a log of a source may be compacted meanwhile: then it is listed again
        if not is_planned(source, batch + 1):
            break
        placing = Placing(source, part, link=False, digests=True, durable=True)
        try:
            for name in _planned_files(source, batch):
                if not (part / name).exists():
                    placing.take(name, immutable=False)
            return placing.finish()
        except (Gone, FileNotFoundError):
            for name in placing.taken:
                (part / name).unlink(missing_ok=True)
    return {}


def _planned_files(source: Path, batch: int) -> Iterator[str]:
    """What the batch after `batch` needs besides the point: of sources what their logs hold up to its end, of others everything.
    Raises Gone or FileNotFoundError."""
    planned = f"{OFFSETS}/{batch + 1}"
    yield planned
    if batch < 0:
        yield METADATA
    ends = offset_entry((source / planned).read_text(), planned).log_ends
    listing = listing_of(source)
    for name in listing.below(SOURCES):
        directory = f"{SOURCES}/{name}"
        if name in ends:
            yield from (f"{directory}/{each}" for each in log_files(listing.files(directory), ends[name], directory))
        else:
            yield from listing.everything(directory)


def _with_log(query: SavepointQuery, output: str | tuple[str, Path] | None, partial: Path) -> SavepointQuery:
    if output is None:
        return query
    place, elsewhere = (output, None) if isinstance(output, str) else output
    log, files = sinklogs.take(place, query.point.batch, partial / query.directory, elsewhere)
    return msgspec.structs.replace(query, sink_log=log, files=(*query.files, *files))


def _manifest(header: SavepointHeader, queries: tuple[SavepointQuery, ...]) -> SavepointManifest:
    return SavepointManifest(
        version=VERSION,
        job_id=header.job_id,
        job_name=header.job_name,
        spark_version=header.spark_version,
        created_ms=header.created_ms,
        vertices=header.vertices,
        queries=queries,
    )


def _publish(root: Path, manifest: SavepointManifest) -> None:
    """The manifest, in one step, on the disk; and with it, where file systems keep a journal, the names made before."""
    written = root / f".{MANIFEST}.new"
    with open(written, "wb") as file:
        file.write(encode(manifest))
        file.flush()
        os.fsync(file.fileno())
    os.rename(written, root / MANIFEST)
    sync(root)


def _restore_into(source: Path, partial: Path, query: SavepointQuery, manner: tuple[Path, bool]) -> None:
    place, link = manner
    placing = Placing(source, partial, link, digests=True, durable=False)
    expected = {}
    for file in query.files:
        if query.sink_log is not None and file.name.startswith(f"{query.sink_log.directory}/"):
            continue
        kind = kind_of(file.name)
        if kind is Kind.RELOCATED:
            placing.write(file.name, relocated((source / file.name).read_text(), str(place)).encode())
        else:
            expected[file.name] = file
            placing.take(file.name, immutable=kind is Kind.IMMUTABLE)
    for name, placed in placing.finish().items():
        file = expected.get(name, SavepointFile(name, placed.size_bytes))
        if placed.size_bytes != file.size_bytes or (placed.sha256 and file.sha256 and placed.sha256 != file.sha256):
            raise SavepointDamaged(str(source), (f"{name} is not what was written",))


def _problem(root: Path, directory: str, file: SavepointFile, *, digests: bool) -> str:
    name = f"{directory}/{file.name}"
    try:
        size = os.stat(root / name).st_size
        if size != file.size_bytes:
            return f"{name} has {size} bytes instead of {file.size_bytes}"
        if digests and file.sha256 and _digest(root / name) != file.sha256:
            return f"{name} is not what was written"
    except FileNotFoundError:
        return f"{name} is missing"
    return ""


def _sealed(directory: Path, file: SavepointFile) -> SavepointFile:
    return file if file.sha256 else SavepointFile(file.name, file.size_bytes, _digest(directory / file.name))


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _files(manifest: SavepointManifest) -> Iterator[tuple[str, SavepointFile]]:
    for query in manifest.queries:
        for file in query.files:
            yield query.directory, file


def _names(manifest: SavepointManifest) -> Iterable[str]:
    return [f"{directory}/{file.name}" for directory, file in _files(manifest)]


def _all_files(root: Path) -> Iterator[str]:
    for parent, _, names in os.walk(root):
        for name in names:
            yield os.path.relpath(os.path.join(parent, name), root)


def _is_hidden(name: str) -> bool:
    """Checksums of the local file system, which whoever looked at it with Spark has left; and our own partial ones."""
    last = name.rpartition("/")[2]
    return (last.startswith(".") and last.endswith(".crc")) or any(part.startswith(PREFIX) for part in Path(name).parts)
