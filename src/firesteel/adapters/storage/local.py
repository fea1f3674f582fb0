"""Directories of this machine, or mounted on it, as a `Tree`; and the lock that a commit there holds."""

import contextlib
import errno
import os
import shutil
import socket
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from firesteel.adapters.storage import renames, rivals, swap
from firesteel.adapters.storage.durability import sync_directories, sync_files
from firesteel.adapters.storage.errors import CommitRefused, TargetBusy
from firesteel.adapters.storage.flocks import take_lock
from firesteel.adapters.storage.manifest import job_of
from firesteel.adapters.storage.sinkstore import STAGING_NAME
from firesteel.adapters.storage.unremoved import is_staged, note_unremoved
from firesteel.model.tasks import Committed, SinkCommit


class LocalTree:
    """A `Tree`."""

    def is_there(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def sizes(self, root: str, names: Iterable[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for name in names:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                status = os.stat(os.path.join(root, name))
                found |= {name: status.st_size} if stat.S_ISREG(status.st_mode) else {}
        return found

    def check_writable(self, directories: Iterable[str]) -> None:
        for each in directories:
            if not os.access(each, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), each)

    def read(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        Path(path).write_bytes(data)

    def make_directory(self, path: str) -> None:
        make_directory(Path(path))

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)
        parent, name = os.path.split(old)
        Path(parent, f".{name}.crc").unlink(missing_ok=True)  # of Spark; it names a file that is no more

    def put_in_place(self, new: str, place: str, aside: str) -> None:
        swap.put_in_place(Path(new), Path(place), Path(aside))

    def remove(self, path: str) -> None:
        try:
            remove(Path(path))
        except OSError as error:
            if not is_staged(path):
                raise
            note_unremoved(path, str(error))

    def remove_empty(self, directory: str) -> None:
        with contextlib.suppress(OSError):
            os.rmdir(directory)

    def settle(self, root: str, names: Iterable[str]) -> None:
        sync_files(Path(root), list(names))

    def settle_directories(self, root: str, names: Iterable[str]) -> None:
        sync_directories(Path(root), names)


TREE = LocalTree()


def commit(commit: SinkCommit, target: Path, staging: Path) -> Committed:
    """Make the staged files readers' files. Raises CommitRefused or OSError."""
    here, job = msgspec.structs.replace(commit, target=str(target), staging=str(staging)), job_of(str(staging))
    with _alone(commit.commit_id, target, job), _alone(rivals.lock_name(str(target)), target, job):
        return renames.carry_out(TREE, here)


def remove(path: Path) -> None:
    """Delete a directory or file; of staging directories also what they leave empty. Raises OSError: of a directory only if it
    is staged, and still there."""
    with contextlib.suppress(NotADirectoryError):  # a file stands where a directory above it was: it is gone
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            if STAGING_NAME in path.parts and path.exists():
                shutil.rmtree(path)  # it says why
    else:
        path.unlink(missing_ok=True)
    if STAGING_NAME in path.parts:
        path.with_name(path.name + rivals.NOTE).unlink(missing_ok=True)
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


def advice(error: OSError, target: Path, *, is_committing: bool = True) -> str:
    """A sentence on what happened and what to do about it; `is_committing` when all is staged, else nothing is."""
    where = error.filename2 or error.filename or target
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return f"no space is left for {target}: free some"
        case errno.EACCES | errno.EPERM:
            return (
                f"{_who()} may not write {where} ({error.strerror}): grant it, or write elsewhere; then retry the job"
            )
        case errno.EROFS:
            return (
                f"{_who()} can't write {where}, which is mounted read-only there: mount it for writing, or write elsewhere;"
                " then retry the job"
            )
        case errno.ENOENT | errno.ENOTDIR | errno.ENOSYS | errno.EOPNOTSUPP if not is_committing:
            return f"{_who()} can't make a directory in {target.parent} ({error.strerror}): write to a place that holds files"
        case _:
            return f"{target} could not be written: {error}"


def _who() -> str:
    """This process, as one who has to grant it something knows it."""
    return f"the worker on {socket.gethostname()} (user {os.geteuid()})"


LOCK_WAIT_S = 10.0
"""Time that a commit waits for others at its target before it says so, to be asked for again."""
LOCK_LOOK_S = 0.02
"""Time from one look at the lock to the next."""
HOLDER_BYTES_MAX = 300
"""Most that is read of who holds it."""


@contextlib.contextmanager
def _alone(name: str, target: Path, job: str) -> Iterator[None]:
    """One at a time carries out a commit: two swaps at once would swap the old files back. And one at a time writes a
    target: files that are renamed into a directory while it is swapped would be lost. Raises TargetBusy or OSError."""
    lock = target.parent / STAGING_NAME / f"{name}.lock"
    descriptor = _locked(lock, target)
    try:
        with contextlib.suppress(OSError):  # a full disk, and whoever waits knows less
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"job {job} on {socket.gethostname()} (process {os.getpid()})".encode())
        yield
        remove(lock)
    except (CommitRefused, OSError):
        remove(lock)
        raise
    finally:
        os.close(descriptor)


def _locked(lock: Path, target: Path) -> int:
    """Wait for the lock; a file that its last holder has removed meanwhile is none. Raises TargetBusy or OSError."""
    until = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            make_directory(lock.parent)
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError:
            continue  # the last holder was about to remove the directory
        if not take_lock(descriptor):
            holder = os.pread(descriptor, HOLDER_BYTES_MAX, 0).decode(errors="replace")
            os.close(descriptor)
            if time.monotonic() >= until:
                raise TargetBusy(f"{holder or 'another process'} is writing {target}")
            time.sleep(LOCK_LOOK_S)
            continue
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # also releases it: others may wait for this removed file
