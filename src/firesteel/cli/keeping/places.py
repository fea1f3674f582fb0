"""Where a kept cluster is found: a directory of its user's for each directory that commands are run in.

Everything there may be out of date: its processes may have been killed, or the machine started anew. So nothing is
believed but who answers at the socket; records are for looking at processes, and for ending them.
"""

import asyncio
import contextlib
import hashlib
import os
import shutil
import socket
import stat
import struct
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from firesteel.adapters.storage.flocks import take_lock
from firesteel.cli.background import ClusterDirectory
from firesteel.client.finding import cluster_directory
from firesteel.model.options import Configuration

KEPT = "kept"
SOCKET, LOCK = "socket", "lock"
LOCK_LOOK_S = 0.02
LOCK_LIMIT_S = 90.0
"""Another command may begin a cluster, or end one, for so long."""
DIGITS = 16
_PEER = struct.Struct("3i")
"""Process, user and group of the other side, as the system says them."""


def place_of(configuration: Configuration, directory: str) -> ClusterDirectory:
    """The place for commands that are run in `directory`."""
    name = hashlib.sha256(os.fsencode(os.path.realpath(directory))).hexdigest()[:DIGITS]
    return ClusterDirectory(configuration, f"{KEPT}/{name}")


def all_places(configuration: Configuration) -> list[ClusterDirectory]:
    """Places where there is, or was, a kept cluster of this user."""
    with contextlib.suppress(OSError):
        check_own(_root(configuration))
        names = sorted(each.name for each in _root(configuration).iterdir() if each.is_dir())
        return [ClusterDirectory(configuration, f"{KEPT}/{name}") for name in names]
    return []


def make_own(place: ClusterDirectory) -> None:
    """Make the directories, which are nobody else's to look into. Raises OSError where they are."""
    for directory in (place.path.parent, place.path):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_own(directory)
    place.logs.mkdir(exist_ok=True)


def check_own(directory: Path) -> None:
    """Raises PermissionError when others may have put something there, or could read it."""
    found = directory.lstat()
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    if not is_own:
        raise PermissionError(f"{directory} is not a directory of yours alone")


def forget(place: ClusterDirectory) -> None:
    """Remove what is there. The locks of the other places are not below it."""
    shutil.rmtree(place.path, ignore_errors=True)


def forget_alone(path: Path) -> None:
    """The same, unless a command is at work there, which then does that."""
    with contextlib.suppress(OSError):
        lock = _open_lock(path.parent)
        try:
            if take_lock(lock):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(lock)


@contextlib.asynccontextmanager
async def locked(configuration: Configuration) -> AsyncIterator[None]:
    """One command at a time begins or ends kept clusters. Raises OSError; TimeoutError after LOCK_LIMIT_S."""
    root = _root(configuration)
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_own(root)
    until_s = time.monotonic() + LOCK_LIMIT_S
    lock = _open_lock(root)
    try:
        while not take_lock(lock):
            if time.monotonic() > until_s:
                raise TimeoutError(f"another command has held {root / LOCK} for {LOCK_LIMIT_S:g} s")
            await asyncio.sleep(LOCK_LOOK_S)
        yield
    finally:
        os.close(lock)


def listening(place: Path) -> socket.socket:
    """A socket that listens in the place, in place of one that nobody listens at any more."""
    (place / SOCKET).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _short(place) as path:
        listener.bind(path)
    listener.listen()
    listener.setblocking(False)
    return listener


async def connect(place: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Raises OSError when nobody listens there, or the place is somebody else's."""
    check_own(place)
    with _short(place) as path:
        return await asyncio.open_unix_connection(path)


def is_own_peer(connection: socket.socket) -> bool:
    """Whether the other side is this user."""
    _, user, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return bool(user == os.getuid())


def _root(configuration: Configuration) -> Path:
    return cluster_directory(configuration) / KEPT


def _open_lock(root: Path) -> int:
    return os.open(root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


@contextlib.contextmanager
def _short(place: Path) -> Iterator[str]:
    """The socket's path by way of an open directory: the system takes 107 bytes, and homes may be deep."""
    directory = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{SOCKET}"
    finally:
        os.close(directory)
