"""The register of the leading process as one object, which is changed by compare-and-set.

A leader's sign of life is a number in it that grows, no more: whoever takes over writes its own name there, and what
the former one still does is fenced.
"""

import asyncio
import time

import msgspec

from firesteel.adapters.storage.objects import Conflict, Objects, put_once
from firesteel.core.leadership.lease import Sign
from firesteel.model.stored import UNREADABLE, StoredRecord
from firesteel.runtime.register import LeaderRecord, LeaderRegister, Registered


class LeaderObject(StoredRecord, frozen=True, kw_only=True):
    """The entry of who leads, or led last. Stored as JSON."""

    epoch: int
    moment: int
    """Grows with each sign of life; 0 once the leader has given up."""
    record: LeaderRecord


class ObjectRegister(LeaderRegister):
    """A LeaderRegister in the object `name`."""

    def __init__(self, objects: Objects, name: str) -> None:
        self._objects, self._name = objects, name

    async def open(self) -> None:
        await self.newest()

    async def close(self) -> None:
        pass

    async def newest(self) -> Registered | None:
        found, _ = await asyncio.to_thread(self._read)
        return Registered(found.epoch, found.record, Sign(found.epoch, found.moment)) if found is not None else None

    async def claim(self, record: LeaderRecord, after: int) -> int | None:
        """The first epoch of all is the time in seconds, so that tokens grow also over a store that was emptied."""
        return await asyncio.to_thread(self._claim, record, after)

    async def touch(self, epoch: int) -> bool:
        return await asyncio.to_thread(self._sign, epoch, 1)

    async def give_up(self, epoch: int) -> None:
        await asyncio.to_thread(self._sign, epoch, 0)

    # ── in a thread ──────────────────────────────────────────────────────────────────────────
    def _claim(self, record: LeaderRecord, after: int) -> int | None:
        found, tag = self._read()
        if (found.epoch if found is not None else 0) != after:
            return None
        epoch = after + 1 if after else int(time.time())
        return epoch if self._write(LeaderObject(epoch=epoch, moment=1, record=record), tag) else None

    def _sign(self, epoch: int, step: int) -> bool:
        """Nobody but the leader and who takes over from it writes, so a conflict means the latter."""
        found, tag = self._read()
        if found is None or found.epoch != epoch:
            return False
        moment = found.moment + step if step else 0
        return self._write(msgspec.structs.replace(found, moment=moment), tag)

    def _read(self) -> tuple[LeaderObject | None, str | None]:
        try:
            found = self._objects.get(self._name)
        except FileNotFoundError:
            return None, None
        try:
            return msgspec.json.decode(found.data, type=LeaderObject), found.tag
        except UNREADABLE as error:
            raise OSError(f"{self._name} is not a record of a leader: delete it ({error})") from None

    def _write(self, content: LeaderObject, tag: str | None) -> bool:
        try:
            put_once(self._objects, self._name, msgspec.json.encode(content), tag)
        except Conflict:
            return False
        return True
