"""A loop whose time is made up: it leaps, keeps order, and sees that nothing is left that could happen."""

import asyncio

import pytest

from firesteel.testing.virtualtime import VIRTUAL_LIMIT_S, NothingHappens
from tests.runtime.cluster import virtual_loop
from tests.runtime.conftest import Do


def test_time_leaps_from_timer_to_timer(do: Do) -> None:
    async def story() -> None:
        loop, order = virtual_loop(), list[str]()
        began_ms = loop.now_ms()
        loop.call_later(3_600.0, order.append, "in an hour")
        loop.call_later(1.0, order.append, "in a second")
        loop.call_later(2.0, order.append, "never").cancel()
        loop.call_soon(order.append, "soon")
        await asyncio.sleep(3_600.0)
        assert order == ["soon", "in a second", "in an hour"]
        assert loop.now_ms() - began_ms == 3_600_000

    do(story())


def test_what_threads_would_do_is_done_in_its_turn(do: Do) -> None:
    def fail() -> None:
        raise OSError("full")

    async def story() -> None:
        assert await asyncio.to_thread(lambda: "done") == "done"
        with pytest.raises(OSError, match="full"):
            await asyncio.to_thread(fail)
        done: list[str] = []
        nobody_waits = [asyncio.ensure_future(asyncio.to_thread(work)) for work in (lambda: done.append("it"), fail)]
        await asyncio.sleep(0)
        for task in nobody_waits:
            task.cancel()
        await asyncio.sleep(1)
        assert done == ["it"]

    do(story())


def test_waiting_for_what_never_comes_is_seen(do: Do) -> None:
    with pytest.raises(NothingHappens, match="nothing left that could happen"):
        do(asyncio.Event().wait())


def test_timers_alone_are_not_enough(do: Do) -> None:
    async def wait_on() -> None:
        while True:
            await asyncio.sleep(VIRTUAL_LIMIT_S / 10)

    with pytest.raises(NothingHappens):
        do(wait_on())
