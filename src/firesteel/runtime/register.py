"""Where the leading process of a cluster is written down, for all its processes to see.

This is the port of `high-availability.type`: implement `LeaderRegister` in a class of your own and name it
`module:Class` there. Who leads is changed by compare-and-set. Signs of life are a hint: a master that takes
over too early does no harm, since every durable write is fenced by the token that its claim gave it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from firesteel.core.leadership.lease import Sign
from firesteel.model.stored import StoredRecord


class LeaderRecord(StoredRecord, frozen=True, kw_only=True):
    """What a leader says of itself. Stored as JSON."""

    name: str
    """The process, unlike any other."""
    node: str
    """Its machine."""
    host: str
    port: int
    """Where others reach it."""
    rest: str = ""
    """URL of its REST endpoint; empty when that has none."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The newest entry of the register: who leads, or led last."""

    epoch: int
    record: LeaderRecord
    sign: Sign


class Leadership(Protocol):
    """What one master knows of who leads."""

    @property
    def leads(self) -> bool:
        """Whether this one does, as far as it knows."""

    @property
    def leader(self) -> Registered | None:
        """Who does, this one or another; None while that is not known."""

    def watch_leader(self, listener: Callable[[Registered], None]) -> Callable[[], None]:
        """Call `listener` with each leader of a new epoch from now on; returns what ends it."""


class LeaderRegister(Protocol):
    """One process's way to the register. Coroutines never block the event loop.

    They raise OSError when the register can't be reached or answers nonsense; then they are called again.
    Masters use all of it; workers and clients only `open`, `newest`, `changed` and `close`.
    """

    async def open(self) -> None:
        """Called once, before anything else. An OSError is final: the process does not start."""

    async def close(self) -> None: ...

    async def newest(self) -> Registered | None:
        """Who leads, or led last; None when nobody ever did.

        The sign's `moment` is 0 once the leader has given up or is known to be gone, and otherwise differs
        from the one before when the leader has given a sign of life in between.
        """

    async def claim(self, record: LeaderRecord, after: int) -> int | None:
        """Lead in an epoch above `after`, the newest that the caller knows (0: none); returns that epoch.

        None when another master was first: of any number who claim after the same epoch, one leads.
        """

    async def touch(self, epoch: int) -> bool:
        """Give a sign of life as the leader of `epoch`; returns whether that still is the newest epoch."""

    async def give_up(self, epoch: int) -> None:
        """Let others lead at once."""

    async def changed(self, limit_s: float) -> None:
        """Return when there may be news, at the latest after `limit_s`. Never raises OSError."""
        await asyncio.sleep(limit_s)
