"""Directories that are made under a hidden name and get their own when they are whole.

Whoever makes one holds a lock on it, which its death opens: so the next one in the same place removes what was left.
"""

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from firesteel.adapters.storage.flocks import take_lock

PREFIX = ".firesteel-partial-"
_YOUNG_SECONDS = 60.0
"""So old are those at least that are removed: between the making of one and its lock there is a moment."""


@contextlib.contextmanager
def partial_directory(parent: Path) -> Iterator[Path]:
    """A directory below `parent`, which exists. What is still there at the end, by that name, is removed. Raises OSError."""
    _sweep(parent)
    path = parent / f"{PREFIX}{secrets.token_hex(8)}"
    path.mkdir()
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks: then nobody sweeps, either
            take_lock(descriptor)
        yield path
    finally:
        os.close(descriptor)
        shutil.rmtree(path, ignore_errors=True)


def _sweep(parent: Path) -> None:
    for path in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime < _YOUNG_SECONDS:
                continue
            descriptor = os.open(path, os.O_RDONLY)
            try:
                if take_lock(descriptor):
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)
