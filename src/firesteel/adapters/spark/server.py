"""The worker's Spark backend over time: one JVM after another, with bounded restarts, and their session keeper."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from firesteel.adapters.spark import launch
from firesteel.adapters.spark.archive import ClassDataArchive
from firesteel.adapters.spark.jvm import JvmDied, SparkJvm
from firesteel.adapters.spark.pythonworkers import end_python_workers
from firesteel.adapters.spark.wire import Endpoint
from firesteel.model.failures import FailureInfo, FailureKind
from firesteel.runtime.background import BackgroundTasks
from firesteel.runtime.ports import TaskFailedError

logger = logging.getLogger(__name__)

MAX_RESTARTS = 5
"""Deaths in a row, each soon after the start, before the backend is given up."""
SETTLED_SECONDS = 60.0
"""A JVM that lived so long starts the count of restarts over."""
FIRST_BACKOFF_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """What all JVMs of one server, and in part those of one worker, have in common."""

    make_command: Callable[[tuple[str, ...]], list[str]]
    """The command line, for the given flags of a class-data archive."""
    archive: ClassDataArchive | None
    logs: Path
    start_timeout_seconds: float
    ephemeral: Path | None
    numbers: Iterator[int]
    """Generations: of all JVMs of the worker, so that their logs have names of their own."""


class SparkServer:
    """Keeps a JVM running. `endpoint()` waits for the one that is up or coming."""

    def __init__(self, spec: ServerSpec) -> None:
        self._spec = spec
        self._jvm: SparkJvm | None = None
        self._renewing = False
        self._endpoint: asyncio.Future[Endpoint] = asyncio.get_running_loop().create_future()
        self._death: asyncio.Future[FailureInfo] = asyncio.get_running_loop().create_future()
        self._background = BackgroundTasks()

    def start(self) -> None:
        """Begin; returns at once."""
        self._background.start(self._keep_running(), "spark-server")

    async def endpoint(self) -> Endpoint:
        """Where the running JVM listens. Raises TaskFailedError when it was given up."""
        return await asyncio.shield(self._endpoint)

    @property
    def current(self) -> Endpoint | None:
        """The same, without waiting."""
        future = self._endpoint
        return future.result() if future.done() and not future.cancelled() and future.exception() is None else None

    def death(self) -> asyncio.Future[FailureInfo]:
        """Set when the JVM that is up now, or coming, dies. Not to be cancelled: shield it."""
        return self._death

    @property
    def pid(self) -> int | None:
        """Of the JVM's supervisor, while it runs."""
        return self._jvm.pid if self._jvm is not None else None

    async def end_python_workers(self, server_session: str) -> None:
        """End what the JVM keeps for a session that was closed."""
        if self.pid is not None:
            await asyncio.to_thread(end_python_workers, self.pid, server_session)

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
        for future in (self._endpoint, self._death):
            future.cancel()

    async def _keep_running(self) -> None:
        restarts = 0
        while True:
            started = time.monotonic()
            generation, died = await self._run_one()
            failure = FailureInfo(
                kind=FailureKind.ENVIRONMENT,
                message=str(died),
                exception="SparkBackendDied",
                trace=died.tail,
                backend=f"spark-{generation}",
            )
            restarts = 0 if self._renewing or time.monotonic() - started > SETTLED_SECONDS else restarts + 1
            if self._spec.archive is not None and self.current is None and not self._renewing:
                self._spec.archive.distrust()
            if restarts > MAX_RESTARTS:
                self._give_up(failure)
                return
            if not self._renewing:
                logger.warning("%s; starting another (%d of %d)", failure.message, restarts, MAX_RESTARTS)
                self._replace(failure)
                await asyncio.sleep(FIRST_BACKOFF_SECONDS * 2 ** max(0, restarts - 1))
            self._renewing = False

    async def _run_one(self) -> tuple[int, JvmDied]:
        """One JVM from start to death."""
        spec, generation = self._spec, next(self._spec.numbers)
        flags = spec.archive.flags() if spec.archive is not None else ()
        log = spec.logs / f"spark-{generation}.log"
        jvm = self._jvm = SparkJvm(spec.make_command(flags), log, generation, spec.ephemeral)
        await jvm.start()
        try:
            async with asyncio.timeout(spec.start_timeout_seconds):
                self._endpoint.set_result(await jvm.endpoint())
            if spec.archive is not None:
                spec.archive.started()
        except TimeoutError:
            await jvm.kill()
            limit = f"{spec.start_timeout_seconds:g} s (taskmanager.spark.start-timeout)"
            why = f"the Spark backend did not answer within {limit}; the end of its log is in the trace"
            return generation, JvmDied((await jvm.died()).status, log, why)
        except JvmDied as died:
            return generation, died
        return generation, await jvm.died()

    def _replace(self, failure: FailureInfo) -> None:
        loop = asyncio.get_running_loop()
        death, self._death = self._death, loop.create_future()
        if self._endpoint.done():
            self._endpoint = loop.create_future()
        death.set_result(failure)

    def _give_up(self, failure: FailureInfo) -> None:
        logger.error("%s; it is given up after %d restarts", failure.message, MAX_RESTARTS)
        if self._endpoint.done():
            self._endpoint = asyncio.get_running_loop().create_future()
        self._endpoint.set_exception(TaskFailedError(failure))
        self._endpoint.exception()  # read: nobody may be waiting
        self._death.set_result(failure)


def backend_command(
    installation: launch.SparkInstallation, heap_mib: int, work_dir: Path, settings: Mapping[str, str]
) -> Callable[[tuple[str, ...]], list[str]]:
    """Makes the command for the given flags of a class-data archive; prepares the directories it names."""
    for name in ("tmp", "derby", "local", "warehouse"):
        (work_dir / name).mkdir(parents=True, exist_ok=True)
    (work_dir / launch.LOG_CONFIGURATION_NAME).write_text(launch.LOG_CONFIGURATION)

    def make(archive_flags: tuple[str, ...]) -> list[str]:
        flags = (*launch.jvm_flags(heap_mib), *archive_flags)
        return launch.java_command(installation, flags, work_dir, settings)

    return make
