"""A sink's commit where directories can be renamed. Every step may be the last before a crash; repeating goes on.

*overwrite*, *error*, *ignore*: the manifest goes into the staged directory, which then takes the target's place, in one
step where the tree can. *append*: each file is renamed under a name that holds the commit's id, the manifest is last; readers
may see some of the files before all. *overwrite-partitions*: each partition that was written takes the place of its old
self, the manifest is last; readers may see some of the partitions before all. A manifest at the target means: done.

What is staged is made to last before any of it becomes visible; what several subtasks of a sink have staged is moved into
one staged directory first. Whoever commits is alone with the target.
"""

import posixpath
from collections.abc import Iterable

import msgspec

from firesteel.adapters.storage import rivals
from firesteel.adapters.storage.errors import CommitRefused
from firesteel.adapters.storage.manifest import is_done, replaced_by, unique_name, write_manifest
from firesteel.adapters.storage.trees import Tree, holds_data
from firesteel.model.tasks import SinkCommit

_SUCCESS = "_SUCCESS"


def carry_out(tree: Tree, commit: SinkCommit) -> str:
    """Make the staged files readers' files; target, staging and parts are paths of the tree. Returns what the job is to be
    told of others that write there, or nothing. Raises CommitRefused or OSError."""
    told, target, staging = "", commit.target, commit.staging
    was_replaced = not tree.is_there(staging) and commit.commit_id in replaced_by(tree, target)  # by another job
    if not was_replaced and not is_done(tree, commit, target):
        told = rivals.note_of(tree, commit)
        _show(tree, _gathered(tree, commit))
    for path in (_aside(staging), *commit.stagings):
        tree.remove(path)
    return told


def _show(tree: Tree, commit: SinkCommit) -> None:
    match commit.mode:
        case "append":
            _append(tree, commit)
        case "overwrite-partitions":
            _replace_partitions(tree, commit)
        case _:
            _replace(tree, commit)


def _gathered(tree: Tree, commit: SinkCommit) -> SinkCommit:
    """Move what other subtasks have staged beside the first one's, as if one had staged all of it. Repeating goes on."""
    files = list(commit.files)
    for index, part in enumerate(commit.parts, start=1):
        taken, moved = set(files), {}
        for name in part.files:
            moved[name] = unique_name(name, f"s{index}") if name in taken else name
            files.append(moved[name])
        left = {name: moved[name] for name in part.files if name in tree.present(part.staging, part.files)}
        _make_parents(tree, commit.staging, left.values())
        for name, here in left.items():
            tree.rename(posixpath.join(part.staging, name), posixpath.join(commit.staging, here))
    return msgspec.structs.replace(commit, files=tuple(sorted(files)), parts=())


def _replace(tree: Tree, commit: SinkCommit) -> None:
    target, staging = commit.target, commit.staging
    if commit.mode == "ignore" and holds_data(tree, target):
        return
    there = tree.present(staging, commit.files)
    missing = next((name for name in commit.files if name not in there), None)
    if missing is not None or not tree.is_directory(staging):
        raise CommitRefused(_lost(commit, missing or "everything"))
    if commit.mode == "error" and holds_data(tree, target):
        raise CommitRefused(f"{target} exists and holds data; use mode='overwrite' or 'append', or another path")
    tree.write(posixpath.join(staging, _SUCCESS), b"")
    tree.settle(staging, commit.files)
    write_manifest(tree, commit, staging, list(commit.files), target)
    if commit.mode == "overwrite":
        tree.put_in_place(staging, target, _aside(staging))
    else:
        tree.rename(staging, target)  # onto an empty directory too; refused when it has filled meanwhile
    tree.settle_directories(posixpath.dirname(target), ())


def _append(tree: Tree, commit: SinkCommit) -> None:
    _make_directory(tree, commit)
    finals = {name: unique_name(name, commit.commit_id) for name in commit.files}
    tree.settle(commit.staging, sorted(tree.present(commit.staging, commit.files)))
    done = tree.present(commit.target, finals.values())
    left = {name: final for name, final in finals.items() if final not in done}
    _make_parents(tree, commit.target, left.values())
    for name, final in left.items():
        _rename(tree, commit, name, posixpath.join(commit.target, final))
    _end(tree, commit, list(finals.values()))


def _replace_partitions(tree: Tree, commit: SinkCommit) -> None:
    """File names hold the commit's id, so that a partition at the target says whether it is the new one."""
    _make_directory(tree, commit)
    finals = {name: unique_name(name, commit.commit_id) for name in commit.files}
    done = tree.present(commit.target, finals.values())
    left = {name: final for name, final in finals.items() if final not in done}
    renamed = tree.present(commit.staging, left.values())
    partitions: dict[str, list[str]] = {}
    for name, final in left.items():
        if final not in renamed:
            _rename(tree, commit, name, posixpath.join(commit.staging, final))
        partitions.setdefault(posixpath.dirname(final), []).append(posixpath.basename(final))
    _make_parents(tree, commit.target, partitions)
    for partition, files in partitions.items():
        staged = posixpath.join(commit.staging, partition)
        tree.settle(staged, files)
        tree.put_in_place(staged, posixpath.join(commit.target, partition), f"{_aside(commit.staging)}/{partition}")
    _end(tree, commit, list(finals.values()))


def _end(tree: Tree, commit: SinkCommit, finals: list[str]) -> None:
    tree.settle_directories(commit.target, finals)
    tree.write(posixpath.join(commit.target, _SUCCESS), b"")
    write_manifest(tree, commit, commit.target, finals)


def _make_directory(tree: Tree, commit: SinkCommit) -> None:
    if not tree.is_directory(commit.target):
        if tree.is_there(commit.target):
            raise CommitRefused(f"{commit.target} is a file; mode {commit.mode} needs a directory")
        tree.make_directory(commit.target)
    tree.settle_directories(posixpath.dirname(commit.target), ())


def _make_parents(tree: Tree, root: str, names: Iterable[str]) -> None:
    """The directories below `root` that these are in."""
    for parent in sorted({posixpath.dirname(name) for name in names} - {""}):
        tree.make_directory(posixpath.join(root, parent))


def _rename(tree: Tree, commit: SinkCommit, name: str, final: str) -> None:
    try:
        tree.rename(posixpath.join(commit.staging, name), final)
    except FileNotFoundError:
        raise CommitRefused(_lost(commit, posixpath.basename(name))) from None


def _lost(commit: SinkCommit, name: str) -> str:
    return (
        f"the staged output of {commit.function} for {commit.target} is no longer complete ({name} is gone from "
        f"{commit.staging}): something outside firesteel removed it; run the job again"
    )


def _aside(staging: str) -> str:
    return f"{staging}.replaced"
