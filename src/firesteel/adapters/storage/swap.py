"""One directory takes another's place: in one step where the file system can, in two elsewhere."""

import ctypes
import errno
import os
import shutil
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def put_in_place(new: Path, place: Path, aside: Path) -> None:
    """`new` becomes `place`; what was there is afterwards at `new` or at `aside`. Repeating after a crash goes on.

    Without an atomic exchange there is nothing at `place` for a moment.
    """
    if not os.path.lexists(place):
        os.rename(new, place)
    elif not exchange(new, place):
        shutil.rmtree(aside, ignore_errors=True)
        aside.parent.mkdir(parents=True, exist_ok=True)
        os.rename(place, aside)
        os.rename(new, place)


def exchange(first: Path, second: Path) -> bool:
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
