"""A fork server that is killed again and again, as the kernel does when memory is short, and what its children leave."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from firesteel.adapters.spark import wire
from firesteel.adapters.spark.children import forkclient
from firesteel.adapters.spark.children.forkclient import ForkServer
from firesteel.adapters.spark.refusals import PipelineRefused
from firesteel.runtime.ports import TaskFailedError


def echo(payload: bytes) -> bytes:
    """Called in a child."""
    return payload


def refuse(payload: bytes) -> bytes:
    """Called in a child."""
    raise {"refused": PipelineRefused, "broken": ValueError}[payload.decode()]("that can't be done")


STUBBORN = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).touch()
time.sleep(600)
"""


def start_another(payload: bytes) -> bytes:
    """Called in a child: starts a process that ignores SIGTERM, notes which, and ends as it is told."""
    ending, directory = payload.decode().split(maxsplit=1)
    up, mark = Path(directory) / "up", Path(directory) / "mark"
    started = subprocess.Popen([sys.executable, "-c", STUBBORN, str(up)])
    while not up.exists():
        time.sleep(0.02)
    mark.with_suffix(".new").write_text(str(started.pid))
    mark.with_suffix(".new").rename(mark)
    if ending == "crashed":
        os._exit(3)
    if ending == "cancelled":
        time.sleep(600)
    return b""


@pytest.mark.parametrize("ending", ["crashed", "cancelled", "well"])
def test_what_a_child_has_started_ends_with_it_unless_it_ended_well(tmp_path: Path, ending: str) -> None:
    """One that ends well has seen to that itself, or is a script, which may leave something that runs on."""
    mark = tmp_path / "mark"

    async def story() -> int:
        server = ForkServer(tmp_path / "forkserver.log", 0)
        try:
            async with asyncio.timeout(300):
                child = await server.take()
                order = f"{ending} {tmp_path}".encode()
                child.send(wire.CallFunction(entry_point=f"{__name__}:start_another", payload=order))
                while not mark.exists():
                    await asyncio.sleep(0.02)
                if ending == "cancelled":
                    child.signal_group(signal.SIGTERM)
                status = await child.exited
                child.close()
                return status
        finally:
            await server.close()

    status = asyncio.run(story())
    assert status == {"crashed": 3, "cancelled": -signal.SIGTERM, "well": 0}[ending]
    started = int(mark.read_text())
    if ending == "well":
        os.kill(started, signal.SIGKILL)  # it is there
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(started).wait(60)


@pytest.mark.parametrize(
    ("what", "said"), [("refused", "that can't be done"), ("broken", "ValueError: that can't be done")]
)
def test_what_a_call_refuses_is_a_sentence_and_nothing_else(tmp_path: Path, what: str, said: str) -> None:
    """Of other errors the class says more than their text."""

    async def story() -> TaskFailedError:
        server = ForkServer(tmp_path / "forkserver.log", 0)
        try:
            with pytest.raises(TaskFailedError) as failed:
                async with asyncio.timeout(300):
                    await server.call(f"{__name__}:refuse", what.encode())
            return failed.value
        finally:
            await server.close()

    assert asyncio.run(story()).failure.message == said


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


def leave_mark(payload: bytes) -> bytes:
    """Called in a child: notes that it was."""
    Path(payload.decode()).touch()
    return b""


def test_a_child_that_is_signalled_on_its_way_has_ended_and_begins_with_nothing(tmp_path: Path) -> None:
    """As an attempt that is cancelled while the fork server has too little processor time to come round to it."""
    mark = tmp_path / "mark"

    async def story() -> None:
        server = ForkServer(tmp_path / "forkserver.log", 0)
        try:
            async with asyncio.timeout(300):
                assert await server.call(f"{__name__}:echo", b"up") == b"up"
                assert server._process is not None
                server._process.send_signal(signal.SIGSTOP)
                late = await server.take()
                late.send(wire.CallFunction(entry_point=f"{__name__}:leave_mark", payload=str(mark).encode()))
                late.signal_group(signal.SIGTERM)
                assert await late.receive() is None
                assert await late.exited == -signal.SIGTERM
                assert await late.end(0, 0)
                server._process.send_signal(signal.SIGCONT)
                assert await server.call(f"{__name__}:echo", b"on") == b"on"  # it is forked after that one
                with contextlib.suppress(psutil.NoSuchProcess):
                    psutil.Process(await late.pid).wait(60)
        finally:
            await server.close()

    asyncio.run(story())
    assert not mark.exists()


def test_a_child_that_does_not_end_when_it_is_killed_is_waited_for_no_longer_than_it_may_take(tmp_path: Path) -> None:
    async def story() -> None:
        server = ForkServer(tmp_path / "forkserver.log", 0)
        try:
            async with asyncio.timeout(300):
                child = await server.take()
                await child.pid
                assert server._process is not None
                server._process.send_signal(signal.SIGSTOP)  # so that nobody waits for its children
                assert not await child.end(0.1, 0.2)
                assert await child.exited == -signal.SIGKILL
                assert await child.end(0, 0), "once is enough"
                server._process.send_signal(signal.SIGCONT)
                assert await server.call(f"{__name__}:echo", b"on") == b"on"
                child.close()
        finally:
            await server.close()

    asyncio.run(story())
