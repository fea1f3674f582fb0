"""The register of the leading process in ZooKeeper: one node, changed by compare-and-set on its version.

`<root>/leader` has the leader's record and epoch. `<root>/alive/<epoch>` is ephemeral: it goes with the leader's
session, and so do its signs of life. Both are written in one transaction. It is not the lock recipe: a master
that knows better than the session (nobody listens at the leader's port) claims without waiting for it to expire.

A connection that is suspended is no session that is lost: calls raise OSError meanwhile, and what follows from
that is the caller's. A session that has expired while nobody else has claimed is taken up in the next one.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any

import msgspec
from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

from firesteel.core.leadership.lease import Sign
from firesteel.model.stored import UNREADABLE, StoredRecord
from firesteel.runtime.register import LeaderRecord, LeaderRegister, Registered

RECONNECT_DELAY_MAX_S = 1.0
CLOSE_LIMIT_S = 5.0

OVERTAKEN = (BadVersionError, NodeExistsError, NoNodeError)
"""Errors of a step of a claim when another master was first."""
UNDONE = (RolledBackError, RuntimeInconsistency)
"""Those of the steps before and after the one that has failed."""

logger = logging.getLogger(__name__)
of_kazoo = logging.getLogger("kazoo.firesteel")
of_kazoo.setLevel(logging.ERROR)  # it tells of every try to connect; changes are told here


class LeaderNode(StoredRecord, frozen=True, kw_only=True):
    """Content of the node `leader`. Stored as JSON."""

    epoch: int
    record: LeaderRecord


class ZooKeeperRegister(LeaderRegister):
    """A LeaderRegister below the node `root`. kazoo's threads call back; nothing here waits for them on the loop."""

    def __init__(self, quorum: str, root: str, *, session_timeout_s: float, connection_timeout_s: float) -> None:
        self._quorum, self._leader, self._alive = quorum, f"{root}/leader", f"{root}/alive"
        self._timeout_s, self._connection_timeout_s = session_timeout_s, connection_timeout_s
        self._known: tuple[int, int] | None = None
        """The newest epoch that was seen, and the version of the node that has it."""
        self._looks = 0
        self._client: Any = None

    async def open(self) -> None:
        self._loop, self._news = asyncio.get_running_loop(), asyncio.Event()
        try:
            self._client = KazooClient(
                self._quorum,
                timeout=self._timeout_s,
                connection_retry=KazooRetry(max_tries=-1, max_delay=RECONNECT_DELAY_MAX_S),
                logger=of_kazoo,
            )
        except (ValueError, KazooException) as error:
            raise OSError(f"{self._quorum!r} is no list of HOST:PORT parted by commas ({error})") from None
        self._client.add_listener(self._on_state)
        connected = self._client.start_async()
        if not await asyncio.to_thread(connected.wait, self._connection_timeout_s):
            await self.close()
            raise OSError(f"no ZooKeeper answers at {self._quorum} within {self._connection_timeout_s:g} s")

    async def close(self) -> None:
        """The session ends, and the signs of life with it. Idempotent."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_LIMIT_S):
                await asyncio.to_thread(self._end)

    async def newest(self) -> Registered | None:
        found = await self._read()
        if found is None:
            return None
        with contextlib.suppress(NoNodeError):
            await self._call(self._client.get_async, self._sign(found.epoch), watch=self._on_event)
            self._looks += 1
            return Registered(found.epoch, found.record, Sign(found.epoch, self._looks))
        return Registered(found.epoch, found.record, Sign(found.epoch, 0))

    async def claim(self, record: LeaderRecord, after: int) -> int | None:
        """The first epoch of all is the time in seconds, so that tokens grow also over an emptied ZooKeeper."""
        if self._known is None or self._known[0] != after:
            found = await self._read()
            if (found.epoch if found is not None else 0) != after:
                return None
        epoch = after + 1 if after else int(time.time())
        content = msgspec.json.encode(LeaderNode(epoch=epoch, record=record))
        await self._call(self._client.ensure_path_async, self._alive)
        transaction = self._client.transaction()
        if self._known is None:
            transaction.create(self._leader, content)
        else:
            transaction.set_data(self._leader, content, version=self._known[1])
        transaction.create(self._sign(epoch), ephemeral=True)
        results: list[Any] = await self._call(transaction.commit_async)
        failed = [result for result in results if isinstance(result, Exception)]
        if any(isinstance(result, OVERTAKEN) for result in failed):
            return None
        if failed:
            reasons = ", ".join(type(result).__name__ for result in failed if not isinstance(result, UNDONE))
            raise ConnectionError(f"ZooKeeper at {self._quorum} refuses the claim: {reasons}")
        self._known = (epoch, self._known[1] + 1 if self._known is not None else 0)
        return epoch

    async def touch(self, epoch: int) -> bool:
        """What another server of the ensemble has not heard of yet is asked for; a sign of an older session renewed."""
        await self._call(self._client.sync_async, self._leader)
        found = await self._read()
        if found is None or found.epoch != epoch:
            return False
        if await self._call(self._client.exists_async, self._sign(epoch)) is None:
            await self._call(self._client.create_async, self._sign(epoch), ephemeral=True)
        return True

    async def give_up(self, epoch: int) -> None:
        with contextlib.suppress(NoNodeError):
            await self._call(self._client.delete_async, self._sign(epoch))

    async def changed(self, limit_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._news.wait()
        self._news.clear()

    async def _read(self) -> LeaderNode | None:
        try:
            content, stat = await self._call(self._client.get_async, self._leader, watch=self._on_event)
        except NoNodeError:
            self._known = None
            return None
        try:
            found = msgspec.json.decode(content, type=LeaderNode)
        except UNREADABLE as error:
            raise OSError(f"{self._leader} is not a record of a leader: delete the node ({error})") from None
        self._known = (found.epoch, stat.version)
        return found

    def _sign(self, epoch: int) -> str:
        return f"{self._alive}/{epoch}"

    # ── kazoo ────────────────────────────────────────────────────────────────────────────────
    async def _call(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Raises OSError for whatever is nobody's mistake here: no connection, no session, no right to do it."""
        if self._client.state != KazooState.CONNECTED:
            raise ConnectionError(f"the connection to ZooKeeper at {self._quorum} is {self._client.state.lower()}")
        answer: asyncio.Future[Any] = self._loop.create_future()
        method(*arguments, **named).rawlink(lambda done: self._on_loop(_settle, answer, done))
        try:
            async with asyncio.timeout(self._timeout_s):
                return await answer
        except NoNodeError:
            raise
        except KazooException as error:
            raise ConnectionError(f"ZooKeeper at {self._quorum}: {type(error).__name__} {error}") from None
        except TimeoutError:
            raise TimeoutError(f"ZooKeeper at {self._quorum} has not answered in {self._timeout_s:g} s") from None

    def _on_state(self, state: str) -> None:
        """Called in a thread of kazoo's."""
        logger.info("the connection to ZooKeeper at %s is %s", self._quorum, state.lower())
        self._on_loop(self._news.set)

    def _on_event(self, event: object) -> None:
        """Called in a thread of kazoo's."""
        self._on_loop(self._news.set)

    def _on_loop(self, call: Callable[..., object], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits any more
            self._loop.call_soon_threadsafe(call, *arguments)

    def _end(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.stop()
            client.close()


def _settle(answer: "asyncio.Future[Any]", done: Any) -> None:
    if answer.done():
        return
    if done.exception is not None:
        answer.set_exception(done.exception)
    else:
        answer.set_result(done.value)
