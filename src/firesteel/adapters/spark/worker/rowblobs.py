"""Rows that are returned to a job's caller, at the worker: they become blobs, which the master can read."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from firesteel.adapters.blob.local import BlobCorrupt, BlobSource
from firesteel.adapters.spark.staged.rows import BLOB_LOCATION, is_blob, staged_rows
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.options import RESULT_MAX_SIZE, Configuration
from firesteel.model.tasks import RESULT_FORMAT, TaskOutcome
from firesteel.runtime.ports import TaskFailedError

logger = logging.getLogger(__name__)


async def keep_rows(blobs: BlobSource, outcome: TaskOutcome, directory: Path) -> None:
    """Put the rows of a finished attempt where the master finds them. Raises TaskFailedError."""
    for commit in outcome.sinks:
        if commit.format == RESULT_FORMAT:
            try:
                await blobs.keep(staged_rows(directory, commit.target), commit.target)
            except (OSError, BlobCorrupt) as error:
                message = f"the rows that {commit.function} returns could not be stored: {error}"
                failure = FailureInfo(kind=FailureKind.ENVIRONMENT, message=message, vertex=commit.function)
                raise TaskFailedError(failure) from error


async def discard_rows(blobs: BlobSource, locations: Sequence[str]) -> list[str]:
    """Delete those of the locations that are blobs; the others are returned. What can't be deleted now is told, and must not
    keep the job."""
    for location in filter(is_blob, locations):
        try:
            await blobs.drop(location.removeprefix(BLOB_LOCATION))
        except OSError as error:
            logger.warning("rows that nobody will read were not deleted: %s", error)
    return [location for location in locations if not is_blob(location)]


def result_max_bytes(cluster: Configuration, job: Mapping[str, str]) -> int:
    """Limit that the job sets on its returned rows, or else the cluster."""
    chosen = Configuration(job) if RESULT_MAX_SIZE.key in job else cluster
    return chosen.get_option(RESULT_MAX_SIZE) << 20
