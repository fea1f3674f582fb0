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
from firesteel.adapters.spark.streams.snapshots.manifest import CLAIM_FILE, MANIFEST
from firesteel.adapters.spark.streams.snapshots.places import Location, SavepointPlace, place_at
from firesteel.adapters.spark.streams.snapshots.points import local_path
from firesteel.adapters.spark.streams.snapshots.savepoints import dispose
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
    is_there = not claimed.newer or (local_path(claimed.newer) / MANIFEST).exists()
    try:
        if claimed.is_given_back or not is_there:
            place.give_back()
        else:
            dispose(place)
            logger.info("savepoint %s of job %s was disposed of", claimed.location, claimed.job_id)
    except NoSavepoint:
        pass  # another worker was faster
    except SavepointShared as error:
        logger.warning("a savepoint that job %s has claimed: %s", claimed.job_id, error)
        place.give_back()


def _owner_of(place: SavepointPlace) -> str | None:
    try:
        return msgspec.json.decode(place.read(CLAIM_FILE), type=_Owner).job_id
    except (FileNotFoundError, NotADirectoryError):
        return None
