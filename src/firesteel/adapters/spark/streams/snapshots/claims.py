"""Whose a savepoint is: the job's that has claimed it, which disposes of it; before, nobody's.

The claim lies in the savepoint. It comes there whole, in one step that fails where another one is, so that of two jobs one has
it.
"""

import logging
from collections.abc import Mapping

import msgspec

from firesteel.adapters.spark.streams.snapshots.errors import (
    NoSavepoint,
    SavepointClaimed,
    SavepointShared,
    StorageFailed,
    StorageRefused,
    TargetUnwritable,
)
from firesteel.adapters.spark.streams.snapshots.manifest import CLAIM_FILE
from firesteel.adapters.spark.streams.snapshots.places import Location, SavepointPlace, place_at
from firesteel.adapters.spark.streams.snapshots.savepoints import dispose, read_manifest
from firesteel.adapters.storage.serving import NOTHING_SET
from firesteel.model.ids import JobID
from firesteel.model.streams import ClaimedSavepoint

logger = logging.getLogger(__name__)


class _Owner(msgspec.Struct):
    job_id: str


def take(location: Location, job_id: JobID, *, owns: bool) -> None:
    """A job is about to begin from the savepoint; with `owns` it is the job's from here on. Raises SavepointClaimed where it is
    another's, StorageFailed, StorageRefused or OSError."""
    place = place_at(location)
    if owns and _owner_of(place) is None:
        place.claim(msgspec.json.encode(_Owner(job_id)))
    owner = _owner_of(place)
    if owner not in (None, job_id):
        raise SavepointClaimed(str(place), str(owner), f"{place}/{CLAIM_FILE}")


def settle(claimed: ClaimedSavepoint, settings: Mapping[str, str] = NOTHING_SET) -> None:
    """The job does not need the savepoint any more. Nothing happens to one that is not this job's, nor when this is repeated.
    Raises OSError when that is to be tried again."""
    try:
        place = place_at(claimed.location, settings)
        if _owner_of(place) == claimed.job_id:
            _settle(claimed, place)
    except (TargetUnwritable, StorageFailed, StorageRefused) as error:
        raise OSError(str(error)) from error


def _settle(claimed: ClaimedSavepoint, place: SavepointPlace) -> None:
    try:
        if claimed.is_given_back or not _is_replaced(claimed, place):
            place.give_back()
        else:
            dispose(place)
            logger.info("savepoint %s of job %s was disposed of", claimed.location, claimed.job_id)
    except NoSavepoint:
        pass  # another worker was faster
    except SavepointShared as error:
        logger.warning("a savepoint that job %s has claimed: %s", claimed.job_id, error)
        place.give_back()


def _is_replaced(claimed: ClaimedSavepoint, place: SavepointPlace) -> bool:
    """Whether what is newer is there, with all that the job has of the savepoint."""
    if not claimed.newer:
        return True
    newer, known = _uids(claimed.newer), _uids(place)
    return bool(newer) and not (known if not claimed.sinks else known & set(claimed.sinks)) - newer


def _uids(location: Location) -> set[str]:
    """Of the queries in it; none where there is no savepoint."""
    try:
        return {query.uid for query in read_manifest(location).queries}
    except NoSavepoint:
        return set()


def _owner_of(place: SavepointPlace) -> str | None:
    try:
        return msgspec.json.decode(place.read(CLAIM_FILE), type=_Owner).job_id
    except (FileNotFoundError, NotADirectoryError):
        return None
