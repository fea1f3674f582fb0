"""Reads what queries keep, in a session of its own, from a copy that they know nothing of."""

import asyncio
import contextlib
from pathlib import Path

import msgspec

from firesteel.adapters.spark import calls, wire
from firesteel.adapters.spark.children.forkclient import ForkServer
from firesteel.adapters.spark.streams.checkpoints import CheckpointDirectories
from firesteel.adapters.spark.worker.sidesessions import SideSessions
from firesteel.model.streams import QueryState, StateOrder

_READ = "firesteel.adapters.spark.streams.statereading:read_state"


class StateReader:
    """Of one worker."""

    def __init__(self, forks: ForkServer, checkpoints: CheckpointDirectories, sessions: SideSessions) -> None:
        self._forks, self._checkpoints, self._sessions = forks, checkpoints, sessions

    async def read(self, order: StateOrder) -> QueryState:
        """Raises TaskFailedError."""
        with contextlib.ExitStack() as stack:
            copying = self._checkpoints.copy_for_reading(order)
            copy, uid = await asyncio.to_thread(stack.enter_context, copying)
            try:
                return await self._read(copy, uid, order)
            finally:
                await asyncio.to_thread(stack.close)

    async def _read(self, copy: Path, uid: str, order: StateOrder) -> QueryState:
        async with self._sessions.open() as side:
            reading = calls.StateReading(
                endpoint=side.endpoint,
                session=side.name,
                settings=dict(side.settings),
                checkpoint=str(copy),
                uid=uid,
                question=order.question,
            )
            return msgspec.msgpack.decode(await self._forks.call(_READ, wire.encode(reading)), type=QueryState)
