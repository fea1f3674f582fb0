"""The record of a commit at its target: says that it is done, and which files are its own."""

import contextlib
import json
import os
from pathlib import Path

from firesteel.adapters.storage.durability import sync
from firesteel.model.tasks import SinkCommit

MANIFESTS = Path("_firesteel", "commits")
"""Below the target; readers ignore names that begin with an underscore."""


REPLACED_MAX = 100
"""Former commits that a manifest names."""


def is_done(commit: SinkCommit, target: Path) -> bool:
    """Whether the commit has been carried out to its end."""
    return (target / _name(commit)).exists()


def replaced_by(target: Path) -> list[str]:
    """Ids of commits that those at the target have replaced, newest first, as far as they are remembered."""
    found: list[str] = []
    for path in sorted((target / MANIFESTS).glob("*.json")):
        with contextlib.suppress(OSError, ValueError):
            found += json.loads(path.read_text()).get("replaced", ())
    return found


def write_manifest(commit: SinkCommit, root: Path, files: list[str], replaced: Path | None = None) -> None:
    """Atomic and on disk. `files` are the names under which readers find them; `replaced` is what this takes the place of."""
    former: list[str] = []
    if replaced is not None:
        former = [path.stem for path in sorted((replaced / MANIFESTS).glob("*.json"))] + replaced_by(replaced)
    path = root / _name(commit)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = record_of(commit, files) | ({"replaced": former[:REPLACED_MAX]} if former else {})
    temporary = path.with_suffix(".tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    for directory in (path.parent, path.parent.parent, root):
        sync(directory)


def record_of(commit: SinkCommit, files: list[str]) -> dict[str, object]:
    """What the manifest says of the commit itself."""
    return {
        "version": 1,
        "commit_id": commit.commit_id,
        "job_id": job_of(commit.staging),
        "function": commit.function,
        "format": commit.format,
        "mode": commit.mode,
        "files": files,
        "rows": commit.rows,
        "size_bytes": commit.size_bytes,
    }


def job_of(staging: str) -> str:
    """The job that has staged there: `.../JOB/ATTEMPT/PLACE`."""
    return staging.split("/")[-3]


def unique_name(name: str, commit_id: str) -> str:
    """`part-0-x.parquet` of two commits must not meet: `part-<commit>-0-x.parquet`."""
    parent, base = os.path.split(name)
    head, dash, rest = base.partition("-")
    return os.path.join(parent, f"{head}-{commit_id[:16]}-{rest}" if dash else f"{commit_id[:16]}-{base}")


def _name(commit: SinkCommit) -> Path:
    return MANIFESTS / f"{commit.commit_id}.json"
