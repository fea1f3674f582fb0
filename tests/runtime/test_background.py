"""Looks that are made again and again: one that fails does not end them."""

import asyncio
import logging

import pytest

from firesteel.runtime.background import keep_looking
from tests.runtime.conftest import Do


def test_a_look_that_fails_is_told_once_and_the_next_ones_are_made(do: Do, caplog: pytest.LogCaptureFixture) -> None:
    outcomes = iter(["bad", "bad", "good", "bad", "good"])
    looks: list[str] = []

    async def look() -> None:
        looks.append(next(outcomes, "good"))
        if looks[-1] == "bad":
            raise KeyError("a file")

    async def story() -> None:
        looking = asyncio.ensure_future(keep_looking(look, "a look at files", 1))
        await asyncio.sleep(6.5)
        looking.cancel()

    do(story())
    assert looks == ["bad", "bad", "good", "bad", "good", "good", "good"]
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert told == ["a look at files failed, and is tried again and again"] * 2
