"""What stays of a job that is over: the last committed points of its queries, as a savepoint beside the checkpoints.

Its directory, `chk-N-...`, is in that of the job. Whoever deletes the checkpoints of the job leaves it there, and it needs nothing
of them: a query of the job that runs on somewhere can't change it, and plans no further batch.
"""

import contextlib
import importlib.metadata
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from firesteel.adapters.spark.streams.inheritance import kept_log, known_fingerprint
from firesteel.adapters.spark.streams.making import PASSING
from firesteel.adapters.spark.streams.notes import output_of
from firesteel.adapters.spark.streams.rivals import attempts_of
from firesteel.adapters.spark.streams.snapshots.errors import QueryUnknown, SnapshotError
from firesteel.adapters.spark.streams.snapshots.fences import fence
from firesteel.adapters.spark.streams.snapshots.manifest import MANIFEST, SavepointHeader, SavepointVertex
from firesteel.adapters.spark.streams.snapshots.places import Location
from firesteel.adapters.spark.streams.snapshots.pointfiles import METADATA
from firesteel.adapters.spark.streams.snapshots.points import local_path
from firesteel.adapters.spark.streams.snapshots.savepoints import query_of, write_savepoint
from firesteel.adapters.spark.streams.unbegun import FIRST, NONE_UNBEGUN, unbegun_queries
from firesteel.adapters.spark.streams.usednotes import KEPT, delete_attempts, noted
from firesteel.adapters.storage.schemes import scheme_name
from firesteel.adapters.storage.serving import NOTHING_SET
from firesteel.model.ids import JobID
from firesteel.model.streams import RETAINED_NAME, retained_name

logger = logging.getLogger(__name__)

CLOCKS_DIFFER_MS = 60_000
"""So much the clocks of the master and of the storage may differ."""


def save_points(
    job: Path,
    location: Location,
    attempts: Mapping[str, int],
    *,
    job_name: str = "",
    vertices: Iterable[tuple[str, str]] = (),
    is_wanted: Callable[[], bool] = lambda: True,
    unbegun: Mapping[str, Path] = NONE_UNBEGUN,
) -> None:
    """Write a savepoint of these queries' attempts, by uid; `job` is the directory of the job's checkpoints, `vertices` are uid
    and name each, `unbegun` what `unbegun_queries` gives. Raises a SnapshotError."""
    homes = {uid: job / uid for uid in attempts} | dict(unbegun)
    queries = {uid: str(home / str(attempts.get(uid, FIRST))) for uid, home in homes.items()}
    fingerprints = {uid: known_fingerprint(home) for uid, home in homes.items()}
    header = SavepointHeader(
        job_id=job.name,
        job_name=job_name,
        spark_version=importlib.metadata.version("pyspark"),
        created_ms=round(time.time() * 1_000),
        vertices=tuple(SavepointVertex(uid=uid, name=name) for uid, name in vertices),
        fingerprints={uid: found for uid, found in fingerprints.items() if found},
        attempts=dict(attempts),
    )
    found = ((uid, output_of(home)) for uid, home in homes.items())
    outputs: dict[str, str | tuple[str, Path]] = {uid: output for uid, output in found if output is not None}
    as_before = {uid: kept_log(homes[uid], queries[uid]) for uid in queries.keys() - outputs.keys()}
    outputs |= {uid: log for uid, log in sorted(as_before.items()) if log is not None}
    write_savepoint(location, queries, header, outputs=outputs, is_wanted=is_wanted)


def retain(work_dir: Path, job_id: JobID, location: str | None, storage: Mapping[str, str] = NOTHING_SET) -> None:
    """Have the last committed points of a job that is over stay at `location`, and delete the directories of its attempts; None:
    nobody knows any more whether they are to stay, so they do, unless the note of them says that none are to. Repeatable, by
    several workers at once. `storage`: settings by which savepoints in buckets are reached. Raises OSError when that is to be
    tried again."""
    top, keeps = noted(work_dir, job_id)
    if location is not None:
        job = Path(top) / job_id if top else local_path(location).parent
        _retain(job, location, storage)
    elif top and keeps:
        job = Path(top) / job_id
        _retain(job, str(job / retained_name(0, round(time.time() * 1_000))), storage)


def retain_late(location: str, storage: Mapping[str, str] = NOTHING_SET) -> None:
    """What was to stay there, if there was no worker when its job ended. Raises OSError, or the SnapshotError for which it can't."""
    if scheme_name(location) not in ("", "file"):
        return
    place = local_path(location)
    name = RETAINED_NAME.fullmatch(place.name)
    if name is None or os.path.lexists(place) or not place.parent.is_dir():
        return
    newest_ms = int(name.group(1), 16) + CLOCKS_DIFFER_MS
    begun_ms = [_begun_ms(place.parent / uid / str(each)) for uid, each in _newest(place.parent).items()]
    if any(each > newest_ms for each in begun_ms):  # they are of a later job with that id, which may run
        return
    refusal = _retain(place.parent, location, storage)
    if refusal is not None:
        raise refusal


def _begun_ms(attempt: Path) -> float:
    """When it was made, at the latest. Its directory does not tell: who fences it, or copies its point, writes there. 0: it is
    gone, and another worker has retained it."""
    for written_once in (attempt / METADATA, attempt.parent):
        with contextlib.suppress(FileNotFoundError):
            return written_once.stat().st_mtime * 1_000
    return 0.0


def _retain(job: Path, location: str, storage: Mapping[str, str]) -> SnapshotError | None:
    """Raises OSError when that is to be tried again. What can't be saved at all is not deleted: returns why."""
    refusal = None
    try:
        attempts = _newest(job)
        if attempts and not _has(location, attempts):
            with unbegun_queries(job, attempts, storage) as unbegun:
                for uid, attempt in attempts.items():
                    fence(job / uid / str(attempt))
                save_points(job, location, attempts, unbegun=unbegun)
            (job / KEPT).unlink(missing_ok=True)
            logger.info("the last checkpoint of job %s stays at %s", job.name, location)
    except (SnapshotError, OSError) as error:
        if isinstance(error, QueryUnknown) or not (local_path(location) / MANIFEST).exists():
            refusal = _not_saved(job, location, error)
        # Else another worker was faster, and deletes what was to be copied.
    delete_attempts(job)
    return refusal


def _not_saved(job: Path, location: str, error: SnapshotError | OSError) -> SnapshotError:
    """Raises OSError when that is to be tried again; else nothing of it is deleted."""
    if isinstance(error, PASSING):
        raise OSError(f"the last checkpoint of job {job.name} can't be put to {location} yet: {error}") from error
    text = "the last checkpoint of job %s can't be put to %s: %s. Its checkpoints stay as they are, in %s"
    logger.warning(text, job.name, location, error, job)
    (job / KEPT).touch()
    return error


def _has(location: str, attempts: Mapping[str, int]) -> bool:
    """Whether another worker has put it there. Raises a SnapshotError where its checkpoints are elsewhere, and so are not in it."""
    if not (local_path(location) / MANIFEST).exists():
        return False
    for uid in attempts:
        query_of(location, uid)
    return True


def _newest(job: Path) -> dict[str, int]:
    """The newest attempt of each query, by uid."""
    homes = sorted(path for path in job.iterdir() if path.is_dir()) if job.is_dir() else []
    return {home.name: numbers[-1] for home in homes if (numbers := attempts_of(home))}
