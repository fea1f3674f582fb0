"""Whether another job has a query with the id that one is about to take over from a savepoint.

Of two queries with one id Spark stops the one that was there, and sinks that go by it take one's batches for the other's. So a
job that has not ended keeps the id for itself, as its checkpoints, which are there as long as it is, tell every worker that
finds them.

Of jobs that begin at the same instant neither finds the other's. So each says first that it is about to begin, and then looks:
one of two sees the other at least. Who sees one that has begun, or one with a smaller id, takes back what it has said; who
sees one with a larger id only waits until that one has done so, or has begun after all.
"""

import contextlib
import json
import os
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from firesteel.adapters.spark.streams.snapshots.errors import NoSavepoint, QueryUnknown
from firesteel.adapters.spark.streams.snapshots.places import Location, place_at
from firesteel.adapters.spark.streams.snapshots.pointfiles import METADATA
from firesteel.adapters.spark.streams.snapshots.savepoints import query_of
from firesteel.model.ids import JobID

WAIT_SECONDS = 20.0
"""So long a job waits for another one to end: its checkpoints go a moment after its end is known."""
POLL_SECONDS = 0.5
_BEGINS = ".begins"
"""Beside the checkpoints of a query's attempts: the id that it is about to take over."""


@dataclass(frozen=True, slots=True)
class Rival:
    """Another job's query with the same id."""

    job_id: str
    home: Path
    has_begun: bool
    """Else it is about to, if nobody else does."""

    def sentence(self, savepoint: Location) -> str:
        """Why this one must not begin yet."""
        return (
            f"job {self.job_id} has not ended, and its query {self.home.name} is the one that savepoint {savepoint} is of: two"
            " queries with one id stop one another, and sinks take one's batches for the other's. Stop that job and start from"
            " the savepoint then (firesteel stop), or run this one beside it as a branch (firesteel branch). If that job is"
            f" over, delete what was left of it, {self.home}"
        )


def attempts_of(home: Path) -> list[int]:
    """Numbers of the attempts that have a directory, ascending."""
    if not home.is_dir():
        return []
    return sorted(int(name) for name in os.listdir(home) if name.isdecimal())


def ids_of(savepoints: Mapping[str, Location]) -> dict[str, str]:
    """The ids that queries would take over, by uid, of those that have one; `savepoints` are by uid. Raises a
    SnapshotError where that can't be told."""
    found = {}
    for uid, savepoint in savepoints.items():
        with contextlib.suppress(NoSavepoint, QueryUnknown):  # whoever restores it says so
            found[uid] = _id_of(savepoint, uid)
    return {uid: each for uid, each in found.items() if each}


def _id_of(savepoint: Location, uid: str) -> str:
    """Raises a SnapshotError."""
    place = place_at(savepoint)
    query = query_of(place, uid)
    try:
        return query.point.query_id or _id_told(place.read(f"{query.directory}/{METADATA}"))
    except FileNotFoundError:
        return ""


def rival_of(top: Path, job_id: JobID, begin: Iterable[str], ids: Mapping[str, str]) -> Rival | None:
    """Say that queries of the job `begin`, by uid, and look who else has one of the `ids`, which all of the job's queries are
    going to take over. None: they may begin, and nobody else may, until the job has ended."""
    home = top / job_id
    found = rivals_of(top, job_id, ids)
    if not _is_behind(job_id, found):  # else it would keep the one that is first waiting
        for uid in begin:
            _say(home / uid, ids.get(uid, ""))
        found = rivals_of(top, job_id, ids)
    if _is_behind(job_id, found):
        take_back(home, begin)
    return found[0] if found else None


def _is_behind(job_id: JobID, found: Iterable[Rival]) -> bool:
    return any(each.has_begun or each.job_id < job_id for each in found)


def rivals_of(top: Path, job_id: JobID, ids: Mapping[str, str]) -> list[Rival]:
    """Those that have begun first."""
    jobs = sorted(each.name for each in top.iterdir() if each.name != job_id) if ids and top.is_dir() else []
    found = []
    for other in jobs:
        for uid, query_id in ids.items():
            home = top / other / uid
            has_begun = any(_id_in(home / str(attempt)) == query_id for attempt in reversed(attempts_of(home)))
            if has_begun or _said(home) == query_id:
                found.append(Rival(other, home, has_begun))
    return sorted(found, key=lambda each: not each.has_begun)


def take_back(home: Path, uids: Iterable[str]) -> None:
    """The job whose directory is `home` is not about to begin these any more, or has begun them."""
    for uid in uids:
        (home / uid / _BEGINS).unlink(missing_ok=True)
    for directory in (*(home / uid for uid in uids), home):
        with contextlib.suppress(OSError):  # it was not there, or there is more in it
            directory.rmdir()


def _say(home: Path, query_id: str) -> None:
    if query_id:
        home.mkdir(parents=True, exist_ok=True)
        made = home / f"{_BEGINS}-{uuid.uuid4().hex}"
        made.write_text(query_id, encoding="utf-8")
        os.rename(made, home / _BEGINS)


def _said(home: Path) -> str:
    try:
        return (home / _BEGINS).read_text(encoding="utf-8")
    except OSError:
        return ""


def _id_in(checkpoint: Path) -> str:
    """Empty where no query has begun, or what is there is being made or removed."""
    try:
        return _id_told((checkpoint / METADATA).read_bytes())
    except OSError:
        return ""


def _id_told(metadata: bytes) -> str:
    try:
        return str(json.loads(metadata).get("id", ""))
    except ValueError:
        return ""
