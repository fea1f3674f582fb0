"""Jobs that write one target at the same time: who else does, for the jobs to be told; each commit is whole all the same.

Beside what is staged lies a note that names the target and the commits it had then. A commit that finds another job's note
is followed by that job's; one that finds commits which its own note does not name comes after them.
"""

import hashlib
import json
import posixpath

from firesteel.adapters.storage.manifest import commits_at, job_of, parsed, read_manifest
from firesteel.adapters.storage.trees import Tree
from firesteel.adapters.storage.unremoved import unremoved
from firesteel.model.tasks import Committed, SinkCommit

NAMED_MAX = 3
"""Most other jobs that are told by name."""


NOTE = ".target"
"""Ends the path of the note of what is staged there: `STAGING_NAME/JOB/ATTEMPT/PLACE` beside the target."""


def write_note(tree: Tree, target: str, staging: str) -> None:
    """Rows for `target` are about to be staged; the directory is there."""
    note = {"target": target, "commits": commits_at(tree, target)}
    tree.write(staging + NOTE, json.dumps(note).encode())


def note_of(tree: Tree, commit: SinkCommit) -> str:
    """The message that the job is told when this is about to be committed, or empty."""
    known = parsed(tree, commit.staging + NOTE).get("commits")
    before = _jobs_since(tree, commit, known) if isinstance(known, list) else []
    return sentence(commit, commit.target, before, _jobs_that_write(tree, commit))


def sentence(commit: SinkCommit, target: str, before: list[str], after: list[str]) -> str:
    """What the job is told of jobs that came before it and after, or nothing."""
    told = []
    if before:
        they, have = ("it", "has") if len(before) == 1 else ("they", "have")
        does = _AFTER_OTHERS.get(commit.mode, f"this replaces what {they} wrote of that")
        told.append(f"{_shown(before)} {have} committed to {target} while this job ran, and {does}")
    if after:
        are, come = ("is", "comes") if len(after) == 1 else ("are", "come")
        told.append(f"{_shown(after)} {are} writing {target} too, and {come} later")
    return "; ".join(told)


_AFTER_OTHERS = {
    "append": "this adds to that",
    "ignore": "this leaves that as it is: none of its own rows are there",
}


def left_alone(target: str, told: str = "") -> Committed:
    """Result of a commit in mode `ignore` that has found data; `told` is what is known of those who write there."""
    by_whom = (
        ""
        if _AFTER_OTHERS["ignore"] in told
        else f"{target} was written while this job ran, and {_AFTER_OTHERS['ignore']}"
    )
    return Committed("; ".join(filter(None, (by_whom, told))), ignored=True)


def lock_name(target: str) -> str:
    """Name of the lock that a commit to this target holds."""
    return f"target-{hashlib.sha256(target.encode()).hexdigest()[:16]}"


def is_of(note: str, locations: list[str]) -> bool:
    """Whether it is that of one of these, or lies below one."""
    return any(note == location + NOTE or note.startswith(f"{location}/") for location in locations)


def _jobs_since(tree: Tree, commit: SinkCommit, known: list[object]) -> list[str]:
    """Jobs whose commits are there and were not when this one began to stage. A job's own sinks are not its rivals."""
    since = [each for each in commits_at(tree, commit.target) if each not in (*known, commit.commit_id)]
    jobs = {str(read_manifest(tree, commit.target, each).get("job_id") or "another job") for each in since}
    return sorted(jobs - {job_of(commit.staging)})


def _jobs_that_write(tree: Tree, commit: SinkCommit) -> list[str]:
    """Other jobs that have staged for this target, or are about to, and whose rows are needed."""
    own = posixpath.dirname(posixpath.dirname(commit.staging))
    above = posixpath.dirname(own)
    left = [each.location for each in unremoved(above)]
    found = []
    for job in (f"{above}/{name}" for name in tree.names(above)):
        attempts = [] if job == own else [f"{job}/{name}" for name in tree.names(job)]
        notes = (f"{each}/{name}" for each in attempts for name in tree.names(each) if name.endswith(NOTE))
        if any(parsed(tree, note).get("target") == commit.target for note in notes if not is_of(note, left)):
            found.append(posixpath.basename(job))
    return found


def _shown(jobs: list[str]) -> str:
    named = [f"job {each}" if len(each) == 32 else each for each in jobs[:NAMED_MAX]]
    more = len(jobs) - NAMED_MAX
    *first, last = [*named, f"{more} more"] if more > 0 else named
    return f"{', '.join(first)} and {last}" if first else last
