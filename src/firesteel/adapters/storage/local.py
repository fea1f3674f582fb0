"""Sink commits on a file system of this machine. Every step may be the last before a crash; repeating goes on.

*overwrite* and *error*: the manifest goes into the staged directory, which then takes the target's place in one step:
`renameat2(RENAME_EXCHANGE)` where the target exists. On file systems without it the old directory is moved aside first
and readers may find no target for a moment. *append*: each file is renamed under a name that holds the commit's id,
the manifest is last; readers may see some of the files before all. A manifest at the target means: done.

What several subtasks of a sink have staged is first moved into one staged directory.
"""

import contextlib
import ctypes
import errno
import json
import os
import shutil
from pathlib import Path

import msgspec

from firesteel.model.tasks import SinkCommit

MANIFESTS = Path("_firesteel", "commits")
STAGING_NAME = ".firesteel-staging"
_SUCCESS = "_SUCCESS"
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


class CommitRefused(Exception):
    """The commit can never succeed; the text says what to do."""


def commit(commit: SinkCommit, target: Path, staging: Path) -> None:
    """Make the staged files readers' files. Raises CommitRefused or OSError."""
    others = [Path(part.staging) for part in commit.parts]
    if not (target / _manifest(commit)).exists():
        commit = _gathered(commit, staging)
        target.parent.mkdir(parents=True, exist_ok=True)
        if commit.mode == "append":
            _append(commit, target, staging)
        else:
            _replace(commit, target, staging)
    remove(_aside(staging))
    for path in (staging, *others):
        remove(path)


def remove(path: Path) -> None:
    """Delete a directory or file; of staging directories also what they leave empty."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    if STAGING_NAME in path.parts:
        for parent in path.parents:
            with contextlib.suppress(OSError):
                parent.rmdir()
            if parent.name == STAGING_NAME:
                return


def advice(error: OSError, target: Path) -> str:
    """What happened and what to do about it, in a sentence."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return f"no space is left for {target}: free some, then retry the job; its output is still staged"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return f"the worker may not write {target} ({error.strerror}): grant it, then retry the job"
        case _:
            return f"{target} could not be written: {error}"


def _gathered(commit: SinkCommit, staging: Path) -> SinkCommit:
    """Move what other subtasks have staged into `staging`, as if one had staged all of it. Repeating goes on."""
    files = list(commit.files)
    for index, part in enumerate(commit.parts, start=1):
        taken = set(files)
        for name in part.files:
            here = _unique(name, f"s{index}") if name in taken else name
            files.append(here)
            if (Path(part.staging) / name).exists():
                (staging / here).parent.mkdir(parents=True, exist_ok=True)
                os.rename(Path(part.staging) / name, staging / here)
    return msgspec.structs.replace(commit, files=tuple(sorted(files)), parts=())


def _replace(commit: SinkCommit, target: Path, staging: Path) -> None:
    _require(commit, staging)
    if commit.mode == "error" and _holds_data(target):
        raise CommitRefused(f"{target} exists and holds data; use mode='overwrite' or 'append', or another path")
    (staging / _SUCCESS).touch()
    _write_manifest(commit, staging)
    if commit.mode == "error" or not os.path.lexists(target):
        os.rename(staging, target)  # onto an empty directory too; refused when it has filled meanwhile
    elif not _exchange(staging, target):
        _swap_in_two_steps(staging, target)
    _sync_directory(target.parent)


def _append(commit: SinkCommit, target: Path, staging: Path) -> None:
    if os.path.lexists(target) and not target.is_dir():
        raise CommitRefused(f"{target} is a file; append needs a directory")
    target.mkdir(exist_ok=True)
    for name in commit.files:
        final = target / _unique(name, commit.commit_id)
        if not final.exists():
            final.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.rename(staging / name, final)
            except FileNotFoundError:
                raise CommitRefused(_lost(commit, name)) from None
    (target / _SUCCESS).touch()
    _write_manifest(commit, target)


def _unique(name: str, commit_id: str) -> str:
    """`part-0-x.parquet` of two commits must not meet: `part-<commit>-0-x.parquet`."""
    parent, base = os.path.split(name)
    head, dash, rest = base.partition("-")
    return os.path.join(parent, f"{head}-{commit_id[:16]}-{rest}" if dash else f"{commit_id[:16]}-{base}")


def _require(commit: SinkCommit, staging: Path) -> None:
    missing = next((name for name in commit.files if not (staging / name).is_file()), None)
    if missing is not None or not staging.is_dir():
        raise CommitRefused(_lost(commit, missing or "everything"))


def _lost(commit: SinkCommit, name: str) -> str:
    return (
        f"the staged output of {commit.function} for {commit.target} is no longer complete ({name} is gone from "
        f"{commit.staging}): something outside firesteel removed it; run the job again"
    )


def _holds_data(target: Path) -> bool:
    return os.path.lexists(target) and (not target.is_dir() or any(target.iterdir()))


def _manifest(commit: SinkCommit) -> Path:
    return MANIFESTS / f"{commit.commit_id}.json"


def _write_manifest(commit: SinkCommit, root: Path) -> None:
    """Atomic and on disk. Names are those under which readers find the files."""
    path = root / _manifest(commit)
    path.parent.mkdir(parents=True, exist_ok=True)
    append = commit.mode == "append"
    files = [_unique(name, commit.commit_id) if append else name for name in commit.files]
    content = {
        "version": 1,
        "commit_id": commit.commit_id,
        "function": commit.function,
        "format": commit.format,
        "mode": commit.mode,
        "files": files,
        "rows": commit.rows,
        "size_bytes": commit.size_bytes,
    }
    temporary = path.with_suffix(".tmp")
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    _sync_directory(path.parent)


def _exchange(first: Path, second: Path) -> bool:
    """Swap two names in one step. False when the system or the file system can't."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), str(second))


def _swap_in_two_steps(staging: Path, target: Path) -> None:
    remove(_aside(staging))
    os.rename(target, _aside(staging))
    os.rename(staging, target)


def _aside(staging: Path) -> Path:
    return staging.with_name(staging.name + ".replaced")


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
