"""The register of the leading process: numbered files in a directory, of which the one with the highest number counts.

To lead is to have created the next number, which only one can. When a leader has touched its file last is a sign
of life, no more: whoever takes over creates the next file, and what the former one still does is fenced.
"""

import os
import time
from dataclasses import dataclass

import msgspec

from firesteel.adapters.ha.disk import Disk
from firesteel.core.leadership.lease import Sign

SUFFIX = ".leader"


class LeaderRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a leader says of itself. Stored as JSON."""

    version: int = 1
    name: str
    """The process, unlike any other."""
    node: str
    """Its machine."""
    host: str
    port: int
    """Where others reach it."""


@dataclass(frozen=True, slots=True)
class Registered:
    epoch: int
    record: LeaderRecord
    sign: Sign


class LeaderRegister:
    """Blocking: call from a thread. Raises OSError."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def newest(self) -> Registered | None:
        """Who leads, or led last."""
        epochs = self._epochs()
        if not epochs:
            return None
        name = _name(epochs[-1])
        try:
            record = msgspec.json.decode(self._disk.read(name), type=LeaderRecord)
        except msgspec.MsgspecError as error:
            raise OSError(f"{self._disk.directory / name} is not a record of a leader: delete it ({error})") from None
        moment = (self._disk.directory / name).stat().st_mtime_ns
        return Registered(epochs[-1], record, Sign(epochs[-1], moment))

    def claim(self, record: LeaderRecord, after: int) -> int | None:
        """Lead in the epoch that follows `after`; returns it, or None when another one was first.

        The first of all is the time in seconds, so that tokens grow also over a directory that was emptied.
        """
        epoch = after + 1 if after else int(time.time())
        try:
            self._disk.create(_name(epoch), msgspec.json.encode(record))
        except FileExistsError:
            return None
        epochs = self._epochs()
        for old in epochs[: epochs.index(epoch)]:
            self._disk.remove(_name(old))
        return epoch if epochs[-1] == epoch else None

    def touch(self, epoch: int) -> bool:
        """Give a sign of life; returns whether `epoch` still is the last one."""
        if self._epochs()[-1:] != [epoch]:
            return False
        os.utime(self._disk.directory / _name(epoch))
        return True

    def give_up(self, epoch: int) -> None:
        """Let others lead at once."""
        os.utime(self._disk.directory / _name(epoch), (0, 0))

    def _epochs(self) -> list[int]:
        stems = [name.removesuffix(SUFFIX) for name in self._disk.names() if name.endswith(SUFFIX)]
        return sorted(int(stem) for stem in stems if stem.isdigit())


def _name(epoch: int) -> str:
    return f"{epoch:012d}{SUFFIX}"
