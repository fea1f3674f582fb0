"""The worker's side of the guard of sessions, whose process may end before the worker does."""

import asyncio
import os
import signal
import time
from pathlib import Path

import msgspec
import pytest

from firesteel.adapters.spark import wire
from firesteel.adapters.spark.children.guard import SessionGuard
from firesteel.adapters.spark.wire import GuardAction, GuardOrder, SessionName, SparkAddress

LIMIT_S = 300.0
SERVER = SparkAddress(1, "", 0, "connect.example.com")
ONE, TWO, THREE = (SessionName("ada", f"session-{number}") for number in range(3))


@pytest.fixture
def told(tmp_path: Path) -> Path:
    return tmp_path / "guard.log"


def lines_of(told: Path, count: int) -> list[tuple[int, str]]:
    """Pid and line of all that guards have read, when it is so much."""
    end_s = time.monotonic() + LIMIT_S
    while (text := told.read_text()).count("\n") < count:
        assert time.monotonic() < end_s, text
        time.sleep(0.01)
    parts = (line.split(" ", 1) for line in text.splitlines())
    return [(int(pid), line) for pid, line in parts]


def line(message: msgspec.Struct) -> str:
    return msgspec.json.encode(message).decode()


def kill(pid: int) -> None:
    """And wait until it is dead, but not taken note of."""
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.parametrize(
    ("action", "session", "held"),
    [
        (GuardAction.HOLD, THREE, [TWO, THREE]),
        (GuardAction.FORGET, TWO, []),
        (GuardAction.CLOSE, TWO, []),
    ],
)
def test_a_guard_that_was_killed_has_a_successor_that_knows_what_it_knew(
    told: Path, action: GuardAction, session: wire.SessionName, held: list[SessionName]
) -> None:
    guard = SessionGuard(SERVER, told, program="tests.adapters.recordingguard")
    guard.start()
    guard.order(GuardAction.HOLD, ONE)
    guard.order(GuardAction.HOLD, TWO)
    guard.order(GuardAction.FORGET, ONE)
    (first, _) = lines_of(told, 4)[0]
    kill(first)
    guard.order(action, session)
    guard.order(GuardAction.HOLD, ONE)
    told_order = [] if action is GuardAction.HOLD else [GuardOrder(action, session)]
    holds = [GuardOrder(GuardAction.HOLD, each) for each in held]
    expected = [SERVER, *holds, *told_order, GuardOrder(GuardAction.HOLD, ONE)]
    found = lines_of(told, 4 + len(expected))[4:]
    asyncio.run(guard.close())
    assert [text for _, text in found] == [line(each) for each in expected]
    assert len({pid for pid, _ in found} | {first}) == 2
