"""A worker's notes of what its sinks do outside its own directory, for whoever clears up after it was killed."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from firesteel.model.ids import JobID
from firesteel.model.tasks import SinkCommit
from firesteel.runtime.directories import write_private

SINKS = "sinks"
"""Directory of a worker's notes, below its own."""
STAGED = "staged"
"""Below it: a file an attempt."""

STORAGE = "storage.json"
"""Below it, of an embedded cluster: how to reach what is not on this machine."""


def note_staged(file: Path, location: str) -> None:
    """An attempt is about to write there. `file` is its own."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "a", encoding="utf-8") as lines:
        lines.write(location + "\n")


def noted_in(file: Path) -> list[str]:
    """Where an attempt was about to write, by its file."""
    return file.read_text(encoding="utf-8").splitlines() if file.is_file() else []


def whole_of(job_id: JobID, locations: Iterable[str]) -> list[str]:
    """What to delete of what the job's attempts have noted, once it is over: of stored results, `PLACE/JOB/ATTEMPT`, the
    directory of all the job's, which would stay when it is empty."""
    parents = ((location, location.rpartition("/")[0]) for location in locations)
    return list(dict.fromkeys(above if above.endswith(f"/{job_id}") else location for location, above in parents))


def forget_staged(directory: Path, job_id: JobID) -> None:
    """Nothing of the job is staged any more. `directory` has the notes of one worker."""
    for note in (directory / STAGED).glob(f"{job_id}-*"):
        note.unlink(missing_ok=True)


def note_storage(directory: Path, settings: Mapping[str, str]) -> None:
    """Settings of storages, for whoever ends the sinks of a cluster that was killed. `directory` is that of the notes."""
    directory.mkdir(parents=True, exist_ok=True)
    write_private(directory / STORAGE, msgspec.json.encode(settings).decode() if settings else "")


def noted_storage(directory: Path) -> dict[str, str]:
    """The same, as `note_storage` was given it."""
    file = directory / STORAGE
    return msgspec.json.decode(file.read_bytes(), type=dict[str, str]) if file.is_file() else {}


def note_intended(directory: Path, commit: SinkCommit) -> Path:
    """A commit begins; the note is to be deleted at its end."""
    directory.mkdir(parents=True, exist_ok=True)
    note = directory / f"{commit.commit_id}.json"
    temporary = note.with_suffix(".tmp")
    temporary.write_bytes(msgspec.json.encode(commit))
    temporary.replace(note)
    return note
