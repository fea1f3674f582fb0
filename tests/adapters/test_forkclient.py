"""A fork server that is killed again and again, as the kernel does when memory is short."""

import asyncio
from pathlib import Path

import pytest

from firesteel.adapters.spark.children import forkclient
from firesteel.adapters.spark.children.forkclient import ForkServer
from firesteel.runtime.ports import TaskFailedError


def echo(payload: bytes) -> bytes:
    """Called in a child."""
    return payload


def test_one_that_has_served_may_be_killed_any_number_of_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forkclient, "MAX_STARTS", 2)

    async def story() -> None:
        server = ForkServer(tmp_path / "forkserver.log", 0)
        try:
            async with asyncio.timeout(300):
                for number in range(4):
                    payload = str(number).encode()
                    assert await server.call(f"{__name__}:echo", payload) == payload
                    assert server._process is not None
                    server._process.kill()
                    await server._process.wait()
                    while server._control is not None:
                        await asyncio.sleep(0)
        finally:
            await server.close()

    asyncio.run(story())


def test_one_that_never_forks_is_told_of_and_tried_again_for_who_asks_after_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forkclient, "MAX_STARTS", 2)
    monkeypatch.setattr("sys.executable", "/bin/false")

    async def story() -> list[str]:
        server = ForkServer(tmp_path / "forkserver.log", 0)
        told: list[str] = []
        for _ in range(5):
            try:
                child = await server.take()
                await child.receive()
                assert await child.exited != 0
                told.append("died")
            except TaskFailedError as error:
                told.append("given up" if "has ended 2 times" in error.failure.message else "died")
        await server.close()
        return told

    assert asyncio.run(story()) == ["died", "died", "given up", "died", "given up"]
