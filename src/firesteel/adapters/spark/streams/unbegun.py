"""Queries of a job that have never begun: their state is in the savepoint that the job has started from, and nowhere else.

A region that waits for a slot has made no checkpoints when the job ends. What stays of the job without it would be gone on from
as if that query had had no state.
"""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from firesteel.adapters.spark.streams.inheritance import keep
from firesteel.adapters.spark.streams.making import PASSING
from firesteel.adapters.spark.streams.notes import origin_of
from firesteel.adapters.spark.streams.snapshots.errors import QueriesUnbegun, SnapshotError
from firesteel.adapters.spark.streams.snapshots.partials import partial_directory
from firesteel.adapters.spark.streams.snapshots.places import place_at
from firesteel.adapters.spark.streams.snapshots.savepoints import restore

NONE_UNBEGUN: Mapping[str, Path] = MappingProxyType({})
FIRST = 0
"""The attempt that is made of each for now."""
_QUERIES = "unbegun"


@contextlib.contextmanager
def unbegun_queries(job: Path, begun: Collection[str], storage: Mapping[str, str]) -> Iterator[Mapping[str, Path]]:
    """Where those are, by uid, that are none of `begun`: made for now in a hidden directory of the job's, as their first attempts
    would have been. `storage`: settings by which savepoints in other storages are reached. Raises QueriesUnbegun; another SnapshotError
    or OSError when that is to be tried again."""
    origin = next((found for uid in begun if (found := origin_of(job / uid)) is not None), None)
    missing = [uid for uid in origin.queries if uid not in begun] if origin is not None else []
    if origin is None or not missing:
        yield NONE_UNBEGUN
        return
    with partial_directory(job) as made:
        homes = {uid: made / _QUERIES / uid for uid in missing}
        try:
            savepoint = place_at(origin.location, storage)
            for uid, home in homes.items():
                keep(home, savepoint)
                restore(savepoint, uid, str(home / str(FIRST)), query_id=origin.queries[uid])
        except PASSING:
            raise
        except SnapshotError as error:
            raise QueriesUnbegun(job.name, origin.location, tuple(missing), error) from error
        yield homes
