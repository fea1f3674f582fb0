"""Whether another job has a query with the id that one is about to take over from a savepoint.

Of two queries with one id Spark stops the one that was there, and sinks that go by it take one's batches for the other's. So a
job that has not ended keeps the id for itself, as its checkpoints, which are there as long as it is, tell every worker that
finds them.
"""

import json
import os
from pathlib import Path

from firesteel.adapters.spark.streams.snapshots.errors import SnapshotError
from firesteel.adapters.spark.streams.snapshots.pointfiles import METADATA
from firesteel.adapters.spark.streams.snapshots.points import local_path
from firesteel.adapters.spark.streams.snapshots.savepoints import query_of
from firesteel.model.ids import JobID

WAIT_SECONDS = 20.0
"""So long a job waits for another one to end: its checkpoints go a moment after its end is known."""
POLL_SECONDS = 0.5


def attempts_of(home: Path) -> list[int]:
    """Numbers of the attempts that have a directory, ascending."""
    if not home.is_dir():
        return []
    return sorted(int(name) for name in os.listdir(home) if name.isdecimal())


def rival_of(top: Path, job_id: JobID, uid: str, savepoint: str) -> str:
    """Why that query must not begin from the savepoint yet, in a sentence; empty if it may."""
    try:
        query_id = _id_in(local_path(savepoint) / query_of(savepoint, uid).directory)
    except SnapshotError:  # whoever restores it says so
        return ""
    jobs = sorted(each.name for each in top.iterdir() if each.name != job_id) if query_id and top.is_dir() else []
    for other in jobs:
        home = top / other / uid
        if any(_id_in(home / str(attempt)) == query_id for attempt in reversed(attempts_of(home))):
            return (
                f"job {other} has not ended, and its query {uid} is the one that savepoint {savepoint} is of: two queries with"
                " one id stop one another, and sinks take one's batches for the other's. Stop that job and start from the"
                " savepoint then (firesteel stop), or run this one beside it as a branch (firesteel branch). If that job is"
                f" over, delete what was left of it, {home}"
            )
    return ""


def _id_in(checkpoint: Path) -> str:
    """Empty where no query has begun, or what is there is being made or removed."""
    try:
        return str(json.loads((checkpoint / METADATA).read_text(encoding="utf-8")).get("id", ""))
    except (OSError, ValueError):
        return ""
