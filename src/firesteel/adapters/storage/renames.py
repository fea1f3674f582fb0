"""A sink's commit where directories can be renamed. Every step may be the last before a crash; repeating goes on.

*overwrite*, *error*, *ignore*: the manifest goes into the staged directory, which then takes the target's place, in one
step where the tree can. *append*: each file is renamed under a name that holds the commit's id, the manifest is last; readers
may see some of the files before all. *overwrite-partitions*: each partition that was written takes the place of its old
self, the manifest is last; readers may see some of the partitions before all. A manifest at the target means: done.

What is staged is looked through and made to last, and the manifest drafted, before any of it becomes visible; what several
subtasks of a sink have staged is moved into one staged directory first. Whoever commits is alone with the target.

A commit that fails takes back what is visible of it, also what one before it that was killed had made so.
"""

import posixpath
from collections.abc import Iterable, Mapping

import msgspec

from firesteel.adapters.storage import rivals, takingback
from firesteel.adapters.storage.errors import CommitRefused, TargetTaken
from firesteel.adapters.storage.lease import LeaseLost
from firesteel.adapters.storage.manifest import draft_manifest, is_done, publish_manifest, replaced_by, unique_name
from firesteel.adapters.storage.takingback import aside
from firesteel.adapters.storage.trees import Tree, holds_data
from firesteel.model.tasks import Committed, SinkCommit

_SUCCESS = "_SUCCESS"


def carry_out(tree: Tree, commit: SinkCommit) -> Committed:
    """Make the staged files readers' files; target, staging and parts are paths of the tree. Raises CommitRefused or OSError;
    but for NotTakenBack and LeaseLost nothing of it is visible then."""
    done, target, staging = Committed(), commit.target, commit.staging
    was_exchanged = commit.mode == "overwrite" or not tree.is_there(
        staging
    )  # of an exchange what was there may be left
    was_replaced = was_exchanged and commit.commit_id in replaced_by(tree, target)  # by another job
    if not was_replaced and not is_done(tree, commit, target):
        told = rivals.note_of(tree, commit)
        is_shown = _show(tree, _gathered(tree, commit))
        done = Committed(told) if is_shown else rivals.left_alone(target, told)
    for path in (aside(staging), *commit.stagings):
        tree.remove(path)
    return done


def _show(tree: Tree, commit: SinkCommit) -> bool:
    """False where mode `ignore` leaves what is there."""
    was_there = tree.is_there(commit.target)
    try:
        match commit.mode:
            case "append":
                _append(tree, commit)
            case "overwrite-partitions":
                _replace_partitions(tree, commit)
            case _:
                return _replace(tree, commit)
    except LeaseLost:
        raise  # somebody else goes on with it
    except (OSError, CommitRefused) as error:
        takingback.take_back(tree, commit, error)
        if not was_there:
            tree.remove_empty(commit.target)
        raise
    return True


def _gathered(tree: Tree, commit: SinkCommit) -> SinkCommit:
    """Move what other subtasks have staged beside the first one's, as if one had staged all of it. Repeating goes on."""
    files = list(commit.files)
    for index, part in enumerate(commit.parts, start=1):
        taken, moved = set(files), {}
        for name in part.files:
            moved[name] = unique_name(name, f"s{index}") if name in taken else name
            files.append(moved[name])
        left = {name: moved[name] for name in tree.sizes(part.staging, part.files)}
        for parent in _parents(left.values()):
            tree.make_directory(posixpath.join(commit.staging, parent))
        for name, here in left.items():
            tree.rename(posixpath.join(part.staging, name), posixpath.join(commit.staging, here))
    return msgspec.structs.replace(commit, files=tuple(sorted(files)), parts=())


def _replace(tree: Tree, commit: SinkCommit) -> bool:
    """False where mode `ignore` leaves what is there."""
    target, staging = commit.target, commit.staging
    if commit.mode == "ignore" and holds_data(tree, target):
        return False
    if not tree.is_directory(staging):
        raise CommitRefused(_lost(commit, "everything"))
    _check_complete(commit, tree.sizes(staging, commit.files), {name: (name,) for name in commit.files})
    if commit.mode == "error" and holds_data(tree, target):
        raise TargetTaken(f"{target} exists and holds data")
    tree.write(posixpath.join(staging, _SUCCESS), b"")
    tree.settle(staging, commit.files)
    draft_manifest(tree, commit, staging, list(commit.files), target)
    publish_manifest(tree, commit, staging)
    if commit.mode == "overwrite":
        tree.put_in_place(staging, target, aside(staging))
    else:
        tree.rename(staging, target)  # onto an empty directory too; refused when it has filled meanwhile
    tree.settle_directories(posixpath.dirname(target), ())
    return True


def _append(tree: Tree, commit: SinkCommit) -> None:
    finals = {name: unique_name(name, commit.commit_id) for name in commit.files}
    done, there = tree.sizes(commit.target, finals.values()), tree.sizes(commit.staging, commit.files)
    _check_complete(commit, there | done, {name: (final, name) for name, final in finals.items()})
    left = {name: final for name, final in finals.items() if final not in done}
    parents = _parents(left.values())
    _make_directories(tree, commit, parents)
    tree.check_writable([posixpath.join(commit.target, parent) for parent in parents])
    tree.settle(commit.staging, sorted(there))
    draft_manifest(tree, commit, commit.target, list(finals.values()))
    for name, final in left.items():
        tree.rename(posixpath.join(commit.staging, name), posixpath.join(commit.target, final))
    _end(tree, commit, list(finals.values()))


def _replace_partitions(tree: Tree, commit: SinkCommit) -> None:
    """File names hold the commit's id, so that a partition at the target says whether it is the new one."""
    finals = {name: unique_name(name, commit.commit_id) for name in commit.files}
    done = tree.sizes(commit.target, finals.values())
    there = tree.sizes(commit.staging, (*finals.values(), *commit.files))
    _check_complete(commit, there | done, {name: (final, name) for name, final in finals.items()})
    partitions: dict[str, list[str]] = {}
    for final in finals.values():
        if final not in done:
            partitions.setdefault(posixpath.dirname(final), []).append(posixpath.basename(final))
    _make_directories(tree, commit, _parents(partitions))
    places = [posixpath.join(commit.target, partition) for partition in partitions]
    above = sorted({posixpath.dirname(place) for place in places})
    tree.check_writable([*above, *(place for place in places if tree.is_directory(place))])
    draft_manifest(tree, commit, commit.target, list(finals.values()))
    for name, final in finals.items():
        if final not in done and final not in there:
            tree.rename(posixpath.join(commit.staging, name), posixpath.join(commit.staging, final))
    for partition, files in partitions.items():
        staged = posixpath.join(commit.staging, partition)
        tree.settle(staged, files)
        tree.put_in_place(staged, posixpath.join(commit.target, partition), f"{aside(commit.staging)}/{partition}")
    _end(tree, commit, list(finals.values()))


def _end(tree: Tree, commit: SinkCommit, finals: list[str]) -> None:
    tree.settle_directories(commit.target, finals)
    success = posixpath.join(commit.target, _SUCCESS)
    is_first = not tree.is_there(success)
    tree.write(success, b"")
    try:
        publish_manifest(tree, commit, commit.target)
    except OSError:
        if is_first and not is_done(tree, commit, commit.target):
            tree.remove(success)
        raise


def _make_directories(tree: Tree, commit: SinkCommit, below: list[str]) -> None:
    """The target, and these in it."""
    if not tree.is_directory(commit.target):
        if tree.is_there(commit.target):
            raise CommitRefused(f"{commit.target} is a file; mode {commit.mode} needs a directory")
        tree.make_directory(commit.target)
    tree.settle_directories(posixpath.dirname(commit.target), ())
    for each in below:
        tree.make_directory(posixpath.join(commit.target, each))


def _parents(names: Iterable[str]) -> list[str]:
    """The directories that these are in, but for the one that the names begin at."""
    return sorted({posixpath.dirname(name) for name in names} - {""})


def _check_complete(commit: SinkCommit, sizes: Mapping[str, int], places: Mapping[str, tuple[str, ...]]) -> None:
    """All staged files are there, at one of the places that each may be at by now, and as large as they were together."""
    total = 0
    for name, names in places.items():
        found = next((sizes[each] for each in names if each in sizes), None)
        if found is None:
            raise CommitRefused(_lost(commit, posixpath.basename(name)))
        total += found
    if commit.size_bytes not in (-1, total):
        raise CommitRefused(
            f"the staged output of {commit.function} for {commit.target} is not what was written (its files in"
            f" {commit.staging} have {total} bytes, and had {commit.size_bytes}): something outside firesteel has changed"
            " them; run the job again"
        )


def _lost(commit: SinkCommit, name: str) -> str:
    return (
        f"the staged output of {commit.function} for {commit.target} is no longer complete ({name} is gone from "
        f"{commit.staging}): something outside firesteel removed it; run the job again"
    )
