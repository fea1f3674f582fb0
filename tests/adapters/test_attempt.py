"""An attempt that waits for Spark to start, and one whose process dies. Processes and backends are fakes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from firesteel.adapters.spark import wire
from firesteel.adapters.spark.worker import attempt
from firesteel.adapters.spark.worker.attempt import AttemptRun, awaited, describe_exit
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobID, RegionAttemptID, RegionIndex
from firesteel.model.splits import DrawnSplits
from firesteel.model.tasks import IOMetrics, TaskOutcome, TaskProgress
from firesteel.runtime.ports import TaskFailedError

ATTEMPT = RegionAttemptID(JobID("a" * 32), RegionIndex(0), 0)


async def no_splits(number: int) -> DrawnSplits:
    raise AssertionError("it has none")


async def no_other() -> Any:
    raise AssertionError("nothing runs on that it would follow")


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
        task: Any = SimpleNamespace(
            session=None, endpoint=None, pipes="", reattachments_max=3, deployment=SimpleNamespace(attempt=ATTEMPT)
        )
        told: list[TaskProgress] = []

        def on_progress(progress: TaskProgress) -> None:
            told.append(progress)
            if not exited.done():
                exited.set_result(-9)

        run = AttemptRun(task, child, seat, no_other)
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


QUERY = wire.RunningQuery(uid="result", query_id="q", run_id="r", ends=False)


class Process:
    """A child that says what it is told to, and is then killed."""

    def __init__(self, *messages: Any) -> None:
        self.messages, self.got = list(messages), list[Any]()
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.is_closed = False

    def send(self, message: Any) -> None:
        self.got.append(message)

    def end_of_stream_after_exit(self, seconds: float) -> None:
        pass

    async def receive(self) -> Any:
        if self.messages:
            return self.messages.pop(0)
        self.exited.set_result(-9)
        return None

    def signal_group(self, number: int) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True


class Task(msgspec.Struct):
    """What matters here of an assignment."""

    session: None = None
    endpoint: None = None
    pipes: str = ""
    checkpoints: dict[str, str] = {}
    log: str = ""
    reattachments_max: int = 3
    deployment: Any = SimpleNamespace(attempt=ATTEMPT)
    follow: wire.FollowQueries | None = None


async def ended(run: AttemptRun) -> wire.Finished | FailureInfo:
    try:
        return await run.converse(lambda: None, lambda progress: None, no_splits)
    except TaskFailedError as error:
        return error.failure


DONE = wire.Finished(TaskOutcome(), used_session=True)
RUNS = wire.QueriesRun((QUERY,))


def attempt_of(first: Process, fork: Callable[[], Awaitable[Any]]) -> AttemptRun:
    task: Any = Task()
    child: Any = first
    seat: Any = None
    return AttemptRun(task, child, seat, fork)  # it is given no endpoint, and takes no seat


def test_a_process_that_was_killed_is_followed_by_one_that_is_told_what_runs() -> None:
    async def story() -> None:
        first, second = Process(RUNS), Process(DONE)

        async def fork() -> Any:
            return second

        run = attempt_of(first, fork)
        assert await ended(run) == DONE
        assert first.is_closed
        (task,) = second.got
        assert task.follow.queries == (QUERY,)

    asyncio.run(story())


def test_an_order_to_stop_that_comes_between_two_processes_reaches_the_second() -> None:
    async def story() -> None:
        first, second = Process(RUNS), Process(DONE)

        async def fork() -> Any:
            run.stop_streams(drain=True)
            return second

        run = attempt_of(first, fork)
        assert await ended(run) == DONE
        assert second.got[1:] == [wire.StopQueries(drain=True)]

    asyncio.run(story())


def test_a_process_that_was_told_to_stop_its_queries_or_was_condemned_is_not_followed() -> None:
    async def story() -> None:
        run = attempt_of(Process(RUNS), no_other)
        run.stop_streams(drain=False)
        assert await ended(run) == describe_exit(-9)
        run = attempt_of(Process(RUNS), no_other)
        verdict = FailureInfo(kind=FailureKind.USER, message="it held too much memory")
        run.condemn(verdict)
        assert await ended(run) == verdict

    asyncio.run(story())


def test_one_that_can_not_be_followed_has_failed_of_its_death() -> None:
    async def story() -> None:
        async def fork() -> Any:
            raise TaskFailedError(FailureInfo(kind=FailureKind.ENVIRONMENT, message="there is no fork server"))

        assert await ended(attempt_of(Process(RUNS), fork)) == describe_exit(-9)

        async def fork_while_the_jvm_dies() -> Any:
            run.condemn(verdict)
            return Process()

        verdict = FailureInfo(kind=FailureKind.ENVIRONMENT, message="the JVM has died")
        run = attempt_of(Process(RUNS), fork_while_the_jvm_dies)
        assert await ended(run) == verdict

    asyncio.run(story())


@pytest.mark.parametrize(("own", "seen", "told"), [(70, 90, 90), (70, 60, 70), (-1, 90, -1)])
def test_the_peak_of_its_memory_is_what_it_knows_or_its_worker_has_seen(own: int, seen: int, told: int) -> None:
    async def story() -> wire.Finished | FailureInfo:
        io = IOMetrics(rows_read=1, memory_peak_bytes=own)
        child: Any = Process(wire.Finished(TaskOutcome(io=io), used_session=True))
        task: Any = Task()
        run = AttemptRun(task, child, SimpleNamespace(), no_other)  # type: ignore[arg-type]
        run.memory_peak_bytes = seen
        return await ended(run)

    report = asyncio.run(story())
    assert isinstance(report, wire.Finished)
    assert report.outcome.io == IOMetrics(rows_read=1, memory_peak_bytes=told)


REFUSED = wire.Failed(FailureInfo(kind=FailureKind.NON_RECOVERABLE, message="its grouping keys are others"))
STARTS, SPARK_REFUSES = wire.QueriesMayRun(True), wire.QueriesMayRun(False)


@pytest.mark.parametrize(
    ("said", "is_unbegun"),
    [
        ((REFUSED,), True),
        ((), True),
        ((STARTS, SPARK_REFUSES, REFUSED), True),
        ((STARTS, REFUSED), False),
        ((STARTS,), False),
        ((STARTS, wire.QueriesRun((QUERY,), "a listener"), REFUSED), False),
    ],
    ids=["refused", "killed", "refused by Spark", "may run", "killed while it starts", "ran"],
)
def test_an_attempt_none_of_whose_queries_was_started_leaves_no_checkpoints(
    tmp_path: Path, said: tuple[Any, ...], is_unbegun: bool
) -> None:
    made = tmp_path / "result" / "0"
    (made / "offsets").mkdir(parents=True)

    async def story() -> FailureInfo:
        run = attempt_of(Process(*said), no_other)
        run.task = msgspec.structs.replace(run.task, checkpoints={"result": str(made)})
        failure = await ended(run)
        assert isinstance(failure, FailureInfo)
        return await run.told(failure)

    assert asyncio.run(story()).unbegun == is_unbegun
    assert made.exists() != is_unbegun
