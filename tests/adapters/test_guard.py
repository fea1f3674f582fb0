"""The worker's side of the guard of sessions, whose process may end before the worker does."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from firesteel.adapters.spark import wire
from firesteel.adapters.spark.children.guard import PROGRAM, SessionGuard
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
    told_order = [GuardOrder(action, session)] if action is GuardAction.CLOSE else []
    holds = [GuardOrder(GuardAction.HOLD, each) for each in held]
    expected = [SERVER, *holds, *told_order, GuardOrder(GuardAction.HOLD, ONE)]
    found = lines_of(told, 4 + len(expected))[4:]
    asyncio.run(guard.close())
    assert [text for _, text in found] == [line(each) for each in expected]
    assert len({pid for pid, _ in found} | {first}) == 2


def test_a_session_that_a_killed_guard_was_closing_is_closed_by_its_successor(told: Path) -> None:
    """Its server may have been away."""
    guard = SessionGuard(SERVER, told, program="tests.adapters.recordingguard")
    guard.start()
    guard.order(GuardAction.CLOSE, ONE)
    (first, _) = lines_of(told, 2)[0]
    kill(first)
    guard.order(GuardAction.HOLD, TWO)
    found = lines_of(told, 5)[2:]
    asyncio.run(guard.close())
    expected = [SERVER, GuardOrder(GuardAction.HOLD, TWO), GuardOrder(GuardAction.CLOSE, ONE)]
    assert [text for _, text in found] == [line(each) for each in expected]


def test_what_a_killed_guard_held_is_closed_when_the_worker_ends(told: Path) -> None:
    guard = SessionGuard(SERVER, told, program="tests.adapters.recordingguard")
    guard.start()
    guard.order(GuardAction.HOLD, ONE)
    (first, _) = lines_of(told, 2)[0]
    kill(first)
    asyncio.run(guard.close())
    found = lines_of(told, 4)[2:]
    assert [text for _, text in found] == [line(SERVER), line(GuardOrder(GuardAction.HOLD, ONE))]
    assert first not in {pid for pid, _ in found}


def test_a_service_manager_that_ends_all_processes_at_once_does_not_end_the_guard(tmp_path: Path) -> None:
    """systemd sends SIGTERM to the whole control group: the worker then needs its guard most."""
    log = tmp_path / "guard.log"
    with open(log, "wb") as file:
        guard = subprocess.Popen([sys.executable, "-m", PROGRAM], stdin=subprocess.PIPE, stderr=file)
    assert guard.stdin is not None
    guard.stdin.write(line(SERVER).encode() + b"\n")
    guard.stdin.flush()
    end_s = time.monotonic() + LIMIT_S
    while "are guarded" not in log.read_text():
        assert time.monotonic() < end_s
        time.sleep(0.01)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        guard.send_signal(number)
    guard.stdin.close()
    assert guard.wait(LIMIT_S) == 0
