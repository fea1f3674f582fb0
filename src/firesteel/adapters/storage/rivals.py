"""Jobs that write one target at the same time: who else does, for the jobs to be told; each commit is whole all the same.

Beside what is staged lies a note that names the target and the commits it had then. A commit that finds another job's note
is followed by that job's; one that finds commits which its own note does not name comes after them.
"""

import contextlib
import hashlib
import json
from pathlib import Path

from firesteel.adapters.storage.manifest import MANIFESTS
from firesteel.model.tasks import SinkCommit

NAMED_MAX = 3
"""Most other jobs that are told by name."""


def note_path(staging: Path) -> Path:
    """Path of the note of what is staged there: `STAGING_NAME/JOB/ATTEMPT/PLACE` beside the target."""
    return staging.with_name(f"{staging.name}.target")


def write_note(target: Path, staging: Path) -> None:
    """Rows for `target` are about to be staged; the directory is there."""
    note = {"target": str(target), "commits": sorted(path.stem for path in (target / MANIFESTS).glob("*.json"))}
    note_path(staging).write_text(json.dumps(note))


def note_of(commit: SinkCommit, target: Path, staging: Path) -> str:
    """The message that the job is told when this is about to be committed, or empty."""
    own = staging.parent.parent
    known = _read(note_path(staging)).get("commits")
    before = [] if known is None else _jobs_since(commit, target, known, own.name)
    notes = (note for note in own.parent.glob("*/*/*.target") if note.parent.parent != own)
    after = sorted({note.parent.parent.name for note in notes if _read(note).get("target") == str(target)})
    return sentence(commit, str(target), before, after)


def sentence(commit: SinkCommit, target: str, before: list[str], after: list[str]) -> str:
    """What the job is told of jobs that came before it and after, or nothing."""
    told = []
    if before:
        verb = "adds to" if commit.mode == "append" else "replaces what it wrote of"
        told.append(f"{_shown(before)} has committed to {target} while this job ran, and this {verb} that")
    if after:
        told.append(f"{_shown(after)} is writing {target} too, and comes later")
    return "; ".join(told)


def lock_name(target: Path | str) -> str:
    """Name of the lock that a commit to this target holds."""
    return f"target-{hashlib.sha256(str(target).encode()).hexdigest()[:16]}"


def _jobs_since(commit: SinkCommit, target: Path, known: object, own: str) -> list[str]:
    """Jobs whose commits are there and were not when this one began to stage. A job's own sinks are not its rivals."""
    old = [*known, commit.commit_id] if isinstance(known, list) else []
    found = [path for path in (target / MANIFESTS).glob("*.json") if path.stem not in old]
    return sorted({str(_read(path).get("job_id") or "another job") for path in found} - {own})


def _read(path: Path) -> dict[str, object]:
    with contextlib.suppress(OSError, ValueError):
        content = json.loads(path.read_text())
        return content if isinstance(content, dict) else {}
    return {}


def _shown(jobs: list[str]) -> str:
    more = len(jobs) - NAMED_MAX
    return ", ".join(f"job {each}" if len(each) == 32 else each for each in jobs[:NAMED_MAX]) + (
        f" and {more} more" if more > 0 else ""
    )
