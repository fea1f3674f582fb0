"""The register of the leading process as numbered files in a directory, of which the one with the highest number counts.

To lead is to have created the next number, which only one can. When a leader has touched its file last is a sign
of life, no more: whoever takes over creates the next file, and what the former one still does is fenced.
"""

import asyncio
import contextlib
import os
import time

import msgspec

from firesteel.adapters.ha.disk import TEMPORARY, Disk
from firesteel.core.leadership.lease import Sign
from firesteel.model.stored import UNREADABLE
from firesteel.runtime.register import LeaderRecord, LeaderRegister, Registered

SUFFIX = ".leader"


class FileRegister(LeaderRegister):
    """A LeaderRegister on a directory that all processes share."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    async def open(self) -> None:
        """The first master makes the directory: whoever looks for one may be there before it."""
        with contextlib.suppress(FileNotFoundError):
            await self.newest()

    async def close(self) -> None:
        pass

    async def newest(self) -> Registered | None:
        return await asyncio.to_thread(self._newest)

    async def claim(self, record: LeaderRecord, after: int) -> int | None:
        """The first epoch of all is the time in seconds, so that tokens grow also over a directory that was emptied."""
        return await asyncio.to_thread(self._claim, record, after + 1 if after else int(time.time()))

    async def touch(self, epoch: int) -> bool:
        return await asyncio.to_thread(self._touch, epoch)

    async def give_up(self, epoch: int) -> None:
        await asyncio.to_thread(os.utime, self._disk.directory / _name(epoch), (0, 0))

    # ── in a thread ──────────────────────────────────────────────────────────────────────────
    def _newest(self) -> Registered | None:
        epochs = self._epochs()
        if not epochs:
            return None
        name = _name(epochs[-1])
        try:
            record = msgspec.json.decode(self._disk.read(name), type=LeaderRecord)
        except UNREADABLE as error:
            raise OSError(f"{self._disk.directory / name} is not a record of a leader: delete it ({error})") from None
        moment = (self._disk.directory / name).stat().st_mtime_ns
        return Registered(epochs[-1], record, Sign(epochs[-1], moment))

    def _claim(self, record: LeaderRecord, epoch: int) -> int | None:
        try:
            self._disk.create(_name(epoch), msgspec.json.encode(record))
        except FileExistsError:
            return None
        for unfinished in self._disk.names():
            if unfinished.startswith(TEMPORARY):
                self._disk.remove(unfinished)
        epochs = self._epochs()
        for old in epochs:  # its own may be gone: two that find an empty directory may claim different ones
            if old < epoch:
                self._disk.remove(_name(old))
        return epoch if epochs[-1:] == [epoch] else None

    def _touch(self, epoch: int) -> bool:
        if self._epochs()[-1:] != [epoch]:
            return False
        os.utime(self._disk.directory / _name(epoch))
        return True

    def _epochs(self) -> list[int]:
        stems = [name.removesuffix(SUFFIX) for name in self._disk.names() if name.endswith(SUFFIX)]
        return sorted(int(stem) for stem in stems if stem.isdigit())


def _name(epoch: int) -> str:
    return f"{epoch:012d}{SUFFIX}"
