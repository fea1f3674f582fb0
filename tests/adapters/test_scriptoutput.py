"""Pipes that a script prints into, where they can't be made, or nobody wants them any more."""

import asyncio
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from firesteel.adapters.spark.worker.attempt import AttemptRun
from firesteel.adapters.spark.worker.scriptoutput import ScriptOutput

LIMIT_S = 30.0


async def nowhere(stream: str, offset: int, data: bytes) -> None:
    raise AssertionError("nothing is printed")


async def no_other() -> Any:
    raise AssertionError("no other process is wanted")


def opened(directory: Path) -> list[str]:
    """Files of the directory that this process has open."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:  # that of the listing itself
            continue
    return [path for path in found if path.startswith(str(directory))]


def run_of(pipes: Path, closed: list[str]) -> AttemptRun:
    task: Any = SimpleNamespace(session=None, pipes=str(pipes), reattachments_max=0)
    child: Any = SimpleNamespace(close=lambda: closed.append("child"))
    seat: Any = None
    return AttemptRun(task, child, seat, no_other)


def test_a_script_whose_pipes_can_not_be_made_leaves_neither_process_nor_pipe(tmp_path: Path) -> None:
    pipes, closed = tmp_path / "pipes", list[str]()
    pipes.mkdir()
    (pipes / "stderr").touch()

    async def story() -> None:
        run = run_of(pipes, closed)
        with pytest.raises(FileExistsError):
            await run.print_to(ScriptOutput(tmp_path / "log", nowhere, 1 << 20))

    asyncio.run(story())
    assert opened(pipes) == []
    assert closed == ["child"]


def test_a_script_that_is_cancelled_while_its_pipes_are_made_leaves_neither_process_nor_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipes, closed = tmp_path / "pipes", list[str]()
    began, goes_on, make = threading.Event(), threading.Event(), os.mkfifo

    def slowly(path: Path, mode: int) -> None:
        began.set()
        assert goes_on.wait(LIMIT_S)
        make(path, mode)

    monkeypatch.setattr(os, "mkfifo", slowly)

    async def story() -> None:
        run = run_of(pipes, closed)
        opening = asyncio.ensure_future(run.print_to(ScriptOutput(tmp_path / "log", nowhere, 1 << 20)))
        assert await asyncio.to_thread(began.wait, LIMIT_S)
        opening.cancel()
        for _ in range(3):
            await asyncio.sleep(0)
        goes_on.set()
        await asyncio.wait((opening,))
        assert opening.cancelled()

    asyncio.run(story())
    assert (pipes / "stderr").exists(), "the thread has gone on"
    assert opened(pipes) == []
    assert closed == ["child"]
