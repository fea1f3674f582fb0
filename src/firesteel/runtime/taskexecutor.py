"""The TaskExecutor's endpoint: its core, and the backend that runs what the core starts."""

import asyncio
import os
import traceback
from collections.abc import Callable

from firesteel.core import workeffects as w
from firesteel.core.effects import Effect, LeaderChanged
from firesteel.core.taskexecutor import TaskExecutorCore, TaskExecutorSettings
from firesteel.model import options
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobVertexID, RegionAttemptID
from firesteel.model.jobgraph import FunctionKind, JobGraph, JobVertex
from firesteel.model.messages import TaskStateUpdate
from firesteel.model.options import Configuration
from firesteel.model.resources import ResourceProfile
from firesteel.model.states import ExecutionState
from firesteel.model.tasks import JobInformation, TaskDeployment, TaskOutcome
from firesteel.runtime.endpoint import Endpoint
from firesteel.runtime.ports import TaskBackend, TaskFailedError
from firesteel.runtime.services import Clock, LeaderRetrieval, Rpc


class TaskExecutorEndpoint(Endpoint):
    """A worker. Attempts of `fs.noop()` are finished here; all others run in the backend."""

    core: TaskExecutorCore

    def __init__(
        self,
        core: TaskExecutorCore,
        rpc: Rpc,
        clock: Clock,
        *,
        leaders: LeaderRetrieval,
        backend: TaskBackend,
        on_broken: Callable[[Exception], None],
    ) -> None:
        super().__init__(core, rpc, clock, on_broken)
        self._leaders, self._backend = leaders, backend
        self._attempts: dict[RegionAttemptID, asyncio.Task[None]] = {}
        self._unwatch: dict[str, Callable[[], None]] = {}

    async def shut_down(self, reason: str) -> None:
        """Say goodbye, then stop."""
        self.tell(w.Stopping(reason))
        await asyncio.sleep(0)
        await self.stop()

    async def stop(self) -> None:
        for unwatch in self._unwatch.values():
            unwatch()
        self._unwatch.clear()
        await super().stop()

    def perform(self, effect: Effect) -> None:
        match effect:
            case w.StartTasks():
                self._start(effect)
            case w.CancelTask():
                self._attempts[effect.attempt].cancel()
            case w.Discard():
                self.background(self._backend.discard(effect.locations))
            case w.CommitSink():
                self.background(self._commit(effect))
            case w.ReleaseJob():
                self.background(self._release(effect))
            case w.WatchLeader():
                component = effect.component
                self._unwatch[component] = self._leaders.watch(
                    component, lambda leader: self.tell(LeaderChanged(component, leader))
                )
            case w.UnwatchLeader():
                self._unwatch.pop(effect.component)()
            case _:
                super().perform(effect)

    def _start(self, effect: w.StartTasks) -> None:
        vertices = {vertex.id: vertex for vertex in effect.job.graph.vertices}
        finished: list[TaskStateUpdate] = []
        for deployment in effect.deployments:
            if all(_is_noop(vertices[vertex_id]) for vertex_id in deployment.vertices):
                done = TaskStateUpdate(attempt=deployment.attempt, state=ExecutionState.FINISHED, outcome=TaskOutcome())
                finished.append(done)
            else:
                task = self.background(self._run(effect.job, deployment))
                self._attempts[deployment.attempt] = task
        if finished:
            self.tell(w.TasksChanged(tuple(finished)))

    async def _run(self, job: JobInformation, deployment: TaskDeployment) -> None:
        """One attempt, from its start to the one terminal update that ends it."""
        attempt = deployment.attempt
        update = TaskStateUpdate(attempt=attempt, state=ExecutionState.CANCELED)
        try:
            outcome = await self._run_in_time(job, deployment)
            update = TaskStateUpdate(attempt=attempt, state=ExecutionState.FINISHED, outcome=outcome)
        except TaskFailedError as error:
            update = TaskStateUpdate(attempt=attempt, state=ExecutionState.FAILED, failure=error.failure)
        except Exception as error:
            failure = _backend_failure(error)
            update = TaskStateUpdate(attempt=attempt, state=ExecutionState.FAILED, failure=failure)
        finally:
            self._attempts.pop(attempt, None)
            self.tell(w.TasksChanged((update,)))

    async def _run_in_time(self, job: JobInformation, deployment: TaskDeployment) -> TaskOutcome:
        running = TaskStateUpdate(attempt=deployment.attempt, state=ExecutionState.RUNNING)
        limit_ms = _time_limit_ms(job.graph, deployment.vertices)
        try:
            async with asyncio.timeout(None if limit_ms is None else limit_ms / 1000):
                return await self._backend.run(
                    job,
                    deployment,
                    on_running=lambda: self.tell(w.TasksChanged((running,))),
                    on_progress=lambda progress: self.tell(w.TaskProgressed(progress)),
                )
        except TimeoutError as error:
            if limit_ms is None:
                raise
            text = f"the attempt ran longer than its timeout of {limit_ms} ms"
            raise TaskFailedError(FailureInfo(kind=FailureKind.USER, message=text)) from error

    async def _commit(self, effect: w.CommitSink) -> None:
        failure: FailureInfo | None = None
        try:
            await self._backend.commit(effect.commit)
        except TaskFailedError as error:
            failure = error.failure
        except Exception as error:
            failure = _backend_failure(error)
        self.tell(w.SinkCommitDone(effect.job_id, effect.commit.commit_id, failure))

    async def _release(self, effect: w.ReleaseJob) -> None:
        await self._backend.discard(effect.locations)
        await self._backend.release_job(effect.job_id)
        self.tell(w.JobReleaseDone(effect.job_id))


def _is_noop(vertex: JobVertex) -> bool:
    return all(function.kind is FunctionKind.NOOP for function in vertex.functions)


def _time_limit_ms(graph: JobGraph, vertices: tuple[JobVertexID, ...]) -> int | None:
    limits = [v.timeout_ms for v in graph.vertices if v.id in vertices and v.timeout_ms is not None]
    return min(limits, default=None)


def _backend_failure(error: Exception) -> FailureInfo:
    return FailureInfo(
        kind=FailureKind.ENVIRONMENT,
        message=f"the worker could not do it: {type(error).__name__}: {error}",
        exception=type(error).__name__,
        trace=traceback.format_exc(),
    )


def task_executor_settings(config: Configuration) -> TaskExecutorSettings:
    slots = config.get_option(options.NUMBER_OF_TASK_SLOTS)
    cores = config.get_option(options.TASK_CPU) or float(os.cpu_count() or 1)
    return TaskExecutorSettings(
        slots=slots,
        profile=ResourceProfile(cores / slots, config.get_option(options.SPARK_HEAP) // slots),
        heartbeat_interval_ms=config.get_option(options.HEARTBEAT_INTERVAL),
        heartbeat_timeout_ms=config.get_option(options.HEARTBEAT_TIMEOUT),
        slot_timeout_ms=config.get_option(options.SLOT_TIMEOUT),
        master_grace_ms=config.get_option(options.MASTER_GRACE),
    )
