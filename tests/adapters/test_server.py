"""Starts of backends that fail, hang, are slow or wait for their turn. What is started here is no JVM."""

import asyncio
import dataclasses
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from firesteel.adapters.spark.clusters.masters import Driver, read_master
from firesteel.adapters.spark.jvm import generations, heartbeat
from firesteel.adapters.spark.jvm import server as module
from firesteel.adapters.spark.jvm.generations import Generations
from firesteel.adapters.spark.jvm.launch import STARTED
from firesteel.adapters.spark.jvm.server import MAX_FAILURES, ServerSpec, SparkServer
from firesteel.adapters.spark.jvm.starts import HURRY_MAX, WORK_TICKS, Patience, StartTurns, Work
from firesteel.model.backoff import ExponentialBackoff
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.runtime.ports import TaskFailedError

ENDED_BY_ITS_CLUSTER = [
    "sh",
    "-c",
    f"echo '{STARTED}127.0.0.1:4711'; echo '2026-11-23 15:33:45.273 ERROR StandaloneSchedulerBackend: Application has been"
    " killed. Reason: Master removed our application: KILLED'; exec sleep 600",
]
HANGS = ["sleep", "600"]
DIES = ["sh", "-c", "exit 3"]
IS_UP = ["sh", "-c", f"echo '{STARTED}127.0.0.1:4711'; exec sleep 600"]
SLOW = [
    "sh",
    "-c",
    f"for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.5; echo $i; done; echo '{STARTED}127.0.0.1:4711'; exec sleep 600",
]
ANSWERS = [
    sys.executable,
    "-c",
    f"""
import socket
server = socket.create_server(("127.0.0.1", 0))
print("{STARTED}127.0.0.1:" + str(server.getsockname()[1]), flush=True)
while True:
    client, _ = server.accept()
    assert client.recv(3) == b"PRI"
    client.send(b"x")
    client.close()
""",
]
LIMIT_S = 300.0
T = TypeVar("T")


def spec(folder: Path, command: list[str], *, timeout_seconds: float = 0.05, at_once: int = 8) -> ServerSpec:
    return ServerSpec(
        make_command=lambda flags: command,
        archive=None,
        logs=folder,
        start_timeout_seconds=timeout_seconds,
        ephemeral=None,
        generations=Generations(folder),
        turns=StartTurns(folder / "turns", at_once),
    )


def told(made: ServerSpec, story: Callable[[SparkServer], Awaitable[T]]) -> T:
    """What happens with a server, which is ended after that."""

    async def run() -> T:
        server = SparkServer(made)
        server.start()
        try:
            async with asyncio.timeout(LIMIT_S):
                return await story(server)
        finally:
            await server.close()

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESTART_DELAYS_S", ExponentialBackoff(0.01, 0.01))


async def refused(server: SparkServer) -> FailureInfo:
    with pytest.raises(TaskFailedError) as failed:
        await server.endpoint()
    return failed.value.failure


def test_a_jvm_that_does_not_answer_in_time_is_ended_and_told_for_what_it_is(tmp_path: Path) -> None:
    async def story(server: SparkServer) -> str:
        return (await asyncio.shield(server.death())).message

    assert told(spec(tmp_path, HANGS), story).startswith(
        "the Spark backend did not answer, and nothing of it moved for 0.05 s (taskmanager.spark.start-timeout)"
    )


@pytest.mark.expects_errors
@pytest.mark.parametrize(
    ("command", "timeout_seconds", "why"),
    [(HANGS, 0.05, "nothing of it moved for"), (DIES, LIMIT_S, "ended with status 3")],
)
def test_a_backend_that_can_not_start_is_given_up_and_the_reason_told_however_long_a_start_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], timeout_seconds: float, why: str
) -> None:
    monkeypatch.setattr(module, "SETTLED_SECONDS", 0.0)  # each start takes longer than that

    async def story(server: SparkServer) -> FailureInfo:
        return await refused(server)

    failure = told(spec(tmp_path, command, timeout_seconds=timeout_seconds), story)
    assert failure.kind is FailureKind.ENVIRONMENT
    assert failure.message.startswith(
        f"the Spark backend was given up after {MAX_FAILURES} failures in a row, the last: "
    )
    assert why in failure.message
    assert not failure.backend, "the attempt was in no JVM: it has killed none"
    assert len(list(tmp_path.glob("spark-*.log"))) == MAX_FAILURES


@pytest.mark.expects_errors
def test_a_worker_gains_no_log_for_each_jvm_it_has_ever_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generations, "LOGS_KEPT", 1)
    told(spec(tmp_path, DIES, timeout_seconds=LIMIT_S), refused)
    assert sorted(log.name for log in tmp_path.glob("spark-*.log")) == ["spark-3.log", "spark-4.log"]


@pytest.mark.expects_errors
def test_who_asks_for_a_backend_that_was_given_up_has_one_more_start_tried(tmp_path: Path) -> None:
    command = list(DIES)

    async def story(server: SparkServer) -> tuple[int, int]:
        await refused(server)
        await refused(server)
        starts = len(list(tmp_path.glob("spark-*.log")))
        command[:] = IS_UP
        return starts, (await server.endpoint()).port

    assert told(spec(tmp_path, command, timeout_seconds=LIMIT_S), story) == (MAX_FAILURES + 1, 4711)


@pytest.mark.parametrize(("driver", "blamed"), [(None, True), (Driver(read_master("yarn"), "", "here"), False)])
def test_an_application_that_its_cluster_has_ended_was_killed_by_no_attempt(
    tmp_path: Path, driver: Driver | None, blamed: bool
) -> None:
    """Three maintenances of a cluster are no reason to end a job for good."""

    async def story(server: SparkServer) -> FailureInfo:
        death = server.death()
        await server.endpoint()
        if driver is None and server.pid is not None:
            os.kill(server.pid, signal.SIGKILL)
        return await asyncio.shield(death)

    command = IS_UP if driver is None else ENDED_BY_ITS_CLUSTER
    made = dataclasses.replace(spec(tmp_path, command, timeout_seconds=LIMIT_S), driver=driver)
    failure = told(made, story)
    assert (failure.kind, failure.backend, failure.is_suspect) == (FailureKind.ENVIRONMENT, "spark-1", blamed)
    assert driver is None or "was ended by yarn" in failure.message


def test_a_slow_start_is_waited_for_while_it_gets_on(tmp_path: Path) -> None:
    """It takes longer than the limit, and says something all the time."""

    async def story(server: SparkServer) -> int:
        return (await server.endpoint()).generation

    assert told(spec(tmp_path, SLOW, timeout_seconds=5.0), story) == 1


def test_a_start_says_what_it_waits_for(tmp_path: Path) -> None:
    async def story(server: SparkServer) -> list[str]:
        texts = [server.waits_for()]
        while "for 0 s" not in server.waits_for():
            await asyncio.sleep(0.01)
        await asyncio.shield(server.death())
        return [*texts, server.waits_for()]

    before, after = told(spec(tmp_path, HANGS, timeout_seconds=2.0), story)
    assert before == "Spark to start (in line: others are being started on this machine)"
    assert f"1 start has failed, of {MAX_FAILURES}: the Spark backend did not answer" in after


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.01)


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks that cost a test no time."""
    monkeypatch.setattr(heartbeat, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(heartbeat, "ANSWER_SECONDS", 0.5)


def jvm_of(server: SparkServer, *, with_supervisor: bool) -> list[psutil.Process]:
    supervisor = psutil.Process(server.pid)
    return [*supervisor.children(), *([supervisor] if with_supervisor else [])]


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("with_supervisor", [False, True])
def test_a_jvm_that_is_up_and_stands_still_is_ended_and_another_started(tmp_path: Path, with_supervisor: bool) -> None:
    async def story(server: SparkServer) -> tuple[FailureInfo, str, str]:
        death = server.death()
        await server.endpoint()
        for process in jvm_of(server, with_supervisor=with_supervisor):
            process.suspend()
        await until(lambda: bool(server.silence))
        told = server.silence
        failure = await asyncio.shield(death)
        assert (await server.endpoint()).generation == 2
        return failure, told, server.silence

    made = dataclasses.replace(spec(tmp_path, ANSWERS, timeout_seconds=LIMIT_S), silence_seconds=2.0)
    failure, meanwhile, after = told(made, story)
    assert (meanwhile.partition("(")[0], after) == ("Spark to answer ", "")
    assert failure.message == (
        "the Spark backend did not answer, and nothing of it moved for 2 s (taskmanager.spark.heartbeat.timeout), and was"
        " ended: was it stopped, or does the machine swap?"
    )


@pytest.mark.usefixtures("eager")
def test_a_jvm_that_answers_again_goes_on_and_so_does_one_that_is_to_be_waited_for(tmp_path: Path) -> None:
    async def story(server: SparkServer) -> int:
        await server.endpoint()
        (jvm,) = jvm_of(server, with_supervisor=False)
        jvm.suspend()
        await until(lambda: bool(server.silence))
        shown = server.silence
        await until(lambda: server.silence != shown)
        assert server.silence, "for longer"
        jvm.resume()
        await until(lambda: not server.silence)
        return (await server.endpoint()).generation

    assert told(spec(tmp_path, ANSWERS, timeout_seconds=LIMIT_S), story) == 1


@pytest.mark.parametrize(("settled_seconds", "counted"), [(0.0, False), (LIMIT_S, True)])
def test_the_death_of_a_jvm_that_was_of_use_for_long_is_no_failed_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settled_seconds: float, counted: bool
) -> None:
    monkeypatch.setattr(module, "SETTLED_SECONDS", settled_seconds)

    async def story(server: SparkServer) -> str:
        death = server.death()
        await server.endpoint()
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        await asyncio.shield(death)
        return server.waits_for()

    assert ("failed" in told(spec(tmp_path, IS_UP, timeout_seconds=LIMIT_S), story)) is counted


def test_starts_take_turns(tmp_path: Path) -> None:
    async def story() -> list[str]:
        events: list[str] = []
        first_is_in, first_may_go = asyncio.Event(), asyncio.Event()

        async def first() -> None:
            async with StartTurns(tmp_path / "turns", 1).turn(LIMIT_S):
                events.append("first begins")
                first_is_in.set()
                await first_may_go.wait()
                events.append("first ends")

        async def second() -> None:
            await first_is_in.wait()
            async with StartTurns(tmp_path / "turns", 1).turn(LIMIT_S) as end:
                events.append("second begins")
                end()
                end()

        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
            group.create_task(first())
            waiting = group.create_task(second())
            await first_is_in.wait()
            await asyncio.wait({waiting}, timeout=0.3)
            first_may_go.set()
        async with StartTurns(tmp_path / "turns", 1).turn(0.0):
            events.append("and a third, at once")
        return events

    assert asyncio.run(story()) == ["first begins", "first ends", "second begins", "and a third, at once"]


def test_who_has_waited_long_enough_goes_ahead_and_so_does_who_can_not_lock(tmp_path: Path) -> None:
    async def story() -> None:
        turns = StartTurns(tmp_path / "turns", 1)
        (tmp_path / "file").touch()
        async with turns.turn(0.0), turns.turn(0.0), StartTurns(tmp_path / "file", 1).turn(LIMIT_S):
            pass

    asyncio.run(story())


def test_the_turn_of_a_process_that_was_killed_is_free(tmp_path: Path) -> None:
    program = (
        "import asyncio, pathlib, sys\n"
        "from firesteel.adapters.spark.jvm.starts import StartTurns\n"
        "async def main():\n"
        f"    async with StartTurns(pathlib.Path({str(tmp_path / 'turns')!r}), 1).turn(0.0):\n"
        "        print('has it', flush=True)\n"
        "        await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )

    async def story() -> None:
        holder = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
        assert holder.stdout is not None
        try:
            await holder.stdout.readline()
            turns = StartTurns(tmp_path / "turns", 1)
            assert turns._try() is None
        finally:
            holder.kill()
            await holder.wait()
        held = turns._try()
        assert held is not None
        os.close(held)

    asyncio.run(story())


def test_patience_lasts_as_long_as_something_moves_but_not_for_ever() -> None:
    patience = Patience(10.0, now=0.0)
    patience.note(Work(0, WORK_TICKS - 1), now=5.0)
    assert patience.idle_seconds(5.0) == 5.0, "a JVM that hangs uses a little CPU time, too"
    patience.note(Work(0, WORK_TICKS), now=9.0)
    patience.note(Work(7, WORK_TICKS), now=18.0)
    assert not patience.is_over(27.9)
    assert patience.is_over(28.0)
    assert "nothing of it moved for 10 s" in patience.why(28.0)
    patience.note(Work(8, WORK_TICKS), now=HURRY_MAX * 10.0 - 1)
    assert patience.is_over(HURRY_MAX * 10.0)
    assert "although it worked" in patience.why(HURRY_MAX * 10.0)
