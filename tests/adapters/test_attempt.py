"""An attempt that waits for Spark to start. Its process and its backend are fakes."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from firesteel.adapters.spark import wire
from firesteel.adapters.spark.worker import attempt
from firesteel.adapters.spark.worker.attempt import AttemptRun, awaited
from firesteel.model.failures import FailureKind
from firesteel.model.ids import JobID, RegionAttemptID, RegionIndex
from firesteel.model.splits import DrawnSplits
from firesteel.model.tasks import TaskProgress
from firesteel.runtime.ports import TaskFailedError

ATTEMPT = RegionAttemptID(JobID("a" * 32), RegionIndex(0), 0)


async def no_splits(number: int) -> DrawnSplits:
    raise AssertionError("it has none")


def test_a_process_that_is_killed_while_it_waits_for_spark_is_noticed_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "_TELL_SECONDS", 0.01)

    async def story() -> tuple[list[TaskProgress], TaskFailedError]:
        never = asyncio.get_running_loop().create_future()
        exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def receive() -> wire.WantAddress:
            return wire.WantAddress()

        async def endpoint() -> Any:
            return await asyncio.shield(never)

        child: Any = SimpleNamespace(
            send=lambda message: None, end_of_stream_after_exit=lambda seconds: None, receive=receive, exited=exited
        )
        server = SimpleNamespace(endpoint=endpoint, waits_for=lambda: "Spark to start")
        seat: Any = SimpleNamespace(take=lambda: SimpleNamespace(server=server))
        task: Any = SimpleNamespace(session=None, endpoint=None, pipes="", deployment=SimpleNamespace(attempt=ATTEMPT))
        told: list[TaskProgress] = []

        def on_progress(progress: TaskProgress) -> None:
            told.append(progress)
            if not exited.done():
                exited.set_result(-9)

        run = AttemptRun(task, child, seat)
        with pytest.raises(TaskFailedError) as failed:
            async with asyncio.timeout(300):
                await run.converse(lambda: None, on_progress, no_splits)
        return told, failed.value

    told, error = asyncio.run(story())
    assert told == [TaskProgress(attempt=ATTEMPT, waits_for="Spark to start")]
    assert error.failure.kind is FailureKind.ENVIRONMENT
    assert error.failure.exception == "SIGKILL"


def test_who_waits_for_a_server_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "_TELL_SECONDS", 0.01)

    async def story() -> list[TaskProgress]:
        there: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def endpoint() -> Any:
            return await asyncio.shield(there)

        told: list[TaskProgress] = []

        def on_progress(progress: TaskProgress) -> None:
            told.append(progress)
            if not there.done():
                there.set_result("here")

        server: Any = SimpleNamespace(endpoint=endpoint, waits_for=lambda: "sc://h:1 to answer")
        await awaited(server, ATTEMPT, on_progress)
        return told

    assert [each.waits_for for each in asyncio.run(story())] == ["sc://h:1 to answer", ""]
