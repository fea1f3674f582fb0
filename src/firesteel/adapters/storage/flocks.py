"""Locks on files, which the kernel opens when the process that has one ends, however it does."""

import fcntl
from typing import IO


def take_lock(file: int | IO[bytes] | IO[str]) -> bool:
    """Whether this process has the lock now; False while another one has it. It lasts until the file is closed. Raises OSError
    where there are no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
