"""Notes in a worker's own directory of the jobs whose checkpoints it has made use of, and where these are.

They outlive the worker's process: whoever has its directory next, or clears it, knows what has to go when the job is over.
"""

import shutil
from pathlib import Path

from firesteel.adapters.spark.streams.snapshots.manifest import MANIFEST
from firesteel.model.ids import JobID

USED = "streams"
"""Below a worker's directory: a file a job."""
_KEEPS = "\nkeeps"
"""Ends a note of a job whose last checkpoint is to stay where nobody knows how it has ended."""
KEPT = ".kept"
"""In a job's directory: it is not to be deleted, since its last checkpoint could not be saved."""
DELETE_TRIES_MAX = 100
"""So often the deletion of a directory begins again where others delete it at the same time."""


def note_used(work_dir: Path, job_id: JobID, top: Path, *, keeps: bool) -> None:
    """From here on, checkpoints of the job are in `top`. `keeps`: the last one is to stay where nobody knows how the job has
    ended."""
    note, text = work_dir / USED / job_id, f"{top}{_KEEPS if keeps else ''}"
    if _read(note) != text:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(text, encoding="utf-8")


def noted(work_dir: Path, job_id: JobID) -> tuple[str, bool]:
    """Where checkpoints of the job are, empty where there is no note of it; and what was said of the last one."""
    text = _read(work_dir / USED / job_id)
    return text.removesuffix(_KEEPS), text.endswith(_KEEPS)


def jobs_noted(work_dir: Path) -> list[JobID]:
    return [JobID(path.name) for path in sorted((work_dir / USED).glob("*"))]


def delete_checkpoints(work_dir: Path, job_id: JobID) -> None:
    """The job is over: its checkpoints go, and then the note of them. Raises OSError when that is to be tried again."""
    top, _ = noted(work_dir, job_id)
    if top:
        delete_attempts(Path(top) / job_id)
        (work_dir / USED / job_id).unlink(missing_ok=True)


def delete_attempts(job: Path) -> None:
    """A job's checkpoints go, but not what is retained of them. Raises OSError when that is to be tried again."""
    found = sorted(job.iterdir()) if job.is_dir() else []
    if any(path.name == KEPT for path in found):
        return
    rest = [path for path in found if not (path / MANIFEST).exists()]
    for path in rest if len(rest) < len(found) else [job]:
        delete_tree(path)


def delete_tree(path: Path) -> None:
    """It may be gone, or be going: other workers delete it, too. Raises OSError."""
    for _ in range(DELETE_TRIES_MAX):
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            if path.exists():  # a file of it was deleted by somebody else
                continue
        return
    raise OSError(f"{path} is not deleted: others are at work there")


def _read(note: Path) -> str:
    try:
        return note.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
