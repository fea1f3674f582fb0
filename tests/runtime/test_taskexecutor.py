"""Attempts on a worker: each ends in exactly one terminal update, whatever comes when."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from firesteel.adapters.ha.embedded import EmbeddedLeaderElection
from firesteel.adapters.rpc.inproc import InProcessRpc
from firesteel.core.taskexecutor.taskexecutor import TaskExecutorCore
from firesteel.core.taskexecutor.workeffects import (
    CancelTask,
    CommitSink,
    Discard,
    GiveSplits,
    JobReleaseDone,
    LeftoversFound,
    ReleaseJob,
    SinkCommitDone,
    SplitsWanted,
    StartTasks,
    Stopping,
    TasksChanged,
)
from firesteel.minicluster import MiniCluster
from firesteel.model.failures import FailureKind
from firesteel.model.ids import Address, AllocationID, JobID, RegionAttemptID, RegionIndex, ResourceID
from firesteel.model.jobgraph import Function, FunctionKind, JobGraph
from firesteel.model.options import Configuration, ConfigurationError
from firesteel.model.reports import TaskStateUpdate
from firesteel.model.splits import DrawnSplits
from firesteel.model.states import ExecutionState
from firesteel.model.tasks import JobInformation, TaskDeployment, TaskOutcome
from firesteel.runtime.ports import Inheritance
from firesteel.runtime.taskexecutor import (
    LOOK_S,
    RELEASE_TRIES_MAX,
    RegistrationTimeout,
    TaskExecutorEndpoint,
    task_executor_settings,
)
from firesteel.testing.backend import FakeTaskBackend, TaskScript
from tests.core.graphs import commit_of
from tests.runtime.cluster import graph, virtual_loop
from tests.runtime.conftest import Do
from tests.runtime.cores import RecordingCore

CANCELED, FAILED, FINISHED = ExecutionState.CANCELED, ExecutionState.FAILED, ExecutionState.FINISHED


class Worker:
    """A TaskExecutor's endpoint whose core only records: the test performs its effects."""

    def __init__(self, script: TaskScript, job: JobGraph | None = None, inheritance: Inheritance | None = None) -> None:
        self.script, self.broken = script, list[Exception]()
        self.backend = FakeTaskBackend(script, Path("worker"))
        self.backend.started = True
        self.core = RecordingCore("worker")
        self.job = JobInformation(graph=job or graph("lines"), user="me")
        self.endpoint = TaskExecutorEndpoint(
            self.core,  # type: ignore[arg-type]
            InProcessRpc(),
            virtual_loop(),
            leaders=EmbeddedLeaderElection("test"),
            backend=self.backend,
            inheritance=inheritance,
            on_broken=self.broken.append,
        )
        self.endpoint.start()
        self.attempt = RegionAttemptID(self.job.graph.job_id, RegionIndex(0), 0)

    def start(self) -> None:
        vertices = tuple(vertex.id for vertex in self.job.graph.vertices)
        deployment = TaskDeployment(
            attempt=self.attempt, allocation_id=AllocationID("slot"), vertices=vertices, subtask=0
        )
        self.endpoint.perform(StartTasks(self.job, (deployment,)))

    def cancel(self) -> None:
        self.endpoint.perform(CancelTask(self.attempt))

    def updates(self) -> list[TaskStateUpdate]:
        return [update for event in self.core.events if isinstance(event, TasksChanged) for update in event.updates]

    def states(self) -> list[ExecutionState]:
        return [update.state for update in self.updates()]

    async def close(self) -> None:
        await self.endpoint.stop()
        assert self.broken == []
        assert self.endpoint._attempts == {}


def bounded(job: JobGraph, timeout_ms: int | None) -> JobGraph:
    vertices = tuple(msgspec.structs.replace(vertex, timeout_ms=timeout_ms) for vertex in job.vertices)
    return msgspec.structs.replace(job, vertices=vertices)


def noop() -> JobGraph:
    job = graph("nothing")
    functions = (Function(name="nothing", uid="nothing", kind=FunctionKind.NOOP),)
    vertices = tuple(msgspec.structs.replace(vertex, functions=functions) for vertex in job.vertices)
    return msgspec.structs.replace(job, vertices=vertices)


def test_an_attempt_runs_and_ends(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        worker = Worker(script)
        worker.start()
        await asyncio.sleep(1)
        assert worker.states() == [ExecutionState.RUNNING, FINISHED]
        assert worker.updates()[-1].outcome is not None
        await worker.close()

    do(story())


@pytest.mark.parametrize("turns", range(8))
def test_cancelled_at_any_moment(do: Do, script: TaskScript, turns: int) -> None:
    """Before it has begun, while it runs, and when its end is still on the way to the core."""

    async def story() -> None:
        worker = Worker(script)
        worker.start()
        for _ in range(turns):
            await asyncio.sleep(0)
        worker.cancel()
        worker.cancel()
        await asyncio.sleep(1)
        ends = [state for state in worker.states() if state.is_terminal]
        assert ends in ([CANCELED], [FINISHED])
        assert ends == [CANCELED] or turns
        worker.cancel()
        await worker.close()

    do(story())


def test_splits_for_an_attempt_that_was_just_cut_are_nobody_s(
    do: Do, script: TaskScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come in the turn in which it is cut, before it has noticed."""

    async def draws(*_: object, draw_splits: Callable[[int], Awaitable[DrawnSplits]], **__: object) -> None:
        await draw_splits(0)

    async def story() -> None:
        worker = Worker(script)
        monkeypatch.setattr(worker.backend, "run", draws)
        worker.start()
        await asyncio.sleep(1)
        assert any(isinstance(event, SplitsWanted) for event in worker.core.events)
        worker.cancel()
        worker.endpoint.perform(GiveSplits(worker.attempt, DrawnSplits(number=0, is_end=True)))
        await asyncio.sleep(1)
        assert worker.states() == [CANCELED]
        await worker.close()

    do(story())


def test_a_noop_can_be_cancelled_though_it_has_ended(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        worker = Worker(script, noop())
        worker.start()
        worker.cancel()
        await asyncio.sleep(1)
        assert [update.outcome for update in worker.updates()] == [TaskOutcome()]
        await worker.close()

    do(story())
    assert script.attempts == []


@pytest.mark.parametrize("limit_ms", [None, 10_000])
def test_an_attempt_that_runs_too_long_fails(do: Do, script: TaskScript, limit_ms: int | None) -> None:
    async def story() -> None:
        script.hold("lines")
        worker = Worker(script, bounded(graph("lines"), limit_ms))
        worker.start()
        await asyncio.sleep(3_600)
        if limit_ms is None:
            assert worker.states() == [ExecutionState.RUNNING]
            script.release("lines")
        else:
            failure = worker.updates()[-1].failure
            assert failure is not None
            assert failure.kind is FailureKind.USER
            assert failure.headline() == "lines: the attempt ran longer than its timeout of 10 s"
        await worker.close()

    do(story())


@pytest.mark.parametrize("limit_ms", [None, 10_000])
@pytest.mark.parametrize("error", [TimeoutError("the server does not answer"), ZeroDivisionError("a bug")])
def test_what_a_backend_raises_is_a_failure(
    do: Do, script: TaskScript, monkeypatch: pytest.MonkeyPatch, error: Exception, limit_ms: int | None
) -> None:
    """A timeout of its own is not the attempt's."""

    async def raises(*parts: object) -> None:
        raise error

    async def story() -> None:
        worker = Worker(script, bounded(graph("lines"), limit_ms))
        monkeypatch.setattr(TaskScript, "work", raises)
        worker.start()
        await asyncio.sleep(1)
        failure = worker.updates()[-1].failure
        assert worker.states()[-1] is FAILED
        assert failure is not None
        assert failure.kind is FailureKind.ENVIRONMENT
        assert str(error) in failure.message
        assert "raise error" in failure.trace
        await worker.close()

    do(story())


def test_stopping_ends_attempts(do: Do, script: TaskScript) -> None:
    """Its process is gone when `stop` returns."""

    async def story() -> None:
        script.hold("lines")
        worker = Worker(script)
        worker.start()
        await script.until_running("lines")
        await worker.close()
        assert script.ends("lines") == ["CANCELED"]

    do(story())


def test_the_goodbye_is_said_before_the_end(do: Do, script: TaskScript) -> None:
    """However much stands in the mailbox before it."""

    async def story() -> None:
        worker = Worker(script)
        update = TaskStateUpdate(attempt=worker.attempt, state=FINISHED)
        for _ in range(2_000):
            worker.endpoint.tell(TasksChanged((update,)))
        await worker.endpoint.shut_down("test")
        assert worker.core.events[-1] == Stopping("test")

    do(story())


@pytest.mark.parametrize("fails", [0, 1])
def test_commits_are_answered(do: Do, script: TaskScript, fails: int) -> None:
    async def story() -> None:
        worker = Worker(script)
        commit = commit_of("lines")
        if not fails:
            script.stored[commit.staging] = worker.attempt
        worker.endpoint.perform(CommitSink(worker.job.graph.job_id, commit))
        await asyncio.sleep(1)
        (answer,) = worker.core.seen(SinkCommitDone)
        assert isinstance(answer, SinkCommitDone)
        assert (answer.failure is None) == (not fails)
        await worker.close()

    do(story())


def test_deletions_that_fail_do_not_end_the_worker(do: Do, script: TaskScript) -> None:
    async def story() -> None:
        script.disk_errors = 2
        worker = Worker(script)
        worker.endpoint.perform(Discard(("somewhere",)))
        await asyncio.sleep(1)
        worker.endpoint.perform(ReleaseJob(worker.job.graph.job_id, ("somewhere",)))
        await asyncio.sleep(10)
        assert len(worker.core.seen(JobReleaseDone)) == 1
        await worker.close()

    do(story())


@pytest.mark.expects_errors
def test_what_can_not_be_deleted_is_reported(do: Do, script: TaskScript, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        script.disk_errors = RELEASE_TRIES_MAX
        worker = Worker(script)
        worker.endpoint.perform(ReleaseJob(worker.job.graph.job_id, ("somewhere",)))
        await asyncio.sleep(10)
        assert len(worker.core.seen(JobReleaseDone)) == 1
        await worker.close()

    do(story())
    assert [record.levelname for record in caplog.records] == ["WARNING"] * (RELEASE_TRIES_MAX - 1) + ["ERROR"]


class OddDirectories:
    """Of dead workers: at the first look something is wrong with them."""

    def __init__(self) -> None:
        self._looks = 0

    async def look(self) -> Sequence[JobID]:
        self._looks += 1
        if self._looks == 1:
            raise KeyError("a directory")
        return (JobID("a" * 32),)

    async def release(self, job_id: JobID, *, retains: bool = False) -> None:
        raise AssertionError("no job is over here")


def test_what_is_wrong_with_dead_workers_ends_no_living_one(
    do: Do, script: TaskScript, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        worker = Worker(script, inheritance=OddDirectories())
        await asyncio.sleep(LOOK_S + 1)
        assert worker.core.seen(LeftoversFound) == [LeftoversFound((JobID("a" * 32),))]
        await worker.close()

    do(story())
    assert "a look for what dead workers have left failed" in caplog.text


def test_a_worker_that_finds_no_master_gives_up(do: Do, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        broken: list[Exception] = []
        config = Configuration({"taskmanager.registration.timeout": "1 min"})
        endpoint = TaskExecutorEndpoint(
            TaskExecutorCore(ResourceID("w1"), task_executor_settings(config), Address("w1")),
            InProcessRpc(),
            virtual_loop(),
            leaders=EmbeddedLeaderElection("test"),
            backend=FakeTaskBackend(TaskScript(), Path("worker")),
            on_broken=broken.append,
        )
        endpoint.start()
        await asyncio.sleep(59)
        assert broken == []
        await asyncio.sleep(11)
        (error,) = broken
        assert isinstance(error, RegistrationTimeout)
        assert str(error) == "it has been registered at no ResourceManager for 1 min"
        await endpoint.stop()

    do(story())
    assert "w1 gives up: it has been registered" in caplog.text


@pytest.mark.parametrize(
    ("initial", "longest", "problem"),
    [
        ("0", "30 s", "initial-timeout: it has to be at least 1 ms"),
        ("2 s", "1 s", "max-timeout: it has to be at least"),
    ],
)
def test_times_between_registrations_fit_together(initial: str, longest: str, problem: str) -> None:
    values = {"cluster.registration.initial-timeout": initial, "cluster.registration.max-timeout": longest}
    with pytest.raises(ConfigurationError, match=problem):
        task_executor_settings(Configuration(values))
    with pytest.raises(ConfigurationError, match=problem):
        MiniCluster(Configuration(values))
