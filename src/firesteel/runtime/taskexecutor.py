"""The TaskExecutor's endpoint: its core, and the backend that runs what the core starts."""

import asyncio
import logging
import os
import socket
import traceback
from collections.abc import Callable, Sequence
from typing import assert_never

from firesteel.core.effects import Effect, LeaderChanged
from firesteel.core.settings import TaskExecutorSettings
from firesteel.core.taskexecutor import workeffects as w
from firesteel.core.taskexecutor.taskexecutor import TaskExecutorCore
from firesteel.core.taskexecutor.workeffects import AnswerInquiry, InquiryAnswered
from firesteel.model import options
from firesteel.model.checkpoints import QueryPoint
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.ids import JobVertexID, RegionAttemptID
from firesteel.model.inquiries import AnyAnswer, InquiryRefused
from firesteel.model.jobgraph import FunctionKind, JobGraph, JobVertex
from firesteel.model.options import Configuration
from firesteel.model.reports import SplitRequest, TaskStateUpdate
from firesteel.model.resources import UNTOLD_STORAGE, HardwareDescription, ResourceProfile, ResultsStorage
from firesteel.model.splits import DrawnSplits
from firesteel.model.states import ExecutionState
from firesteel.model.tasks import Committed, JobInformation, TaskDeployment, TaskOutcome
from firesteel.runtime.about import about
from firesteel.runtime.background import keep_looking
from firesteel.runtime.endpoint import Endpoint
from firesteel.runtime.metrics import MetricRegistry
from firesteel.runtime.ports import Inheritance, InquiryDesk, TaskBackend, TaskFailedError
from firesteel.runtime.registration import registration_timeouts
from firesteel.runtime.services import Clock, LeaderRetrieval, Rpc

RELEASE_TRIES_MAX, RELEASE_RETRY_S = 5, 0.5
"""How often a worker tries to delete what an ended job has left here, and the time between two tries."""

LOOK_S = 10.0
"""How often a worker looks for others that have died."""

logger = logging.getLogger(__name__)


class RegistrationTimeout(Exception):
    """The cluster's fault, or the network's: there was no master to work for."""


class RegistrationRefused(Exception):
    """Whoever has set up the worker: it does not fit to those that are there."""


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
        desk: InquiryDesk | None = None,
        inheritance: Inheritance | None = None,
        registry: MetricRegistry | None = None,
        measure_interval_ms: int = options.METRICS_UPDATE_INTERVAL.default,
        on_broken: Callable[[Exception], None],
    ) -> None:
        super().__init__(core, rpc, clock, on_broken)
        self._registry, self._measure_s = registry, measure_interval_ms / 1_000
        self._leaders, self._backend, self._desk = leaders, backend, desk
        self._inheritance = inheritance
        self._attempts: dict[RegionAttemptID, asyncio.Task[TaskStateUpdate]] = {}
        self._drawing: dict[RegionAttemptID, asyncio.Future[DrawnSplits]] = {}
        self._host = socket.gethostname()
        self._unwatch: dict[str, Callable[[], None]] = {}

    def start(self) -> None:
        super().start()
        if self._inheritance is not None:
            self.background(self._look_for_dead(self._inheritance))
        if self._registry is not None:
            self.background(self._measure(self._registry))

    async def shut_down(self, reason: str) -> None:
        """Say goodbye, then stop."""
        self.tell(w.Stopping(reason))
        await self.catch_up()
        await self.stop()

    async def stop(self) -> None:
        for unwatch in self._unwatch.values():
            unwatch()
        self._unwatch.clear()
        await super().stop()

    def perform(self, effect: Effect) -> None:
        assert isinstance(effect, w.TaskExecutorEffect), f"not an effect of a TaskExecutor: {effect}"
        match effect:
            case w.StartTasks():
                self._start(effect)
            case w.CancelTask():
                self._cancel(effect.attempt)
            case w.GiveSplits():
                waiting = self._drawing.pop(effect.attempt, None)
                if waiting is not None and not waiting.done():  # cut in this turn, an attempt has yet to notice
                    waiting.set_result(effect.drawn)
            case w.Discard():
                self.background(self._discard(effect.locations))
            case w.CommitSink():
                self.background(self._commit(effect))
            case w.StopTask():
                self._backend.stop_streams(effect.attempt, drain=effect.drain)
            case w.TakeSavepoint():
                self.background(self._take_savepoint(effect))
            case w.TakeCheckpoint():
                self.background(self._take_checkpoint(effect))
            case w.ReleaseJob():
                self.background(self._release(effect))
            case AnswerInquiry():
                self.background(self._answer_inquiry(effect))
            case w.WatchLeader():
                component = effect.component
                self._unwatch[component] = self._leaders.watch(
                    component, lambda leader: self.tell(LeaderChanged(component, leader))
                )
            case w.UnwatchLeader():
                self._unwatch.pop(effect.component)()
            case w.GiveUp():
                logger.warning("%s gives up: %s", self.core.address, effect.reason)
                self._break((RegistrationRefused if effect.is_refused else RegistrationTimeout)(effect.reason))
            case _:
                assert_never(effect)

    def _start(self, effect: w.StartTasks) -> None:
        vertices = {vertex.id: vertex for vertex in effect.job.graph.vertices}
        finished: list[TaskStateUpdate] = []
        for deployment in effect.deployments:
            if all(_is_noop(vertices[vertex_id]) for vertex_id in deployment.vertices):
                done = TaskStateUpdate(attempt=deployment.attempt, state=ExecutionState.FINISHED, outcome=TaskOutcome())
                finished.append(done)
            else:
                self._start_attempt(effect.job, deployment)
        if finished:
            self.tell(w.TasksChanged(tuple(finished)))

    def _start_attempt(self, job: JobInformation, deployment: TaskDeployment) -> None:
        attempt = deployment.attempt
        task = self._background.start(self._run(job, deployment), f"attempt {attempt}")
        self._attempts[attempt] = task
        task.add_done_callback(lambda ended: self._attempt_ended(attempt, ended))

    def _cancel(self, attempt: RegionAttemptID) -> None:
        """Nothing is to be done for an attempt that has ended: its terminal update is on its way to the core."""
        task = self._attempts.get(attempt)
        if task is not None:
            task.cancel()

    def _attempt_ended(self, attempt: RegionAttemptID, task: asyncio.Task[TaskStateUpdate]) -> None:
        """The one terminal update of an attempt; a task that was cancelled may never have begun."""
        del self._attempts[attempt]
        canceled = TaskStateUpdate(attempt=attempt, state=ExecutionState.CANCELED)
        self.tell(w.TasksChanged((canceled if task.cancelled() else task.result(),)))

    async def _run(self, job: JobInformation, deployment: TaskDeployment) -> TaskStateUpdate:
        """One attempt, from its start to its end."""
        attempt = deployment.attempt
        try:
            outcome = await self._run_in_time(job, deployment)
        except TaskFailedError as error:
            return TaskStateUpdate(attempt=attempt, state=ExecutionState.FAILED, failure=error.failure)
        except Exception as error:
            return TaskStateUpdate(attempt=attempt, state=ExecutionState.FAILED, failure=_backend_failure(error))
        return TaskStateUpdate(attempt=attempt, state=ExecutionState.FINISHED, outcome=outcome)

    async def _run_in_time(self, job: JobInformation, deployment: TaskDeployment) -> TaskOutcome:
        running = TaskStateUpdate(attempt=deployment.attempt, state=ExecutionState.RUNNING)
        strictest = _most_impatient(job.graph, deployment.vertices)
        limit = asyncio.timeout(None if strictest is None else (strictest.timeout_ms or 0) / 1000)
        try:
            async with limit:
                return await self._backend.run(
                    job,
                    deployment,
                    on_running=lambda: self.tell(w.TasksChanged((running,))),
                    on_progress=lambda progress: self.tell(w.TaskProgressed(progress)),
                    draw_splits=lambda number: self._draw(deployment.attempt, number),
                )
        except TimeoutError as error:
            if strictest is None or not limit.expired():
                raise
            text = f"the attempt ran longer than its timeout of {(strictest.timeout_ms or 0) / 1000:g} s"
            failure = FailureInfo(kind=FailureKind.USER, message=text, vertex=strictest.name, exception="TimeoutError")
            raise TaskFailedError(failure) from error

    async def _draw(self, attempt: RegionAttemptID, number: int) -> DrawnSplits:
        """The attempt's next input splits. The core asks for them until it has an answer."""
        drawn: asyncio.Future[DrawnSplits] = asyncio.get_running_loop().create_future()
        self._drawing[attempt] = drawn
        self.tell(w.SplitsWanted(SplitRequest(attempt, number, self._host)))
        try:
            return await drawn
        finally:
            self._drawing.pop(attempt, None)

    async def _commit(self, effect: w.CommitSink) -> None:
        failure: FailureInfo | None = None
        done = Committed()
        try:
            done = await self._backend.commit(effect.commit)
            if done.note:
                logger.info("job %s: %s", effect.job_id, done.note, extra=about(effect.job_id))
        except TaskFailedError as error:
            failure = error.failure
        except Exception as error:
            failure = _backend_failure(error)
        self.tell(w.SinkCommitDone(effect.job_id, effect.commit.commit_id, failure, done))

    async def _take_savepoint(self, effect: w.TakeSavepoint) -> None:
        failure: FailureInfo | None = None
        try:
            await self._backend.take_savepoint(effect.job_id, effect.order)
        except TaskFailedError as error:
            failure = error.failure
        except Exception as error:
            failure = _backend_failure(error)
        self.tell(w.SavepointDone(effect.job_id, effect.order.savepoint_id, failure))

    async def _take_checkpoint(self, effect: w.TakeCheckpoint) -> None:
        failure: FailureInfo | None = None
        points: tuple[QueryPoint, ...] = ()
        try:
            points = await self._backend.take_checkpoint(effect.job_id, effect.order)
        except TaskFailedError as error:
            failure = error.failure
        except Exception as error:
            failure = _backend_failure(error)
        self.tell(w.CheckpointDone(effect.job_id, effect.order.checkpoint_id, points, failure))

    async def _discard(self, locations: Sequence[str]) -> None:
        """What can't be deleted now is found again when its job is released."""
        try:
            await self._backend.discard(locations)
        except Exception:
            logger.warning("%s could not delete %s", self.core.address, ", ".join(locations), exc_info=True)

    async def _look_for_dead(self, inheritance: Inheritance) -> None:
        """Workers may die at any time, and others be killed while they clear up."""

        async def look() -> None:
            if found := tuple(await inheritance.look()):
                self.tell(w.LeftoversFound(found))

        await keep_looking(look, "a look for what dead workers have left", LOOK_S)

    async def _measure(self, registry: MetricRegistry) -> None:
        while True:
            if values := registry.values():
                self.tell(w.Measured(values))
            await asyncio.sleep(self._measure_s)

    async def _release(self, effect: w.ReleaseJob) -> None:
        """A disk that refuses to delete must not keep the job, and its slots here, for ever."""
        for attempt in range(1, RELEASE_TRIES_MAX + 1):
            try:
                if effect.retained != "" and not effect.is_given_up:  # before anybody deletes it
                    await self._backend.retain_checkpoint(effect.job_id, effect.retained)
                await self._backend.discard(effect.locations)
                if self._inheritance is not None and not effect.is_given_up:
                    await self._inheritance.release(effect.job_id, retains=effect.retained is None)
                await self._backend.release_job(effect.job_id, is_over=not effect.is_given_up)
                break
            except Exception:
                level = logging.ERROR if attempt == RELEASE_TRIES_MAX else logging.WARNING
                text = "%s could not delete what job %s left (try %d of %d)"
                logger.log(level, text, self.core.address, effect.job_id, attempt, RELEASE_TRIES_MAX, exc_info=True)
            await asyncio.sleep(RELEASE_RETRY_S)
        self.tell(w.JobReleaseDone(effect.job_id))

    async def _answer_inquiry(self, effect: AnswerInquiry) -> None:
        """Whoever looks at a worker must not break it."""
        answer: AnyAnswer = InquiryRefused(reason="this worker tells nothing of itself")
        if self._desk is not None:
            try:
                answer = await self._desk.answer(effect.inquiry)
            except Exception as error:
                logger.warning("%s can't answer %s", self.core.address, type(effect.inquiry).__name__, exc_info=True)
                answer = InquiryRefused(reason=f"the worker could not answer: {type(error).__name__}: {error}")
        self.tell(InquiryAnswered(effect.asker, effect.number, answer))


def _is_noop(vertex: JobVertex) -> bool:
    return all(function.kind is FunctionKind.NOOP for function in vertex.functions)


def _most_impatient(graph: JobGraph, vertices: tuple[JobVertexID, ...]) -> JobVertex | None:
    """The vertex with the shortest time limit among those that run as one."""
    limited = [vertex for vertex in graph.vertices if vertex.id in vertices and vertex.timeout_ms is not None]
    return min(limited, key=lambda vertex: vertex.timeout_ms or 0, default=None)


def _backend_failure(error: Exception) -> FailureInfo:
    return FailureInfo(
        kind=FailureKind.ENVIRONMENT,
        message=f"the worker could not do it: {type(error).__name__}: {error}",
        exception=type(error).__name__,
        trace=traceback.format_exc(),
    )


def task_executor_settings(config: Configuration, results: ResultsStorage = UNTOLD_STORAGE) -> TaskExecutorSettings:
    slots = config.get_option(options.NUMBER_OF_TASK_SLOTS)
    cores = config.get_option(options.TASK_CPU) or float(os.cpu_count() or 1)
    return TaskExecutorSettings(
        slots=slots,
        profile=ResourceProfile(
            cores / slots,
            config.get_option(options.SPARK_HEAP) // slots,
            config.get_option(options.TASKMANAGER_LABELS),
        ),
        heartbeat_interval_ms=config.get_option(options.HEARTBEAT_INTERVAL),
        heartbeat_timeout_ms=config.get_option(options.HEARTBEAT_TIMEOUT),
        slot_timeout_ms=config.get_option(options.SLOT_TIMEOUT),
        master_grace_ms=config.get_option(options.MASTER_GRACE),
        registration=registration_timeouts(config),
        results=results,
        hardware=HardwareDescription(
            cpu_cores=os.cpu_count() or -1,
            physical_memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            heap_bytes=config.get_option(options.SPARK_HEAP) << 20,
            backends=slots if config.get_option(options.SPARK_ISOLATION) == "slot" else 1,
        ),
    )
