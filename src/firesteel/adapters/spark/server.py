"""The worker's Spark backend over time: one JVM after another, with bounded restarts, and their session keeper."""

import asyncio
import logging
import time
from collections.abc import Callable
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


class SparkServer:
    """Keeps a JVM running. `endpoint()` waits for the one that is up or coming."""

    def __init__(
        self,
        make_command: Callable[[tuple[str, ...]], list[str]],
        archive: ClassDataArchive | None,
        log_directory: Path,
        start_timeout_seconds: float,
        ephemeral: Path | None = None,
    ) -> None:
        self._make_command, self._archive = make_command, archive
        self._log_directory, self._start_timeout = log_directory, start_timeout_seconds
        self._ephemeral = ephemeral
        self._jvm: SparkJvm | None = None
        self._generation = 0
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

    async def end_python_workers(self, server_session: str) -> None:
        """End what the JVM keeps for a session that was closed."""
        pid = self._jvm.pid if self._jvm is not None else None
        if pid is not None:
            await asyncio.to_thread(end_python_workers, pid, server_session)

    async def close(self) -> None:
        """End the JVM, hard: its sessions are closed, and it has no state of its own. Idempotent."""
        await self._background.close()
        was_up = self.current is not None
        if self._jvm is not None:
            await self._jvm.kill()
        for future in (self._endpoint, self._death):
            future.cancel()
        if was_up and self._archive is not None:
            await self._archive.write()

    async def _keep_running(self) -> None:
        restarts = 0
        while True:
            started = time.monotonic()
            died = await self._run_one()
            failure = FailureInfo(
                kind=FailureKind.ENVIRONMENT, message=str(died), exception="SparkBackendDied", trace=died.tail
            )
            restarts = 0 if time.monotonic() - started > SETTLED_SECONDS else restarts + 1
            if self._archive is not None and self.current is None:
                self._archive.distrust()
            if restarts > MAX_RESTARTS:
                self._give_up(failure)
                return
            logger.warning("%s; starting another (%d of %d)", failure.message, restarts, MAX_RESTARTS)
            self._renew(failure)
            await asyncio.sleep(FIRST_BACKOFF_SECONDS * 2 ** max(0, restarts - 1))

    async def _run_one(self) -> JvmDied:
        """One JVM from start to death."""
        self._generation += 1
        flags = self._archive.flags() if self._archive is not None else ()
        log = self._log_directory / f"spark-{self._generation}.log"
        jvm = self._jvm = SparkJvm(self._make_command(flags), log, self._generation, self._ephemeral)
        await jvm.start()
        try:
            async with asyncio.timeout(self._start_timeout):
                self._endpoint.set_result(await jvm.endpoint())
        except TimeoutError:
            await jvm.kill()
        except JvmDied as died:
            return died
        return await jvm.died()

    def _renew(self, failure: FailureInfo) -> None:
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
    installation: launch.SparkInstallation, heap_mib: int, work_dir: Path, settings: dict[str, str]
) -> Callable[[tuple[str, ...]], list[str]]:
    """Makes the command for the given flags of a class-data archive; prepares the directories it names."""
    for name in ("tmp", "derby", "local", "warehouse"):
        (work_dir / name).mkdir(parents=True, exist_ok=True)
    (work_dir / launch.LOG_CONFIGURATION_NAME).write_text(launch.LOG_CONFIGURATION)

    def make(archive_flags: tuple[str, ...]) -> list[str]:
        flags = (*launch.jvm_flags(heap_mib), *archive_flags)
        return launch.java_command(installation, flags, work_dir, settings)

    return make
