"""When a backend is replaced for what seems to run on in it. No JVM: its executor threads are those of a small process."""

import asyncio
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from firesteel.adapters.spark.children.keeper import SessionEnding
from firesteel.adapters.spark.jvm import runaways
from firesteel.adapters.spark.jvm.pool import OUTSIDER, RUNAWAY_SAMPLES, SparkBackend
from firesteel.adapters.spark.wire import SessionName, SparkAddress
from firesteel.adapters.spark.worker.sidesessions import SideSessions
from firesteel.model.ids import JobID, RegionAttemptID, RegionIndex

ADDRESS = SparkAddress(port=1, token="token", generation=1)
THREADS = """
import ctypes, subprocess, sys, threading
if len(sys.argv) < 2:  # the supervisor
    sys.exit(subprocess.call([sys.executable, __file__, "child"]))
def work():
    ctypes.CDLL(None).prctl(15, b"Executor task launch worker-1"[:15], 0, 0, 0)
    while {busy}:
        pass
    threading.Event().wait()
threading.Thread(target=work, daemon=True).start()
print("up", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("busy", [True, False])
def test_executor_threads_that_work_are_seen(tmp_path: Any, busy: bool) -> None:
    script = tmp_path / "threads.py"
    script.write_text(THREADS.format(busy=busy))
    with subprocess.Popen([sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdout is not None
        supervisor.stdout.readline()
        assert asyncio.run(runaways.works(supervisor.pid)) is busy
        supervisor.communicate()


class Keeper:
    """Says of each session that something was interrupted in it."""

    async def connect(self, endpoint: SparkAddress) -> None: ...

    async def close(self) -> None: ...

    async def close_session(self, *_: Any) -> Any:
        return SimpleNamespace(interrupted=True, released=True, error="", server_session="")


class Server:
    """A JVM with the number of times that it was replaced."""

    pid, current = 1, ADDRESS

    def __init__(self) -> None:
        self.renewed = 0

    async def endpoint(self) -> SparkAddress:
        return ADDRESS

    async def renew(self) -> None:
        self.renewed += 1

    async def close(self) -> None: ...


@pytest.mark.parametrize("has_outsider", [False, True])
def test_what_runs_on_after_a_cancellation_is_ended_with_its_jvm_unless_it_is_an_outsiders(
    monkeypatch: pytest.MonkeyPatch, has_outsider: bool
) -> None:
    looks = 0

    async def works(pid: int) -> bool:
        nonlocal looks
        looks += 1
        await asyncio.sleep(0)
        return looks <= RUNAWAY_SAMPLES

    async def story() -> None:
        monkeypatch.setattr(runaways, "works", works)
        server = Server()
        backend = SparkBackend(server, Keeper())  # type: ignore[arg-type]
        if has_outsider:
            backend.admit(OUTSIDER)
        await backend.close_unused(ADDRESS, SessionName("user", "session"), SessionEnding())
        for _ in range(10 * RUNAWAY_SAMPLES):
            await asyncio.sleep(0)
        assert (server.renewed, looks > 0) == ((0, False) if has_outsider else (1, True))
        await backend.close()

    asyncio.run(story())


def test_a_jvm_is_not_replaced_while_a_commit_works_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async def works(pid: int) -> bool:
        await asyncio.sleep(0)
        return True

    async def turns() -> None:
        for _ in range(10 * RUNAWAY_SAMPLES):
            await asyncio.sleep(0)

    async def story() -> None:
        monkeypatch.setattr(runaways, "works", works)
        server, attempt = Server(), RegionAttemptID(JobID("job"), RegionIndex(0), 1)
        backend = SparkBackend(server, Keeper())  # type: ignore[arg-type]
        backend.admit(attempt)
        await backend.close_session(ADDRESS, SessionName("user", "session"), SessionEnding())
        backend.leave(attempt)
        async with SideSessions(lambda: backend, "", {}).open():
            await turns()
            assert server.renewed == 0
        await turns()
        assert server.renewed == 1, "what works when it is over has no owner"
        await backend.close()

    asyncio.run(story())
