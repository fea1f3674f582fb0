"""Whose a savepoint is: the job's that has claimed it, which disposes of it; before, nobody's.

The claim lies in the savepoint. It comes there whole, by one renaming that fails where another one is, so that of two jobs one
has it.
"""

import contextlib
import errno
import logging
import os
from pathlib import Path

import msgspec

from firesteel.adapters.spark.streams.snapshots.errors import (
    NoSavepoint,
    SavepointClaimed,
    SavepointShared,
    TargetUnwritable,
)
from firesteel.adapters.spark.streams.snapshots.manifest import CLAIM_FILE, MANIFEST
from firesteel.adapters.spark.streams.snapshots.partials import partial_directory
from firesteel.adapters.spark.streams.snapshots.points import local_path
from firesteel.adapters.spark.streams.snapshots.savepoints import dispose
from firesteel.adapters.storage.durability import sync, sync_files
from firesteel.model.ids import JobID
from firesteel.model.streams import ClaimedSavepoint

logger = logging.getLogger(__name__)

_CLAIM, _, _FILE = CLAIM_FILE.partition("/")


class _Owner(msgspec.Struct):
    job_id: str


def take(path: str, job_id: JobID, *, owns: bool) -> None:
    """A job is about to begin from the savepoint; with `owns` it is the job's from here on. Raises SavepointClaimed where it is
    another's, or OSError."""
    root = local_path(path)
    if owns and _owner_of(root) is None:
        with partial_directory(root) as made:
            (made / _FILE).write_bytes(msgspec.json.encode(_Owner(job_id)))
            sync_files(made, [_FILE])
            try:
                os.rename(made, root / _CLAIM)
                sync(root)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # another job was faster
                    raise
    owner = _owner_of(root)
    if owner not in (None, job_id):
        raise SavepointClaimed(path, str(owner), str(root / _CLAIM))


def settle(claimed: ClaimedSavepoint) -> None:
    """The job does not need the savepoint any more. Nothing happens to one that is not this job's, nor when this is repeated.
    Raises OSError when that is to be tried again."""
    root = local_path(claimed.location)
    if _owner_of(root) != claimed.job_id:
        return
    is_there = not claimed.newer or (local_path(claimed.newer) / MANIFEST).exists()
    try:
        if claimed.is_given_back or not is_there:
            _give_back(root)
        else:
            dispose(claimed.location)
            logger.info("savepoint %s of job %s was disposed of", claimed.location, claimed.job_id)
    except NoSavepoint:
        pass  # another worker was faster
    except SavepointShared as error:
        logger.warning("a savepoint that job %s has claimed: %s", claimed.job_id, error)
        _give_back(root)
    except TargetUnwritable as error:
        raise OSError(str(error)) from error


def _give_back(root: Path) -> None:
    with contextlib.suppress(FileNotFoundError), partial_directory(root) as gone:
        os.rename(root / _CLAIM, gone / _CLAIM)
        sync(root)


def _owner_of(root: Path) -> str | None:
    try:
        return msgspec.json.decode((root / CLAIM_FILE).read_bytes(), type=_Owner).job_id
    except (FileNotFoundError, NotADirectoryError):
        return None
