"""The worker's Spark backend over time: one JVM after another, with bounded restarts, and their session keeper."""

import asyncio
import contextlib
import logging
import math
import time
import uuid
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from firesteel.adapters.spark.clusters.kubernetes import ExecutorPods
from firesteel.adapters.spark.clusters.kubernetesstory import KubernetesStory
from firesteel.adapters.spark.clusters.lostmaster import LostMaster
from firesteel.adapters.spark.clusters.masters import LOOPBACK, Driver, SparkMaster
from firesteel.adapters.spark.clusters.reach import MasterUnreachable, driver_host
from firesteel.adapters.spark.clusters.stories import story_of
from firesteel.adapters.spark.clusters.story import ClusterStory, ui_port
from firesteel.adapters.spark.jvm.archive import ClassDataArchive
from firesteel.adapters.spark.jvm.generations import Generations
from firesteel.adapters.spark.jvm.heartbeat import silence
from firesteel.adapters.spark.jvm.launch import PRINTED
from firesteel.adapters.spark.jvm.process import JvmDied, SparkJvm
from firesteel.adapters.spark.jvm.pythonworkers import end_python_workers
from firesteel.adapters.spark.jvm.starts import Patience, StartTurns, work_of
from firesteel.adapters.spark.wire import SparkAddress
from firesteel.model.backoff import ExponentialBackoff
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.model.resources import LOCAL_SPARK, SparkApplication
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.ports import TaskFailedError

logger = logging.getLogger(__name__)

MAX_FAILURES = 4
"""Starts in a row that came to nothing, or JVMs that died soon after, before the backend is given up."""
SETTLED_SECONDS = 60.0
"""A JVM that was of use for so long starts the count over. How long its start took says nothing."""
RESTART_DELAYS_S = ExponentialBackoff(0.5, 60.0)
"""Time between the death of a JVM and the start of the next."""
SAMPLE_SECONDS = 1.0
"""Time between two looks at what a start does."""
REACH_PAUSE_SECONDS = 2.0
"""Time between two looks whether a cluster's master is there again."""
LAST_WORDS_SECONDS = 1.0
"""Time to read the end of a log for why the cluster has ended an application."""
WITHDRAWAL_SECONDS = 30.0
"""Time to take an application out of a queue: a small JVM does it."""
TURN_SECONDS = 10.0
"""A start in which nothing has moved for so long does not need the machine: others may start."""


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """The settings that all JVMs of one server, and in part those of one worker, have in common."""

    make_command: Callable[[tuple[str, ...]], list[str]]
    """The command line, for the given flags of a class-data archive."""
    archive: ClassDataArchive | None
    logs: Path
    start_timeout_seconds: float
    """Time in which something of a start must move."""
    ephemeral: Path | None
    generations: Generations
    """Of all JVMs of the worker."""
    turns: StartTurns
    driver: Driver | None = None
    """Where executors are elsewhere."""
    version: str = ""
    """Spark's."""
    has_ui: bool = False
    """Whether Spark serves its pages."""
    make_kill_command: Callable[[str], list[str]] | None = None
    """The command line that ends an application which its cluster has not begun: it would be begun without its driver."""
    pods: ExecutorPods | None = None
    """Where executors are pods."""
    silence_seconds: float = math.inf
    """Time that one which is up may neither answer nor work."""


class SparkServer:
    """Keeps a JVM running. `endpoint()` waits for the one that is up or coming."""

    def __init__(self, spec: ServerSpec) -> None:
        self._spec = spec
        self._jvm: SparkJvm | None = None
        self._renewing = False
        self._endpoint: asyncio.Future[SparkAddress] = asyncio.get_running_loop().create_future()
        self._death: asyncio.Future[FailureInfo] = asyncio.get_running_loop().create_future()
        self._failures: list[str] = []
        """Why starts have failed, or JVMs have died soon after, in a row."""
        self._begun: float | None = None
        """When the start under way has begun; None while it waits for its turn."""
        self._given_up = False
        self._obstacle = ""
        """Why no start can begin now."""
        self.silence = ""
        """What attempts wait for that have begun there, when it does not answer."""
        self.story: ClusterStory | None = None
        """What is known of its application on a cluster."""
        self._ui = ""
        """URL of its pages, where all of it is in the JVM."""
        self._following: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._background = BackgroundTasks()

    def start(self) -> None:
        """Begin; returns at once."""
        self._background.start(self._keep_running(), "spark-server")

    async def endpoint(self) -> SparkAddress:
        """Where the running JVM listens. Raises TaskFailedError when it was given up; who asks after that has one more
        start tried."""
        if self._given_up:
            self._given_up, self._endpoint = False, asyncio.get_running_loop().create_future()
            self._wanted.set()
        return await asyncio.shield(self._endpoint)

    @property
    def current(self) -> SparkAddress | None:
        """The same, without waiting."""
        future = self._endpoint
        return future.result() if future.done() and not future.cancelled() and future.exception() is None else None

    def death(self) -> asyncio.Future[FailureInfo]:
        """Set when the JVM that is up now, or coming, dies. Not to be cancelled: shield it."""
        return self._death

    def application(self) -> SparkApplication | None:
        """What it is on a cluster, or shows of itself; None where all of it is in the JVM, and shows nothing."""
        if self._spec.driver is None:
            return SparkApplication(LOCAL_SPARK, tracking_url=self._ui) if self._ui else None
        master, story = self._spec.driver.master, self.story
        if story is None:
            return SparkApplication(master.shown)
        return SparkApplication(master.shown, story.application, story.ui, len(story.executors))

    @property
    def pid(self) -> int | None:
        """Process id of the JVM's supervisor, while it runs."""
        return self._jvm.pid if self._jvm is not None else None

    def waits_for(self) -> str:
        """Text for who waits for the endpoint: what it waits for."""
        details = [self._obstacle or "in line: others are being started on this machine"]
        if self._begun is not None:
            details = [f"for {time.monotonic() - self._begun:.0f} s", *filter(None, (self._queued(),))]
        if self._failures:
            count = "1 start has failed" if len(self._failures) == 1 else f"{len(self._failures)} starts have failed"
            details.append(f"{count}, of {MAX_FAILURES}: {self._failures[-1]}")
        return f"Spark to start ({'; '.join(details)})"

    def _queued(self) -> str:
        return self.story.queued if self.story is not None else ""

    async def end_python_workers(self, server_session: str) -> None:
        """End what the JVM keeps for a session that was closed."""
        if self.pid is not None:
            await asyncio.to_thread(end_python_workers, self.pid, server_session)
        link = self._spec.logs.parent / PRINTED / server_session
        await asyncio.to_thread(link.unlink, missing_ok=True)

    async def renew(self) -> None:
        """End the JVM, which nobody uses, and let another one take its place. `endpoint()` waits for that one."""
        if self.current is None or self._jvm is None:
            return
        self._renewing = True
        self._endpoint = asyncio.get_running_loop().create_future()
        await self._jvm.kill()

    async def close(self) -> None:
        """End the JVM, hard: its sessions are closed, and it has no state of its own. Idempotent."""
        await self._background.close()
        if self._jvm is not None:
            await self._jvm.kill()
        await self._withdraw()
        await self._delete_pods()
        for future in (self._endpoint, self._death):
            future.cancel()

    async def _withdraw(self) -> None:
        """End what waits in a queue of the cluster for a driver that is no more."""
        story, make_command = self.story, self._spec.make_kill_command
        if story is None or not story.queued or make_command is None:
            return
        process = await asyncio.create_subprocess_exec(*make_command(story.application), stdout=PIPE, stderr=STDOUT)
        try:
            async with asyncio.timeout(WITHDRAWAL_SECONDS):
                said = (await process.communicate())[0].decode(errors="replace").strip()
        except TimeoutError:
            process.kill()
            said = f"no answer within {WITHDRAWAL_SECONDS:g} s"
        if process.returncode != 0:
            logger.warning("%s; it was not ended with its driver: %s", story.queued, said)

    async def _delete_pods(self) -> None:
        """Of a driver that is no more, and may have had no time for it."""
        if self._spec.pods is not None and self.story is not None:
            await self._spec.pods.delete(self.story.application)

    async def _keep_running(self) -> None:
        while True:
            async with self._spec.generations.another() as generation:
                died, lived_seconds = await self._run_one(generation)
            await self._delete_pods()
            if self._renewing:
                self._renewing = False
                continue
            if lived_seconds > SETTLED_SECONDS:
                self._failures.clear()
            else:
                self._failures.append(str(died))
            if self._spec.archive is not None and self.current is None:
                self._spec.archive.distrust()
            failure = FailureInfo(
                kind=FailureKind.ENVIRONMENT,
                message=str(died),
                exception="SparkBackendDied",
                trace=died.tail,
                backend=f"spark-{generation}",
                spared=not self._may_be_blamed_on_attempts,
            )
            if len(self._failures) >= MAX_FAILURES:
                self._give_up(failure)
                await self._wanted.wait()
                self._wanted.clear()
            else:
                logger.warning("%s; starting another (%d failures of %d)", died, len(self._failures), MAX_FAILURES)
                self._replace(failure)
                await asyncio.sleep(RESTART_DELAYS_S.after(max(1, len(self._failures))))

    @property
    def _may_be_blamed_on_attempts(self) -> bool:
        """Whether what ran in the JVM that has died may have killed it: not when its cluster has ended the application."""
        return self.story is None or not self.story.fatal

    async def _run_one(self, generation: int) -> tuple[JvmDied, float]:
        """One JVM from start to death: its death, and how long it was of use."""
        spec, log = self._spec, self._spec.generations.log(generation)
        flags = spec.archive.flags() if spec.archive is not None else ()
        application = f"spark-{uuid.uuid4().hex}" if spec.pods is not None else ""
        flags += (f"-Dspark.app.id={application}",) if application else ()
        jvm = self._jvm = SparkJvm(spec.make_command(flags), log, generation, spec.ephemeral, driver=spec.driver)
        self._begun = self.story = None
        try:
            await self._reach(spec.driver, log)
            async with spec.turns.turn(spec.start_timeout_seconds) as end_turn:
                self._begun = time.monotonic()
                await jvm.start()
                self._follow(jvm, application)
                endpoint = await self._answer(jvm, end_turn)
        except JvmDied as failed:
            return await self._explained(failed), 0.0
        if spec.archive is not None:
            spec.archive.started()
        answered = time.monotonic()
        self._endpoint.set_result(endpoint)
        heartbeat = self._background.start(self._watch_silence(jvm, endpoint), "spark-heartbeat")
        died = await self._explained(await jvm.died())
        heartbeat.cancel()
        self.silence = ""
        return died, time.monotonic() - answered

    async def _watch_silence(self, jvm: SparkJvm, endpoint: SparkAddress) -> None:
        def show(text: str) -> None:
            self.silence = text

        why = await silence(jvm, endpoint, self._spec.silence_seconds, show)
        doubt = "was it stopped, or does the machine swap?"
        await jvm.kill(f"the Spark backend {why} (taskmanager.spark.heartbeat.timeout), and was ended: {doubt}")

    async def _reach(self, driver: Driver | None, log: Path) -> None:
        """Wait for the master of a cluster, as long as for a start. Raises JvmDied."""
        limit = time.monotonic() + self._spec.start_timeout_seconds
        while driver is not None:
            try:
                await driver_host(driver.master)
                break
            except MasterUnreachable as unreachable:
                self._obstacle = str(unreachable)
            if time.monotonic() >= limit:
                raise JvmDied(1, log, self._obstacle)
            await asyncio.sleep(REACH_PAUSE_SECONDS)
        self._obstacle = ""

    def _follow(self, jvm: SparkJvm, application: str) -> None:
        """Read what becomes of the application; a driver whose application is over is ended: it would go on without. Its id is
        empty where the cluster gives it."""
        driver = self._spec.driver
        self._ui = ""
        if driver is None:
            if self._spec.has_ui:
                self._background.start(self._find_ui(jvm), "spark-ui")
            return
        story = self.story = story_of(driver, self._spec.version)
        story.application = application

        async def follow() -> None:
            async for line in jvm.lines():
                story.read(line)
                if story.fatal:
                    await jvm.kill()
                    return

        self._background.start(self._watch_master(jvm, driver, story), "cluster-master")
        self._following = self._background.start(follow(), "cluster-story")

    async def _watch_master(self, jvm: SparkJvm, driver: Driver, story: ClusterStory) -> None:
        """End a driver whose master is back and does not know it any more; ask what the pods of one without executors do."""
        lost = LostMaster(driver.master)
        while jvm.pid is not None and not story.fatal:
            await asyncio.sleep(REACH_PAUSE_SECONDS)
            if self._spec.pods is not None and isinstance(story, KubernetesStory) and not story.executors:
                await self._spec.pods.look(story)
            is_lost = story.master_is_lost
            is_reachable = is_lost and await _can_be_reached(driver.master)
            is_lost = is_lost and story.master_is_lost  # it may have come back meanwhile
            if lost.has_forgotten(is_lost=is_lost, is_reachable=is_reachable, now_s=time.monotonic()):
                story.forgotten()
                await jvm.kill()

    async def _find_ui(self, jvm: SparkJvm) -> None:
        async for line in jvm.lines():
            if port := ui_port(line):
                self._ui = f"http://{LOOPBACK}:{port}"
                return

    async def _explained(self, died: JvmDied) -> JvmDied:
        """The death with what the cluster has said of it."""
        if self.story is None or self._following is None:
            return died
        await asyncio.wait((self._following,), timeout=LAST_WORDS_SECONDS)
        self._following.cancel()
        return JvmDied(died.status, died.log, self.story.fatal) if self.story.fatal else died

    async def _answer(self, jvm: SparkJvm, end_turn: Callable[[], None]) -> SparkAddress:
        """Wait for it as long as it gets on; longer than the last time, which was not enough. Raises JvmDied."""
        limit_seconds = self._spec.start_timeout_seconds * (1 + len(self._failures))
        patience = Patience(limit_seconds, time.monotonic())
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(SAMPLE_SECONDS, limit_seconds / 4)):
                    return await jvm.endpoint()
            now = time.monotonic()
            if self._queued():  # that is no start which does not get on
                patience = Patience(limit_seconds, now)
                end_turn()
            patience.note(await asyncio.to_thread(work_of, jvm.pid, jvm.log), now)
            if patience.idle_seconds(now) >= TURN_SECONDS:
                end_turn()
            if patience.is_over(now):
                why = f"the Spark backend {patience.why(now)} (taskmanager.spark.start-timeout)"
                await jvm.kill(f"{why}; the end of its log is in the trace")
                raise await jvm.died()

    def _replace(self, failure: FailureInfo) -> None:
        loop = asyncio.get_running_loop()
        death, self._death = self._death, loop.create_future()
        if self._endpoint.done():
            self._endpoint = loop.create_future()
        death.set_result(failure)

    def _give_up(self, failure: FailureInfo) -> None:
        """Who waits is told; its attempt was in no JVM, so that it has nothing to do with the death of one."""
        message = (
            f"the Spark backend was given up after {len(self._failures)} failures in a row, the last: {failure.message}"
        )
        logger.error("%s", message)
        del self._failures[: -(MAX_FAILURES - 1)]  # one more start is tried for who asks for it
        self._replace(failure)
        self._endpoint.set_exception(TaskFailedError(msgspec.structs.replace(failure, message=message, backend="")))
        self._endpoint.exception()  # read: nobody may be waiting
        self._given_up = True


async def _can_be_reached(master: SparkMaster) -> bool:
    try:
        await driver_host(master)
    except MasterUnreachable:
        return False
    return True
