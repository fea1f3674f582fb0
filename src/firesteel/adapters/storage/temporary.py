"""Temporary directories that belong to a process: the kernel frees its lock on one however it dies, so that others can tell."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from firesteel.adapters.storage.flocks import take_lock

LOCK = "owner.lock"


@contextlib.contextmanager
def temporary_directory(prefix: str) -> Iterator[Path]:
    """A new directory for this process, removed at the end.

    Those of this user and prefix whose processes are dead are removed first. Blocks; raises OSError.
    """
    _remove_abandoned(prefix)
    made = Path(tempfile.mkdtemp(prefix=prefix))
    while (lock := try_lock(made / LOCK)) is None:  # somebody who clears up was faster, and removes it
        made = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(lock)


def try_lock(file: Path) -> int | None:
    """Descriptor of the file, made if need be and locked until it is closed; None when another process has the lock, or
    the file goes away meanwhile."""
    try:
        lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:  # its directory has just been removed
        return None
    try:
        is_there = take_lock(lock) and os.fstat(lock).st_nlink > 0
    except OSError:
        is_there = False
    if not is_there:  # somebody has it, or has removed it meanwhile
        os.close(lock)
        return None
    return lock


def _remove_abandoned(prefix: str) -> None:
    for file in Path(tempfile.gettempdir()).glob(f"{prefix}*/{LOCK}"):
        with contextlib.suppress(OSError):
            if file.lstat().st_uid == os.getuid() and (lock := try_lock(file)) is not None:
                shutil.rmtree(file.parent, ignore_errors=True)
                os.close(lock)
