"""The checkpoint directory of one attempt of a query: made from that of the one before, from a savepoint, or of nothing."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import assert_never

import msgspec

from firesteel.adapters.spark.streams.inheritance import keep
from firesteel.adapters.spark.streams.snapshots.errors import (
    SnapshotError,
    SnapshotOvertaken,
    StorageFailed,
    TargetUnwritable,
)
from firesteel.adapters.spark.streams.snapshots.fences import fence, is_planned
from firesteel.adapters.spark.streams.snapshots.listing import OFFSETS, is_fence
from firesteel.adapters.spark.streams.snapshots.partials import partial_directory
from firesteel.adapters.spark.streams.snapshots.places import SavepointPlace
from firesteel.adapters.spark.streams.snapshots.pointfiles import METADATA, SOURCES
from firesteel.adapters.spark.streams.snapshots.points import Manner, copy_into, last_committed
from firesteel.adapters.spark.streams.snapshots.savepoints import restore
from firesteel.core.checkpoint.beginning import Beginning, Start
from firesteel.model import options
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.runtime.ports import TaskFailedError

PASSING = (OSError, SnapshotOvertaken, TargetUnwritable, StorageFailed)
"""They may not happen again: a disk is full for a while, a query was fast, a storage did not answer."""


def made_directory(
    home: Path, attempt: int, beginning: Beginning, savepoint: SavepointPlace | None, *, query_id: str
) -> Path:
    """The directory of an attempt, which is there whole or not at all. Raises TaskFailedError, a SnapshotError or OSError."""
    target = home / str(attempt)
    match beginning.start:
        case Start.LOST:
            raise _lost(home)
        case Start.LATE:
            raise _refused(f"{home.name} has a later attempt than {attempt}: this one was taken for dead, and ends")
        case Start.SAVEPOINT:
            assert savepoint is not None, "it is what has decided that"
            keep(home, savepoint)
            restore(savepoint, home.name, str(target), query_id=query_id)
        case Start.FORMER:
            _prepare(home, target, home / str(beginning.former))
        case Start.NOTHING:
            _prepare(home, target, None)
        case _:
            assert_never(beginning.start)
    return target


def _prepare(home: Path, target: Path, former: Path | None) -> None:
    """Raises a SnapshotError or OSError."""
    home.mkdir(parents=True, exist_ok=True)
    with partial_directory(home) as made:
        if former is not None:
            _continue(former, made, target)
        os.rename(made, target)


def _continue(source: Path, made: Path, target: Path) -> None:
    """Have `made`, which will be `target`, hold the last committed point of `source`, and the batch that was planned after
    it: a sink that knows batches by their number may have written that, so it has to run again with the same rows."""
    fence(source)
    batch = last_committed(str(source))
    if batch is None:  # no commit is taken along that comes meanwhile, for its state might not be whole
        for name in (METADATA, OFFSETS, SOURCES):
            _copy_missing(source / name, made / name)
        return
    copy_into(str(source), made, None, Manner(link=True, home=str(target)))
    planned = f"{OFFSETS}/{batch + 1}"
    if is_planned(source, batch + 1) and last_committed(str(made)) == batch:
        _copy_missing(source / SOURCES, made / SOURCES)
        shutil.copyfile(source / planned, made / planned)


def _copy_missing(source: Path, target: Path) -> None:
    """Files that have come since, but for those that Spark has not written to the end: it renames them when they are
    whole; and for checksums, without which a file is just not checked."""
    found = source.rglob("*") if source.is_dir() else (source,)
    for path in sorted(path for path in found if path.is_file() and not path.name.startswith(".")):
        copy = target / path.relative_to(source)
        if not copy.exists() and not is_fence(path):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def _lost(home: Path) -> TaskFailedError:
    return _refused(
        f"the checkpoints of {home.name} are not here: attempts before this one have run, and there is none of them in {home}."
        f" If they are on another worker, give {options.CHECKPOINTS_DIR.key} a directory that all workers share, and see that it"
        " is mounted on each; if they were deleted, start the job from its last savepoint (--from-savepoint). Beginning anew"
        " would read and write all rows once more"
    )


def not_begun(homes: Iterable[Path], made: Iterable[Path], attempt: int, error: Exception) -> TaskFailedError:
    """An attempt has failed before it had all of its directories: those it has `made` are removed, so that the next one finds
    what it has found, and knows that."""
    if isinstance(error, TaskFailedError):
        failure = error.failure
    else:
        kind = FailureKind.ENVIRONMENT if isinstance(error, PASSING) else FailureKind.NON_RECOVERABLE
        text = str(error) if isinstance(error, SnapshotError) else f"its checkpoint directory can't be made: {error}"
        failure = FailureInfo(kind=kind, message=text)
    directories = [home / str(attempt) for home in homes]
    return TaskFailedError(without_directories(made, failure, directories))


def without_directories(
    made: Iterable[Path], failure: FailureInfo, directories: Iterable[Path] | None = None
) -> FailureInfo:
    """The failure of an attempt in whose directories no query has begun, and without those that it has `made`. `directories`
    are all that it may have, if these are not all."""
    made = tuple(made)
    for directory in made:
        shutil.rmtree(directory, ignore_errors=True)
    left = made if directories is None else directories
    return msgspec.structs.replace(failure, unbegun=not any(each.exists() for each in left))


def _refused(message: str) -> TaskFailedError:
    return TaskFailedError(FailureInfo(kind=FailureKind.NON_RECOVERABLE, message=message))
