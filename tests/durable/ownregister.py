"""A user's own register of the leader: a table of SQLite, written from the documentation alone."""

import asyncio
import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from firesteel.core.leadership.lease import Sign
from firesteel.runtime.register import LeaderRecord, LeaderRegister, Registered

T = TypeVar("T")


class SqliteRegister(LeaderRegister):
    def __init__(self, configuration: Mapping[str, str]) -> None:
        self._file = os.path.join(configuration["high-availability.storageDir"], "leader.sqlite")

    async def open(self) -> None:
        table = "CREATE TABLE IF NOT EXISTS leader (epoch INTEGER PRIMARY KEY, record BLOB, moment INTEGER)"
        await self._do(lambda database: database.execute(table))

    async def close(self) -> None:
        pass

    async def newest(self) -> Registered | None:
        rows = await self._do(
            lambda database: database.execute("SELECT * FROM leader ORDER BY epoch DESC LIMIT 1").fetchall()
        )
        for epoch, record, moment in rows:
            return Registered(epoch, msgspec.json.decode(record, type=LeaderRecord), Sign(epoch, moment))
        return None

    async def claim(self, record: LeaderRecord, after: int) -> int | None:
        epoch = after + 1 if after else int(time.time())
        row = (epoch, msgspec.json.encode(record), time.time_ns())
        try:
            await self._do(lambda database: database.execute("INSERT INTO leader VALUES (?, ?, ?)", row))
        except sqlite3.IntegrityError:
            return None
        return epoch

    async def touch(self, epoch: int) -> bool:
        await self._sign(epoch, time.time_ns())
        found = await self.newest()
        return found is not None and found.epoch == epoch

    async def give_up(self, epoch: int) -> None:
        await self._sign(epoch, 0)

    async def _sign(self, epoch: int, moment: int) -> None:
        await self._do(
            lambda database: database.execute("UPDATE leader SET moment = ? WHERE epoch = ?", (moment, epoch))
        )

    async def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def in_thread() -> T:
            with contextlib.closing(sqlite3.connect(self._file)) as database, database:
                return work(database)

        try:
            return await asyncio.to_thread(in_thread)
        except sqlite3.OperationalError as error:
            raise OSError(str(error)) from None
