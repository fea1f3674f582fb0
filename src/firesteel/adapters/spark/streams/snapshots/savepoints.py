"""Savepoints: copies of the points of a job's queries in one place, with a manifest that is written last.

Each query's part is a checkpoint directory as Spark itself knows it. A savepoint holds relative names only, so it can be
moved as a whole; what Spark names by absolute paths (schemas of `transformWithState`) is put right by `restore`.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from firesteel.adapters.spark.streams.snapshots.checkpointlog import relocated
from firesteel.adapters.spark.streams.snapshots.errors import (
    NoSavepoint,
    QueryUnknown,
    SavepointDamaged,
    SavepointShared,
    SparkTooOld,
    TargetTaken,
    TargetUnwritable,
)
from firesteel.adapters.spark.streams.snapshots.manifest import (
    CLAIM_FILE,
    MANIFEST,
    VERSION,
    SavepointFile,
    SavepointHeader,
    SavepointManifest,
    SavepointQuery,
    decode,
)
from firesteel.adapters.spark.streams.snapshots.partials import partial_directory
from firesteel.adapters.spark.streams.snapshots.parts import Parts
from firesteel.adapters.spark.streams.snapshots.places import Location, place_at
from firesteel.adapters.spark.streams.snapshots.placing import COPY_THREADS, Placed, Placing
from firesteel.adapters.spark.streams.snapshots.pointfiles import METADATA, Kind, kind_of
from firesteel.adapters.spark.streams.snapshots.points import local_path
from firesteel.adapters.spark.streams.snapshots.storefiles import Gone


def write_savepoint(
    target: Location,
    queries: Mapping[str, str],
    header: SavepointHeader,
    *,
    link: bool = True,
    outputs: Mapping[str, str | tuple[str, Path]] | None = None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> SavepointManifest:
    """Make `target` a savepoint of the queries: their checkpoint directories by uid. It is there whole, or not at all.

    `link`: on the file system of a checkpoint, files are linked and not read; in a directory their digests are missing until
    `seal`. `outputs`: directories to which queries write with Spark's own file sink, by uid; its logs belong to the savepoint.
    A log that lies elsewhere is told with its directory.
    `is_wanted` is asked before it gets its name: it may have been given up meanwhile.
    Raises a SnapshotError.
    """
    place = place_at(target)
    if place.is_taken():
        raise TargetTaken(str(place))
    try:
        with place.making(tuple(queries.values())) as made:
            parts = Parts(made, place.queries, place.path, header, link)
            written = [
                parts.write(number, uid, checkpoint, (outputs or {}).get(uid))
                for number, (uid, checkpoint) in enumerate(queries.items())
            ]
            return place.publish(made, _manifest(header, tuple(written)), is_wanted)
    except OSError as error:
        raise TargetUnwritable(str(place), error) from error


def read_manifest(location: Location) -> SavepointManifest:
    """Raises NoSavepoint, or StorageFailed."""
    place = place_at(location)
    try:
        data = place.read(MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        raise NoSavepoint(str(place), f"it has no {MANIFEST}") from None
    return decode(data, str(place))


def check_spark(path: str, manifest: SavepointManifest, here: str) -> None:
    """Whether Spark of the version `here` goes on from it: Spark reads what a version before it has written, and no later one.
    Raises SparkTooOld."""
    saved, own = (tuple(map(int, re.findall(r"\d+", version)[:2])) for version in (manifest.spark_version, here))
    if saved > own:
        raise SparkTooOld(path, manifest.spark_version, here)


def verify(location: Location, *, digests: bool = True) -> SavepointManifest:
    """Compare every file with the manifest: sizes, and digests where it has them. Raises NoSavepoint, SavepointDamaged,
    StorageFailed."""
    place = place_at(location)
    manifest = read_manifest(place)
    files = manifest.files
    sizes = place.sizes([file.name for file in files])
    problems = tuple(problem for file in files if (problem := file.wrong_size(sizes)))
    if digests:
        right = [file for file in files if file.sha256 and sizes.get(file.name) == file.size_bytes]
        with ThreadPoolExecutor(COPY_THREADS, thread_name_prefix="verify") as threads:
            found = threads.map(lambda file: place.digest(file) != file.sha256, right)
            problems += tuple(
                f"{file.name} is not what was written" for file, bad in zip(right, found, strict=True) if bad
            )
    if problems:
        raise SavepointDamaged(str(place), problems)
    return manifest


def seal(location: Location) -> SavepointManifest:
    """Read what was linked, and note its digests: so that whoever moves the savepoint can tell whether it arrived.

    Raises NoSavepoint, SavepointDamaged, TargetUnwritable, StorageFailed.
    """
    place = place_at(location)
    manifest = verify(place, digests=False)
    with ThreadPoolExecutor(COPY_THREADS, thread_name_prefix="seal") as threads:
        digests = threads.map(lambda file: file.sha256 or place.digest(file), manifest.files)
        sealed = manifest.with_digests(dict(zip((file.name for file in manifest.files), digests, strict=True)))
    try:
        place.replace_manifest(sealed)
    except OSError as error:
        raise TargetUnwritable(str(place), error) from error
    return sealed


def restore(savepoint: Location, uid: str, target: str, *, link: bool = True, query_id: str = "") -> SavepointQuery:
    """Make `target` the checkpoint directory of the query `uid`, as it was, but for the `query_id`, if one is given. Copies are
    compared with the manifest.

    The savepoint may be disposed of afterwards. Raises NoSavepoint, QueryUnknown, SavepointDamaged, TargetTaken,
    TargetUnwritable, StorageFailed.
    """
    saved = place_at(savepoint)
    query = query_of(saved, uid)
    place = local_path(target)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise TargetTaken(target)
    files = query.checkpoint_files
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with saved.fetched(query.directory, files, place.parent) as source, partial_directory(place.parent) as partial:
            _restore_into(source, partial, files, (place, link))
            if query_id:
                (partial / METADATA).write_text(json.dumps({"id": query_id}))
            os.rename(partial, place)
    except Gone as gone:
        raise SavepointDamaged(str(saved), (f"{query.directory}/{gone.path} is missing",)) from None
    except OSError as error:
        raise TargetUnwritable(target, error) from error
    return query


def fetch_log(savepoint: Location, query: SavepointQuery, target: Path) -> None:
    """Make `target` a directory with the log of the query's output, as it was, if it had any file. Raises SavepointDamaged,
    StorageFailed or OSError."""
    saved, files = place_at(savepoint), query.log_files
    if query.sink_log is None or not files:
        return
    with saved.fetched(query.directory, files, target.parent) as source, partial_directory(target.parent) as partial:
        try:
            _restore_into(source, partial, files, (target, False))
        except Gone as gone:
            raise SavepointDamaged(str(saved), (f"{query.directory}/{gone.path} is missing",)) from None
        os.rename(partial / query.sink_log.directory, target)


def query_of(savepoint: Location, uid: str) -> SavepointQuery:
    """Raises NoSavepoint, QueryUnknown, StorageFailed."""
    place = place_at(savepoint)
    manifest = read_manifest(place)
    found = next((query for query in manifest.queries if query.uid == uid), None)
    if found is None:
        raise QueryUnknown(str(place), uid, tuple(query.uid for query in manifest.queries))
    return found


def dispose(location: Location) -> None:
    """Delete a savepoint, and nothing else. Raises NoSavepoint, SavepointShared, TargetUnwritable, StorageFailed."""
    place = place_at(location)
    known = {file.name for file in read_manifest(place).files} | {MANIFEST, CLAIM_FILE}
    others = sorted(name for name in place.names() if name not in known)
    if others:
        raise SavepointShared(str(place), tuple(others))
    try:
        place.remove(known)
    except OSError as error:
        raise TargetUnwritable(str(place), error) from error


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


def _restore_into(source: Path, partial: Path, files: list[SavepointFile], manner: tuple[Path, bool]) -> None:
    place, link = manner
    placing = Placing(source, partial, link, digests=True, durable=False)
    expected = []
    for file in files:
        kind = kind_of(file.name)
        if kind is Kind.RELOCATED:
            placing.write(file.name, relocated(_text(source, file.name), str(place)).encode())
        else:
            expected.append(file)
            placing.take(file.name, immutable=kind is Kind.IMMUTABLE)
    placed = placing.finish()
    if changed := [file.name for file in expected if not _is_as_written(file, placed[file.name])]:
        raise SavepointDamaged(str(source), tuple(f"{name} is not what was written" for name in changed))


def _is_as_written(file: SavepointFile, copy: Placed) -> bool:
    """As far as is known: a link is not read."""
    return copy.size_bytes == file.size_bytes and (not (copy.sha256 and file.sha256) or copy.sha256 == file.sha256)


def _text(source: Path, name: str) -> str:
    """Raises Gone."""
    try:
        return (source / name).read_text()
    except FileNotFoundError:
        raise Gone(name) from None
