"""A commit by renames that failed is taken back: nothing that its job's end does not say stays visible.

What is there says how far the commit came, as for going on with it; so what others had done of it before they were killed
is taken back, too. Staged files are staged again afterwards, and the commit can be tried again.
"""

import contextlib
import posixpath
from collections.abc import Iterable
from pathlib import PurePosixPath

from firesteel.adapters.storage.errors import CommitRefused, NotTakenBack
from firesteel.adapters.storage.lease import LeaseLost
from firesteel.adapters.storage.manifest import is_done, remove_draft, unique_name
from firesteel.adapters.storage.trees import Tree
from firesteel.model.tasks import SinkCommit


def take_back(tree: Tree, commit: SinkCommit, cause: OSError | CommitRefused) -> None:
    """Undo what is visible of a commit that failed of `cause`, unless that was all of it. Raises NotTakenBack or LeaseLost."""
    try:
        if is_done(tree, commit, commit.target):
            return
        match commit.mode:
            case "append":
                _stage_files(tree, commit)
            case "overwrite-partitions":
                _stage_partitions(tree, commit)
            case _:
                _put_back(tree, commit.target, aside(commit.staging))
    except LeaseLost:
        raise
    except OSError as error:
        raise NotTakenBack(
            f"{cause}; and what was visible in {commit.target} by then can't be taken back ({error}): {_visible(commit)}"
        ) from error
    with contextlib.suppress(OSError):
        _tidy_up(tree, commit)


def aside(staging: str) -> str:
    """Where what was replaced lies, in a tree that can't exchange two directories."""
    return f"{staging}.replaced"


def _above(names: Iterable[str]) -> set[str]:
    """The directories that these files are in, and those above, but for the one that the names begin at."""
    return {str(above) for name in names for above in PurePosixPath(name).parents} - {"."}


def _stage_files(tree: Tree, commit: SinkCommit) -> None:
    finals = {unique_name(name, commit.commit_id): name for name in commit.files}
    for final in tree.sizes(commit.target, finals):
        tree.rename(posixpath.join(commit.target, final), posixpath.join(commit.staging, finals[final]))


def _stage_partitions(tree: Tree, commit: SinkCommit) -> None:
    finals = [unique_name(name, commit.commit_id) for name in commit.files]
    new = {posixpath.dirname(final) for final in tree.sizes(commit.target, finals)}
    for partition in sorted({posixpath.dirname(final) for final in finals}):
        staged, place = posixpath.join(commit.staging, partition), posixpath.join(commit.target, partition)
        old = f"{aside(commit.staging)}/{partition}"
        if partition in new and tree.is_there(staged):  # the old one: they were exchanged
            tree.put_in_place(staged, place, old)
        elif partition in new:
            tree.rename(place, staged)
        _put_back(tree, place, old)


def _put_back(tree: Tree, place: str, old: str) -> None:
    """What was moved aside, where nothing has taken its place."""
    if not tree.is_there(place) and tree.is_there(old):
        tree.rename(old, place)


def _tidy_up(tree: Tree, commit: SinkCommit) -> None:
    """Remove what nobody needs: it shows no rows."""
    if commit.mode in ("append", "overwrite-partitions"):
        remove_draft(tree, commit, commit.target)
        for directory in sorted(_above(commit.files), reverse=True):
            tree.remove_empty(posixpath.join(commit.target, directory))
    if commit.mode == "overwrite-partitions":
        tree.remove(aside(commit.staging))


def _visible(commit: SinkCommit) -> str:
    mark = commit.commit_id[:16]
    match commit.mode:
        case "append":
            return (
                f"files with {mark} in their names may be there. Don't retry the job before you have removed them: it would"
                " write their rows a second time"
            )
        case "overwrite-partitions":
            return (
                f"partitions with files that have {mark} in their names are new, the others old; a retry of the job replaces"
                " all of them"
            )
        case _:
            return f"what was there before lies in {aside(commit.staging)}; a retry of the job writes the new"
