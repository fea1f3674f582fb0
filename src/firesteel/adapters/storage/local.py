"""Sink commits on a file system of this machine. Every step may be the last before a crash; repeating goes on.

*overwrite*, *error*, *ignore*: the manifest goes into the staged directory, which then takes the target's place in one
step. *append*: each file is renamed under a name that holds the commit's id, the manifest is last; readers may see some
of the files before all. *overwrite-partitions*: each partition that was written takes the place of its old self, the
manifest is last; readers may see some of the partitions before all. A manifest at the target means: done.

What is staged is put on the disk before any of it becomes visible; what several subtasks of a sink have staged is moved
into one staged directory first.
"""

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from firesteel.adapters.storage import rivals, swap
from firesteel.adapters.storage.durability import sync, sync_directories, sync_files
from firesteel.adapters.storage.errors import CommitRefused
from firesteel.adapters.storage.manifest import is_done, replaced_by, unique_name, write_manifest
from firesteel.adapters.storage.sinkstore import STAGING_NAME
from firesteel.model.tasks import SinkCommit

_SUCCESS = "_SUCCESS"


def commit(commit: SinkCommit, target: Path, staging: Path) -> str:
    """Make the staged files readers' files; returns what the job is to be told of others that write there, or nothing.

    Raises CommitRefused or OSError.
    """
    told = ""
    with _alone(commit.commit_id, target), _alone(rivals.lock_name(target), target):
        was_replaced = not staging.exists() and commit.commit_id in replaced_by(target)  # by another job, meanwhile
        if not was_replaced and not is_done(commit, target):
            told = rivals.note_of(commit, target, staging)
            _carry_out(_gathered(commit, staging), target, staging)
        remove(_aside(staging))
        for path in (staging, *(Path(part.staging) for part in commit.parts)):
            remove(path)
    return told


def remove(path: Path) -> None:
    """Delete a directory or file; of staging directories also what they leave empty."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    if STAGING_NAME in path.parts:
        rivals.note_path(path).unlink(missing_ok=True)
        for parent in path.parents:
            with contextlib.suppress(OSError):
                parent.rmdir()
            if parent.name == STAGING_NAME:
                return


MAKE_TRIES_MAX = 100
"""Times that a directory is made which others remove meanwhile; where none can be made, as in /proc, the last says why."""


def make_directory(path: Path) -> None:
    """Make it and those above it, while others may remove the ones that they leave empty. Raises OSError."""
    for left in reversed(range(MAKE_TRIES_MAX)):
        try:
            path.mkdir(parents=True, exist_ok=True)
        except (FileNotFoundError, FileExistsError):
            if path.is_file() or not left:
                raise
        else:
            return


def holds_data(target: Path) -> bool:
    """Whether there is something that the modes `error` and `ignore` leave alone."""
    return os.path.lexists(target) and (not target.is_dir() or any(target.iterdir()))


def advice(error: OSError, target: Path) -> str:
    """A sentence on what happened and what to do about it."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return f"no space is left for {target}: free some, then retry the job; its output is still staged"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return f"the worker may not write {target} ({error.strerror}): grant it, then retry the job"
        case _:
            return f"{target} could not be written: {error}"


@contextlib.contextmanager
def _alone(name: str, target: Path) -> Iterator[None]:
    """One at a time carries out a commit: two swaps at once would swap the old files back. And one at a time writes a
    target: files that are renamed into a directory while it is swapped would be lost."""
    lock = target.parent / STAGING_NAME / f"{name}.lock"
    descriptor = _locked(lock)
    try:
        yield
        remove(lock)
    except (CommitRefused, OSError):
        remove(lock)
        raise
    finally:
        os.close(descriptor)


def _locked(lock: Path) -> int:
    """Wait for the lock; a file that its last holder has removed meanwhile is none."""
    while True:
        try:
            make_directory(lock.parent)
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError:
            continue  # the last holder was about to remove the directory
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # also releases it: others may wait for this removed file


def _carry_out(commit: SinkCommit, target: Path, staging: Path) -> None:
    match commit.mode:
        case "append":
            _append(commit, target, staging)
        case "overwrite-partitions":
            _replace_partitions(commit, target, staging)
        case _:
            _replace(commit, target, staging)


def _gathered(commit: SinkCommit, staging: Path) -> SinkCommit:
    """Move what other subtasks have staged into `staging`, as if one had staged all of it. Repeating goes on."""
    files = list(commit.files)
    for index, part in enumerate(commit.parts, start=1):
        taken = set(files)
        for name in part.files:
            here = unique_name(name, f"s{index}") if name in taken else name
            files.append(here)
            if (Path(part.staging) / name).exists():
                (staging / here).parent.mkdir(parents=True, exist_ok=True)
                os.rename(Path(part.staging) / name, staging / here)
    return msgspec.structs.replace(commit, files=tuple(sorted(files)), parts=())


def _replace(commit: SinkCommit, target: Path, staging: Path) -> None:
    if commit.mode == "ignore" and holds_data(target):
        return
    missing = next((name for name in commit.files if not (staging / name).is_file()), None)
    if missing is not None or not staging.is_dir():
        raise CommitRefused(_lost(commit, missing or "everything"))
    if commit.mode == "error" and holds_data(target):
        raise CommitRefused(f"{target} exists and holds data; use mode='overwrite' or 'append', or another path")
    (staging / _SUCCESS).touch()
    sync_files(staging, commit.files)
    write_manifest(commit, staging, list(commit.files), target)
    if commit.mode == "overwrite":
        swap.put_in_place(staging, target, _aside(staging))
    else:
        os.rename(staging, target)  # onto an empty directory too; refused when it has filled meanwhile
    sync(target.parent)


def _append(commit: SinkCommit, target: Path, staging: Path) -> None:
    _make_directory(commit, target)
    finals = [unique_name(name, commit.commit_id) for name in commit.files]
    sync_files(staging, [name for name in commit.files if (staging / name).exists()])
    for name, final in zip(commit.files, finals, strict=True):
        _rename_once(commit, staging / name, target / final)
    _end(commit, target, finals)


def _replace_partitions(commit: SinkCommit, target: Path, staging: Path) -> None:
    """File names hold the commit's id, so that a partition at the target says whether it is the new one."""
    _make_directory(commit, target)
    partitions: dict[str, list[str]] = {}
    finals = [unique_name(name, commit.commit_id) for name in commit.files]
    for name, final in zip(commit.files, finals, strict=True):
        if not (target / final).exists():
            _rename_once(commit, staging / name, staging / final)
            partitions.setdefault(os.path.dirname(final), []).append(final)
    for partition, files in partitions.items():
        sync_files(staging / partition, [os.path.basename(name) for name in files])
        (target / partition).parent.mkdir(parents=True, exist_ok=True)
        swap.put_in_place(staging / partition, target / partition, _aside(staging) / partition)
    _end(commit, target, finals)


def _end(commit: SinkCommit, target: Path, finals: list[str]) -> None:
    sync_directories(target, finals)
    (target / _SUCCESS).touch()
    write_manifest(commit, target, finals)


def _make_directory(commit: SinkCommit, target: Path) -> None:
    if os.path.lexists(target) and not target.is_dir():
        raise CommitRefused(f"{target} is a file; mode {commit.mode} needs a directory")
    target.mkdir(exist_ok=True)
    sync(target.parent)


def _rename_once(commit: SinkCommit, staged: Path, final: Path) -> None:
    """Unless an earlier try has."""
    if final.exists():
        return
    final.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(staged, final)
    except FileNotFoundError:
        raise CommitRefused(_lost(commit, staged.name)) from None
    staged.with_name(f".{staged.name}.crc").unlink(missing_ok=True)  # it names a file that is no more


def _lost(commit: SinkCommit, name: str) -> str:
    return (
        f"the staged output of {commit.function} for {commit.target} is no longer complete ({name} is gone from "
        f"{commit.staging}): something outside firesteel removed it; run the job again"
    )


def _aside(staging: Path) -> Path:
    return staging.with_name(staging.name + ".replaced")
