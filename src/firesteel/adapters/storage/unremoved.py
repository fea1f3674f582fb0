"""What is staged, is needed by nobody and could not be removed: noted for this user and host, and tried again later.

A file system may have turned read-only after a job has staged there. The job ends all the same, and with it whoever knows
what it has staged. So it is noted where the next job that stages beside it finds it, whichever cluster's it is. A job
none of whose staged rows are needed any more writes no target, whatever lies there.
"""

import contextlib
import hashlib
import socket
from pathlib import Path

import msgspec

from firesteel.adapters.storage.sinkstore import STAGING_NAME
from firesteel.runtime.directories import state_directory, write_private

NOTED_MAX = 1_000
"""Locations that are noted. What comes beyond them is only told in the log, as before."""
_BELOW = "unremoved"
"""Below the user's state directory: a file a location."""


class Unremoved(msgspec.Struct, frozen=True):
    """A location, and what was said when it could not be removed last."""

    location: str
    reason: str
    host: str


def note_unremoved(location: str, reason: str) -> None:
    """A staged location is needed by nobody, and stays for now. Others are passed over. Never raises."""
    if not is_staged(location):
        return
    found = Unremoved(location, reason, socket.gethostname())
    with contextlib.suppress(OSError):
        _directory().mkdir(parents=True, exist_ok=True)
        if _file(location).exists() or len(list(_directory().iterdir())) < NOTED_MAX:
            write_private(_file(location), msgspec.json.encode(found).decode())


def forget_unremoved(location: str) -> None:
    """It is gone. Never raises."""
    with contextlib.suppress(OSError):
        _file(location).unlink(missing_ok=True)


def needed_again(staging: str) -> None:
    """Rows are about to be staged there: a job may have the id of one that is over."""
    for each in unremoved(staging_root(staging)):
        if f"{staging}/".startswith(f"{each.location}/"):
            forget_unremoved(each.location)


def unremoved(above: str = "") -> list[Unremoved]:
    """What is noted of this host, sorted by location; below a staging directory only, if one is given."""
    found = []
    with contextlib.suppress(OSError):
        for file in _directory().iterdir():
            with contextlib.suppress(OSError, msgspec.DecodeError):
                found.append(msgspec.json.decode(file.read_bytes(), type=Unremoved))
    here = [each for each in found if each.host == socket.gethostname()]
    return sorted(
        (each for each in here if not above or each.location.startswith(f"{above}/")), key=lambda each: each.location
    )


def is_staged(location: str) -> bool:
    return STAGING_NAME in location.split("/")


def staging_root(location: str) -> str:
    """The staging directory that a staged location is in."""
    return f"{location.partition(f'/{STAGING_NAME}/')[0]}/{STAGING_NAME}"


def _directory() -> Path:
    return state_directory() / _BELOW


def _file(location: str) -> Path:
    return _directory() / f"{hashlib.sha256(location.encode()).hexdigest()[:32]}.json"
