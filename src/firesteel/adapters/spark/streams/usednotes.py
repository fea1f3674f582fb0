"""Notes in a worker's own directory of the jobs whose checkpoints it has made use of, and where these are.

They outlive the worker's process: whoever has its directory next, or clears it, knows what has to go when the job is over.
"""

import shutil
from pathlib import Path

from firesteel.model.ids import JobID

USED = "streams"
"""Below a worker's directory: a file a job."""
DELETE_TRIES_MAX = 100
"""So often the deletion of a directory begins again where others delete it at the same time."""


def note_used(work_dir: Path, job_id: JobID, top: Path) -> None:
    """From here on, checkpoints of the job are in `top`."""
    note = work_dir / USED / job_id
    if _noted(note) != str(top):
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(str(top), encoding="utf-8")


def jobs_noted(work_dir: Path) -> list[JobID]:
    return [JobID(path.name) for path in sorted((work_dir / USED).glob("*"))]


def delete_checkpoints(work_dir: Path, job_id: JobID) -> None:
    """The job is over: its checkpoints go, and then the note of them. Raises OSError when that is to be tried again."""
    note = work_dir / USED / job_id
    if top := _noted(note):
        delete_tree(Path(top) / job_id)
        note.unlink(missing_ok=True)


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


def _noted(note: Path) -> str:
    try:
        return note.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
