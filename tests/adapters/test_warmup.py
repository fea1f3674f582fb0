"""Warming up a Spark backend without one: when it runs, and what it does when there is work."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firesteel.adapters.spark import calls, wire
from firesteel.adapters.spark.children.keeper import SessionEnding
from firesteel.adapters.spark.jvm import warmup
from firesteel.adapters.spark.jvm.warmup import ROUNDS, WarmUp
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.runtime.ports import TaskFailedError

ADDRESS = wire.SparkAddress(1, "token", 1)
FAILURE = FailureInfo(kind=FailureKind.ENVIRONMENT, message="gone")


class Forks:
    """Rounds that end when they are let."""

    def __init__(self) -> None:
        self.begun: list[calls.WarmUp] = []
        self.let, self.refills = asyncio.Event(), 0
        self.error: Exception | None = None

    async def call(self, entry_point: str, payload: bytes) -> bytes:
        self.begun.append(msgspec.json.decode(payload, type=calls.WarmUp))
        if self.error is not None:
            raise self.error
        await self.let.wait()
        return b""

    async def refill(self) -> None:
        self.refills += 1


class Warming:
    """A backend with a warm-up."""

    def __init__(self) -> None:
        self.forks, self.is_idle = Forks(), True
        self.closed: list[tuple[wire.SessionName, bool]] = []
        forks: Any = self.forks
        self.warm_up = WarmUp(forks, Path("scratch"))

    async def close(self, address: wire.SparkAddress, session: wire.SessionName, ending: SessionEnding) -> None:
        assert address == ADDRESS
        self.closed.append((session, ending.was_cut))

    async def warm(self) -> None:
        await self.warm_up.warm(ADDRESS, lambda: self.is_idle, self.close)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warmup, "IDLE_SECONDS", 0.0)


async def until_begun(warming: Warming, rounds: int) -> None:
    async with asyncio.timeout(300):
        while len(warming.forks.begun) < rounds:
            await asyncio.sleep(0)


def test_each_round_has_a_session_of_its_own_and_closes_it() -> None:
    async def use() -> None:
        warming = Warming()
        warming.forks.let.set()
        await warming.warm()
        sessions = [each.session for each in warming.forks.begun]
        assert len(set(sessions)) == ROUNDS == warming.forks.refills
        assert warming.closed == [(session, False) for session in sessions]

    asyncio.run(use())


def test_work_ends_the_round_at_once_and_the_rest_waits() -> None:
    async def use() -> None:
        warming = Warming()
        async with asyncio.TaskGroup() as group:
            group.create_task(warming.warm())
            await until_begun(warming, 1)
            warming.is_idle = False
            warming.warm_up.give_way()
            async with asyncio.timeout(300):
                while not warming.closed:
                    await asyncio.sleep(0)
            assert warming.closed == [(warming.forks.begun[0].session, True)]
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(warming.forks.begun) == 1
            warming.is_idle = True
            warming.forks.let.set()
        assert len(warming.forks.begun) == ROUNDS

    asyncio.run(use())


def test_nothing_is_begun_while_there_is_work() -> None:
    async def use() -> None:
        warming = Warming()
        warming.is_idle = False
        warming.warm_up.give_way()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(warming.warm())
            for _ in range(20):
                await asyncio.sleep(0)
            task.cancel()
        assert not warming.forks.begun

    asyncio.run(use())


def test_a_round_that_fails_is_the_last() -> None:
    async def use() -> None:
        warming = Warming()
        warming.forks.error = TaskFailedError(FAILURE)
        await warming.warm()
        assert warming.closed == [(warming.forks.begun[0].session, True)]

    asyncio.run(use())


def test_a_round_that_hangs_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warmup, "LIMIT_SECONDS", 0.01)

    async def use() -> None:
        warming = Warming()
        await warming.warm()
        assert [was_cut for _, was_cut in warming.closed] == [True]

    asyncio.run(use())
