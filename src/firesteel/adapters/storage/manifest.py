"""The record of a commit at its target: says that it is done, and which files are its own."""

import contextlib
import json
import posixpath

from firesteel.adapters.storage.errors import Unusable
from firesteel.adapters.storage.trees import Tree
from firesteel.model.tasks import SinkCommit

MANIFESTS = "_firesteel/commits"
"""Below the target; readers ignore names that begin with an underscore."""


REPLACED_MAX = 100
"""Former commits that a manifest names."""


def is_done(tree: Tree, commit: SinkCommit, target: str) -> bool:
    """Whether the commit has been carried out to its end."""
    return tree.is_there(posixpath.join(target, _name(commit)))


def commits_at(tree: Tree, target: str) -> list[str]:
    """Ids of the commits whose manifests are there, sorted."""
    names = tree.names(posixpath.join(target, MANIFESTS))
    return [name.removesuffix(".json") for name in names if name.endswith(".json")]


def read_manifest(tree: Tree, target: str, commit_id: str) -> dict[str, object]:
    """What it says; of one that is gone or is none, nothing."""
    return parsed(tree, posixpath.join(target, MANIFESTS, f"{commit_id}.json"))


def parsed(tree: Tree, path: str) -> dict[str, object]:
    """The record in a file; of what is none, or not for us, nothing."""
    with contextlib.suppress(FileNotFoundError, PermissionError, Unusable, ValueError):
        content = json.loads(tree.read(path))
        return content if isinstance(content, dict) else {}
    return {}


def replaced_by(tree: Tree, target: str) -> list[str]:
    """Ids of commits that those at the target have replaced, newest first, as far as they are remembered."""
    found: list[str] = []
    for each in commits_at(tree, target):
        replaced = read_manifest(tree, target, each).get("replaced", ())
        found += map(str, replaced) if isinstance(replaced, list) else ()
    return found


def draft_manifest(tree: Tree, commit: SinkCommit, root: str, files: list[str], replaced: str = "") -> None:
    """Write it to the disk, under a name at which nobody looks. `files` are the names under which readers find them;
    `replaced` is what this takes the place of."""
    former = [*commits_at(tree, replaced), *replaced_by(tree, replaced)] if replaced else []
    content = record_of(commit, files) | ({"replaced": former[:REPLACED_MAX]} if former else {})
    tree.make_directory(posixpath.join(root, posixpath.dirname(_draft(commit))))
    tree.write(posixpath.join(root, _draft(commit)), json.dumps(content, indent=1).encode())
    tree.settle(root, (_draft(commit),))


def publish_manifest(tree: Tree, commit: SinkCommit, root: str) -> None:
    """Make a draft the record. Atomic and lasting."""
    tree.rename(posixpath.join(root, _draft(commit)), posixpath.join(root, _name(commit)))
    tree.settle_directories(root, (_name(commit),))


def remove_draft(tree: Tree, commit: SinkCommit, root: str) -> None:
    """Also the directories that this leaves empty."""
    tree.remove(posixpath.join(root, _draft(commit)))
    for directory in (MANIFESTS, posixpath.dirname(MANIFESTS)):
        tree.remove_empty(posixpath.join(root, directory))


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
    parent, base = posixpath.split(name)
    head, dash, rest = base.partition("-")
    return posixpath.join(parent, f"{head}-{commit_id[:16]}-{rest}" if dash else f"{commit_id[:16]}-{base}")


def _name(commit: SinkCommit) -> str:
    return f"{MANIFESTS}/{commit.commit_id}.json"


def _draft(commit: SinkCommit) -> str:
    return f"{MANIFESTS}/{commit.commit_id}.tmp"
